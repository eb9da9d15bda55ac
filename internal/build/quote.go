package build

import (
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// variable is a script's variable that stands for a path.
type variable struct{ name, value string }

// words quotes s for a POSIX shell and puts the shell variable of each name in vars
// where its value stands as a whole path or as the beginning of one.
func words(s string, vars []variable) string {
	parts := split(s, vars)
	if len(parts) == 0 {
		return run.Quote(s)
	}
	var b strings.Builder
	for _, p := range parts {
		if p.name != "" {
			b.WriteString(`"$` + p.name + `"`)
		} else {
			b.WriteString(run.Quote(p.value))
		}
	}
	return b.String()
}

// split cuts s where the value of a variable begins and ends; what is none has no name.
// Of two variables that fit, the first counts.
func split(s string, vars []variable) []variable {
	for _, v := range vars {
		if v.value == "" {
			continue
		}
		for from := 0; ; {
			i := strings.Index(s[from:], v.value)
			if i < 0 {
				break
			}
			i += from
			end := i + len(v.value)
			if pathEnds(s[end:]) && pathBegins(s[:i]) {
				return append(append(split(s[:i], vars), v), split(s[end:], vars)...)
			}
			from = end
		}
	}
	if s == "" {
		return nil
	}
	return []variable{{value: s}}
}

func pathEnds(rest string) bool {
	return rest == "" || strings.ContainsRune(`/=:" `, rune(rest[0]))
}

func pathBegins(before string) bool {
	return before == "" || strings.ContainsRune(`=:" `, rune(before[len(before)-1]))
}
