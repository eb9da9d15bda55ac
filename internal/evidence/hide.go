package evidence

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// hider replaces the machine's folders by names, in everything that is recorded.
type hider struct {
	from, to []string // the longest first
	secrets  []string
}

// newHider knows the plan's builds, the variables whose value is a path, and the
// secrets of them and of the environment.
func newHider(p *Plan, vars map[string]string, env ...string) *hider {
	type pair struct{ from, to string }
	var all []pair
	add := func(dir, name string) {
		if dir == "" {
			return
		}
		if abs, err := filepath.Abs(dir); err == nil && strings.ContainsRune(dir, filepath.Separator) {
			dir = abs
		}
		if !filepath.IsAbs(dir) || dir == string(filepath.Separator) {
			return
		}
		all = append(all, pair{dir, name})
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir && real != string(filepath.Separator) {
			all = append(all, pair{real, name})
		}
	}
	for _, b := range p.Builds {
		add(b.Dir, "{"+b.Name+"}")
	}
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		add(vars[k], "{"+k+"}")
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(len(b.from), len(a.from)) })
	h := &hider{secrets: secrets(p, vars, env)}
	for _, q := range all {
		h.from, h.to = append(h.from, q.from), append(h.to, q.to)
	}
	return h
}

// pathRE is an absolute path after what may stand before one, also a flag's letter
// (-I/a/b), an escaped line break and file://; its last part is kept. The system's
// own folders are the same everywhere.
var (
	pathRE = regexp.MustCompile(`(` + beforePath + `|[\s"'` + "`" + `=:;,(\[{<>|&#!@])(/[` + inPath + `]+(?:/+[` +
		inPath + `]+)*/+)([` + inPath + `]*)`)
	systemRE = regexp.MustCompile(`^/(usr/(s?bin|lib|lib64|libexec|share|include|local/cuda[^/]*)|s?bin|lib|lib64|etc|proc|sys|dev|opt/nvidia)(/|$)`)
	beforeRE = regexp.MustCompile(`(?:` + beforePath + `)$`)
)

const (
	beforePath = `^|(?:^|[\s"'=,\[])-[A-Za-z]|\\[a-z]|file://`
	inPath     = `\pL\pM\pN_.+@%~-`
)

// text hides the folders and the secrets in a text.
func (h *hider) text(s string) string {
	for _, v := range h.secrets {
		s = strings.ReplaceAll(s, v, hidden)
	}
	for i, from := range h.from {
		s = replacePath(s, from, h.to[i])
	}
	return pathRE.ReplaceAllStringFunc(s, func(all string) string {
		m := pathRE.FindStringSubmatch(all)
		if systemRE.MatchString(m[2] + m[3]) {
			return all
		}
		return m[1] + "{path}/" + m[3]
	})
}

// replacePath replaces a folder where it ends as a folder does: /a is no part of /ab.
func replacePath(s, from, to string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, from)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := i + len(from)
		whole := end == len(s) || !isPathByte(s[end])
		if whole && (i == 0 || !isPathByte(s[i-1]) || beforeRE.MatchString(s[max(0, i-8):i])) {
			b.WriteString(s[:i] + to)
		} else {
			b.WriteString(s[:end])
		}
		s = s[end:]
	}
}

func isPathByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '+' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' &&
		c <= 'Z' || c >= 0x80
}
