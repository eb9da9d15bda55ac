package build

import (
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// words quotes s and puts the shell variable of each name in vars where its
// value stands as a whole path or as the beginning of one.
func words(s string, vars []variable) string {
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
			if !pathEnds(s[end:]) || !pathBegins(s[:i]) {
				from = end
				continue
			}
			var b strings.Builder
			if i > 0 {
				b.WriteString(words(s[:i], vars))
			}
			b.WriteString(`"$` + v.name + `"`)
			if end < len(s) {
				b.WriteString(words(s[end:], vars))
			}
			return b.String()
		}
	}
	return run.Quote(s)
}

// variable is a shell variable that stands for a path.
type variable struct{ name, value string }

func pathEnds(rest string) bool {
	return rest == "" || strings.ContainsRune(`/=:" `, rune(rest[0]))
}

func pathBegins(before string) bool {
	return before == "" || strings.ContainsRune(`=:" `, rune(before[len(before)-1]))
}
