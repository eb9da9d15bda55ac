package patch

import (
	"errors"
	"strings"
)

const devNull = "/dev/null"

// unquoteC reads a name that git wrote in C's quotes and returns what follows
// the closing quote. go-gitdiff takes an escaped backslash before that quote
// for an escaped quote.
func unquoteC(s string) (name, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", errors.New("name is not quoted")
	}
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return out.String(), s[i+1:], nil
		case c != '\\':
			out.WriteByte(c)
		default:
			i++
			if i == len(s) {
				return "", "", errors.New("quoted name does not end")
			}
			const letters, values = `abtnvfr"\`, "\a\b\t\n\v\f\r\"\\"
			if j := strings.IndexByte(letters, s[i]); j >= 0 {
				out.WriteByte(values[j])
				continue
			}
			if i+2 >= len(s) || s[i] < '0' || s[i] > '3' || !isOctal(s[i+1]) || !isOctal(s[i+2]) {
				return "", "", errors.New("quoted name holds an unknown escape")
			}
			out.WriteByte((s[i]-'0')<<6 | (s[i+1]-'0')<<3 | (s[i+2] - '0'))
			i += 2
		}
	}
	return "", "", errors.New("quoted name does not end")
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// headerName reads the name of a "--- ", "+++ ", "rename from " … line. An
// unquoted name ends at a tab, behind which diff writes a date; git quotes names
// that hold one.
func headerName(s string) (string, error) {
	if strings.HasPrefix(s, `"`) {
		name, _, err := unquoteC(s)
		return name, err
	}
	name, _, _ := strings.Cut(s, "\t")
	switch {
	case name == "":
		return "", errors.New("name is missing")
	case strings.TrimRight(name, " ") == devNull:
		return devNull, nil
	}
	return name, nil
}

// stripFolder removes the first folder, which is a/ or b/ in what git writes.
func stripFolder(name string) (string, bool) {
	_, rest, ok := strings.Cut(name, "/")
	return rest, ok && rest != ""
}

// commonName reads the name from "a/NAME b/NAME". It is needed only where no
// other line has it; for a rename, where the two differ, it returns "".
func commonName(s string) string {
	var first, second string
	switch {
	case strings.HasPrefix(s, `"`):
		var err error
		if first, s, err = unquoteC(s); err != nil {
			return ""
		}
		s = strings.TrimLeft(s, " \t")
		if second = s; strings.HasPrefix(s, `"`) {
			if second, _, err = unquoteC(s); err != nil {
				return ""
			}
		}
	case strings.Contains(s, ` "`):
		i := strings.Index(s, ` "`)
		var err error
		first = s[:i]
		if second, _, err = unquoteC(s[i+1:]); err != nil {
			return ""
		}
	default:
		// Names may hold spaces: the right one is where both sides agree.
		for i := range len(s) {
			if s[i] != ' ' {
				continue
			}
			a, okA := stripFolder(s[:i])
			b, okB := stripFolder(s[i+1:])
			if okA && okB && a == b {
				return a
			}
		}
		return ""
	}
	a, okA := stripFolder(first)
	b, okB := stripFolder(second)
	if !okA || !okB || a != b {
		return ""
	}
	return a
}
