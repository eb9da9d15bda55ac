package exit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/llpatch/llpatch/internal/exit"
)

type coded int

func (c coded) Error() string { return fmt.Sprint("code ", int(c)) }
func (c coded) ExitCode() int { return int(c) }

type around struct{ err error }

func (a around) Error() string { return "around" }
func (a around) ExitCode() int { return exit.NotRun }
func (a around) Unwrap() error { return a.err }

type hinting string

func (h hinting) Error() string { return "hinting" }
func (h hinting) Hint() string  { return string(h) }

func TestCode(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		err  error
		want int
	}{
		{plain, exit.Unexpected},
		{fmt.Errorf("more: %w", plain), exit.Unexpected},
		{fmt.Errorf("more: %w", coded(exit.Build)), exit.Build},
		{around{coded(exit.Build)}, exit.NotRun},
		{around{nil}, exit.NotRun},
		{errors.Join(coded(exit.NotRun), coded(exit.Smoke)), exit.Smoke},
		{errors.Join(plain, coded(exit.Source), plain), exit.Source},
		{fmt.Errorf("%w and %w", around{plain}, errors.Join(plain, coded(exit.Usage))), exit.Usage},
		{errors.Join(plain, plain), exit.Unexpected},
	} {
		if got := exit.Code(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestHint(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("plain"), ""},
		{coded(exit.Build), ""},
		{fmt.Errorf("more: %w", hinting("do this")), "do this"},
		{around{hinting("beneath")}, "beneath"},
		{errors.Join(coded(exit.Smoke), hinting("one of two")), "one of two"},
	} {
		if got := exit.Hint(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	fixes := []string{"graph-cache-lru", "ubatch-pool-purge", "managed-fallback", "win7-compat"}
	for _, c := range []struct {
		name  string
		names []string
		want  string
	}{
		{"relaese", []string{"build", "release"}, "did you mean release?"},
		{"graph-lru", fixes, "did you mean graph-cache-lru?"},
		{"purge", fixes, "did you mean ubatch-pool-purge?"},
		{"win7-compt", fixes, "did you mean win7-compat?"},
		{"nothing", fixes, ""},
		{"x", []string{"y", "xy"}, ""},
		{"wth", []string{"what", "with"}, "did you mean with?"},
		{"aaa", []string{"aaa1", "aaa22", "aaa", "aa"}, "did you mean aaa or aaa1 or aa?"},
		{"", []string{"a"}, ""},
		{"name", nil, ""},
	} {
		if got := exit.DidYouMean(c.name, c.names); got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}
