package spec_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch/internal/spec"
)

// TestChooseOS: a fix that is for one system is in the tree of no target for
// another, and takes with it what requires it.
func TestChooseOS(t *testing.T) {
	m := files(t, "testdata/good.txtar")
	text := string(m["patches/alpha/fix.toml"].Data)
	m["patches/alpha/fix.toml"] = &fstest.MapFile{Data: []byte(strings.Replace(text, "proof ",
		"os       = [\"win7\"]\nproof ", 1))}
	r, err := spec.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	for system, want := range map[string]string{
		"win7":  "alpha beta",
		"linux": "",
	} {
		rec, err := r.Recipe("everything")
		if err != nil {
			t.Fatal(err)
		}
		rec.OS = system
		s, err := r.Choose(rec, "b150", spec.Pin{Build: 150})
		if err != nil {
			t.Fatal(err)
		}
		var in []string
		for _, c := range s.In {
			in = append(in, c.Fix)
		}
		if got := strings.Join(in, " "); got != want {
			t.Errorf("for %s: chosen %q, want %q", system, got, want)
		}
		if system == "linux" && s.Out[0].Reason != "it is for win7, and the target for linux" {
			t.Errorf("reason %q", s.Out[0].Reason)
		}
	}
}
