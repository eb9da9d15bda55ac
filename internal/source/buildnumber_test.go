package source

import (
	"strconv"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// TestBuildNumberOfMerges: the build number of a commit is git's own count, with
// what merges brought in, whatever upstream it is of.
func TestBuildNumberOfMerges(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "checkout", "-q", "-b", "side", "b102")
	for range 3 {
		git(t, u.dir, "commit", "-q", "--allow-empty", "-m", "side")
	}
	git(t, u.dir, "checkout", "-q", "master")
	git(t, u.dir, "merge", "-q", "--no-ff", "-m", "merge", "side")
	commit := git(t, u.dir, "rev-parse", "HEAD")
	for _, upstream := range []string{spec.LlamaCpp, spec.IkLlamaCpp} {
		o, _ := options(t, u.lock)
		o.Override = u.dir
		tree, err := Fetch(t.Context(), o, upstream, tag.MustParse(commit))
		must(t, err)
		if want := git(t, u.dir, "rev-list", "--count", "HEAD"); strconv.Itoa(tree.Pin.Build) != want || want != "7" {
			t.Errorf("%s: build %d, git counts %s", upstream, tree.Pin.Build, want)
		}
		must(t, tree.Close())
	}
	shallow := t.TempDir()
	git(t, shallow, "clone", "-q", "--depth", "2", "file://"+u.dir, ".")
	o, _ := options(t, u.lock)
	o.Override = shallow
	_, err := fetch(t, o, commit)
	wantErr(t, err, "cannot be counted", "whole history")
}

// TestCachesOfUpstreams: what was fetched of one upstream is not there for another.
func TestCachesOfUpstreams(t *testing.T) {
	u := newUpstream(t)
	commit := git(t, u.dir, "rev-parse", "b101^{commit}")
	pin := u.pin(t, "b101", 1)
	o, _ := options(t, spec.Lock{spec.LlamaCpp: {commit: pin}, spec.IkLlamaCpp: {commit: pin}})
	o.Sources = []spec.Source{{Name: "up", Upstream: spec.LlamaCpp, Kind: "bundle", URL: u.bundle(t, "b101")}}
	tree, err := Fetch(t.Context(), o, spec.LlamaCpp, tag.MustParse(commit))
	must(t, err)
	must(t, tree.Close())
	o.Sources[0].URL = "/nowhere"
	tree, err = Fetch(t.Context(), o, spec.LlamaCpp, tag.MustParse(commit))
	must(t, err)
	if tree.Source != "cache" {
		t.Errorf("the second fetch came from %s", tree.Source)
	}
	must(t, tree.Close())
	_, err = Fetch(t.Context(), o, spec.IkLlamaCpp, tag.MustParse(commit))
	as[*Unavailable](t, err)
	wantErr(t, err, "no source can give ik_llama.cpp "+commit, "none is declared for this upstream")
}
