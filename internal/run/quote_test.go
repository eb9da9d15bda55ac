//go:build linux

package run_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func FuzzQuote(f *testing.F) {
	for _, s := range []string{
		"", "plain", "a b", "it's", `"$HOME"`, "`id`", "$(id)", "\\", "\n", "a\nb\n", "~", "#x",
		"-n", "FOO=1", "-DFOO=1", "-=", "=x", "*", "é", "\xff\xfe", "''", `'\''`, "!", "a;b&c|d", "\t",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			t.Skip("no argument holds a NUL")
		}
		// Twice, so that a word that swallows the next one is seen.
		out, err := exec.Command("/bin/sh", "-c", "printf '%s|%s.' "+run.Quote(s)+" "+run.Quote(s)).Output()
		if want := s + "|" + s + "."; err != nil || string(out) != want {
			t.Errorf("%q became %q (%v)", want, out, err)
		}
	})
}

func TestQuoteArgv(t *testing.T) {
	if got, want := run.QuoteArgv([]string{"cmake", "-DX=a b", "it's", ""}), `cmake '-DX=a b' 'it'\''s' ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
