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
}

// newHider knows the plan's builds and the variables whose value is a path.
func newHider(p *Plan, vars map[string]string) *hider {
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
	h := &hider{}
	for _, q := range all {
		h.from, h.to = append(h.from, q.from), append(h.to, q.to)
	}
	return h
}

// pathRE is an absolute path after what may stand before one; its last part is
// kept. The system's own folders are the same everywhere.
var (
	pathRE   = regexp.MustCompile(`(^|[\s"'` + "`" + `=:;,(\[<>|])((?:/[\w.+@%~-]+)+/)([\w.+@%~-]*)`)
	systemRE = regexp.MustCompile(`^/(usr/(s?bin|lib|lib64|libexec|share|include|local/cuda[^/]*)|s?bin|lib|lib64|etc|proc|sys|dev|opt/nvidia)(/|$)`)
)

// text hides the folders in a text.
func (h *hider) text(s string) string {
	for i, from := range h.from {
		s = replacePath(s, from, h.to[i])
	}
	return pathRE.ReplaceAllStringFunc(s, func(m string) string {
		at := strings.IndexByte(m, '/')
		if systemRE.MatchString(m[at:]) {
			return m
		}
		return m[:at] + "{path}/" + m[strings.LastIndexByte(m, '/')+1:]
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
		if whole && (i == 0 || !isPathByte(s[i-1])) {
			b.WriteString(s[:i] + to)
		} else {
			b.WriteString(s[:end])
		}
		s = s[end:]
	}
}

func isPathByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '+' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func (h *hider) list(in []string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, h.text(s))
	}
	return out
}

func (h *hider) env(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = h.text(v)
	}
	return out
}
