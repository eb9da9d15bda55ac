package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// A tree of the cache still tells which source it came from; a path that was
// given on the command line is not told.
func TestOrigin(t *testing.T) {
	u := newUpstream(t)
	o, _ := options(t, u.lock)
	web := []spec.Source{{
		Name: "web", Upstream: "llama.cpp", Kind: "git",
		URL: gitServer(t, filepath.Join(u.dir, ".git"), nil),
	}}
	o.Sources = web
	for _, source := range []string{"web", "cache"} {
		if tree := mustFetch(t, o, "b101"); tree.Origin != "web" || tree.Source != source {
			t.Errorf("origin %q, source %q", tree.Origin, tree.Source)
		}
	}
	o.Override = u.bundle(t, "b102")
	for range 2 {
		if tree := mustFetch(t, o, "b102"); tree.Origin != "--source" {
			t.Errorf("origin %q", tree.Origin)
		}
	}
	o.Override = u.dir
	if tree := mustFetch(t, o, "b103"); tree.Origin != "--source" {
		t.Errorf("origin %q", tree.Origin)
	}
	o.Override = ""
	if tree := mustFetch(t, o, "b101"); tree.Origin != "web" {
		t.Errorf("after another tree: origin %q", tree.Origin)
	}
	must(t, os.WriteFile(filepath.Join(o.Cache, "llama.cpp.sources.json"), []byte("{"), 0o644))
	if tree := mustFetch(t, o, "b101"); tree.Origin != "cache" {
		t.Errorf("with a broken record: origin %q", tree.Origin)
	}
}
