package smoke

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
)

// args reads a check's arguments as TOML gives them, and remembers which were
// asked for, so that a misspelt one is an error.
type args struct {
	values map[string]any
	known  []string
	errs   []error
}

func (a *args) get(key string) (any, bool) {
	a.known = append(a.known, key)
	v, ok := a.values[key]
	return v, ok
}

func (a *args) bad(key, want string) {
	a.errs = append(a.errs, fmt.Errorf("%s is %v, it must be %s", key, a.values[key], want))
}

// duration reads a time such as "5s".
func (a *args) duration(key string, def time.Duration) time.Duration {
	v, ok := a.get(key)
	if !ok {
		return def
	}
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		a.bad(key, `a time such as "5s"`)
	}
	return d
}

// number reads a whole number of at least least.
func (a *args) number(key string, def, least int) int {
	v, ok := a.get(key)
	if !ok {
		return def
	}
	n, ok := v.(int64)
	if i, isInt := v.(int); isInt {
		n, ok = int64(i), true
	}
	if !ok || n < int64(least) || n > 1<<30 {
		a.bad(key, fmt.Sprintf("a whole number of at least %d", least))
	}
	return int(n)
}

// fraction reads a number that is not negative.
func (a *args) fraction(key string, def float64) float64 {
	v, ok := a.get(key)
	if !ok {
		return def
	}
	n, ok := v.(float64)
	if i, isInt := v.(int64); isInt {
		n, ok = float64(i), true
	}
	if !ok || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
		a.bad(key, "a number of at least 0")
	}
	return n
}

func (a *args) flag(key string, def bool) bool {
	v, ok := a.get(key)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		a.bad(key, "true or false")
	}
	return b
}

func (a *args) text(key, def string) string {
	v, ok := a.get(key)
	if !ok {
		return def
	}
	s, ok := v.(string)
	if !ok || s == "" {
		a.bad(key, "a text")
	}
	return s
}

func (a *args) list(key string, def []string) []string {
	v, ok := a.get(key)
	if !ok {
		return def
	}
	if l, ok := v.([]string); ok {
		return l
	}
	var out []string
	l, ok := v.([]any)
	for _, e := range l {
		s, isText := e.(string)
		ok = ok && isText
		out = append(out, s)
	}
	if !ok {
		a.bad(key, "a list of texts")
	}
	return out
}

func (a *args) modelType() gguf.Type {
	t, err := gguf.ParseType(a.text("model", "f16"))
	if err != nil {
		a.errs = append(a.errs, err)
	}
	return t
}

// done returns what was wrong with the arguments.
func (a *args) done() error {
	for _, key := range slices.Sorted(maps.Keys(a.values)) {
		if !slices.Contains(a.known, key) {
			takes := "it takes none"
			if len(a.known) > 0 {
				takes = "it takes " + strings.Join(a.known, ", ")
			}
			a.errs = append(a.errs, fmt.Errorf("argument %s is not known; %s", key, takes))
		}
	}
	return errors.Join(a.errs...)
}
