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

// take reads an argument as read does, which says whether it is what is wanted.
func take[T any](a *args, key string, def T, want string, read func(v any) (T, bool)) T {
	a.known = append(a.known, key)
	v, ok := a.values[key]
	if !ok {
		return def
	}
	got, ok := read(v)
	if !ok {
		a.bad(key, want)
	}
	return got
}

func (a *args) bad(key, want string) {
	a.errs = append(a.errs, fmt.Errorf("%s is %v, it must be %s", key, a.values[key], want))
}

// duration reads a time such as "5s".
func (a *args) duration(key string, def time.Duration) time.Duration {
	return take(a, key, def, `a time such as "5s"`, func(v any) (time.Duration, bool) {
		text, _ := v.(string)
		d, err := time.ParseDuration(text)
		return d, err == nil && d > 0
	})
}

// number reads a whole number of at least least.
func (a *args) number(key string, def, least int) int {
	return take(a, key, def, fmt.Sprintf("a whole number of at least %d", least), func(v any) (int, bool) {
		n, ok := v.(int64)
		if i, isInt := v.(int); isInt {
			n, ok = int64(i), true
		}
		return int(n), ok && n >= int64(least) && n <= 1<<30
	})
}

// fraction reads a number that is not negative.
func (a *args) fraction(key string, def float64) float64 {
	return take(a, key, def, "a number of at least 0", func(v any) (float64, bool) {
		n, ok := v.(float64)
		if i, isInt := v.(int64); isInt {
			n, ok = float64(i), true
		}
		return n, ok && n >= 0 && !math.IsInf(n, 0)
	})
}

func (a *args) flag(key string, def bool) bool {
	return take(a, key, def, "true or false", func(v any) (bool, bool) {
		b, ok := v.(bool)
		return b, ok
	})
}

func (a *args) text(key, def string) string {
	return take(a, key, def, "a text", func(v any) (string, bool) {
		s, _ := v.(string)
		return s, s != ""
	})
}

func (a *args) list(key string, def []string) []string {
	return take(a, key, def, "a list of texts", func(v any) ([]string, bool) {
		if l, ok := v.([]string); ok {
			return l, true
		}
		var out []string
		l, ok := v.([]any)
		for _, e := range l {
			s, isText := e.(string)
			ok = ok && isText
			out = append(out, s)
		}
		return out, ok
	})
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
