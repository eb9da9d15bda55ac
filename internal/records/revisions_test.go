package records

import (
	"log/slog"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// Revisions that are recorded in the cache go on from those that are declared,
// and two processes never give one number to two trees.
func TestRevisionsGoOn(t *testing.T) {
	declared := func() *spec.Repo {
		v := spec.Revisions{}
		v.Add("llama.cpp", "b1", "cpu", spec.Revision{N: 1, Tree: "t1", Plan: "p", Fixes: []spec.InFix{}})
		return &spec.Repo{Revisions: v, Lock: spec.Lock{}}
	}
	dir := t.TempDir()
	r := Store{Dir: dir, Cache: dir, Log: slog.New(slog.DiscardHandler)}
	s := &spec.Series{Upstream: "llama.cpp", Tag: "b1", Target: "cpu"}
	level := func(repo *spec.Repo, tree string, want int) {
		t.Helper()
		n, err := r.Revision(t.Context(), repo, s, tree, "p")
		if err != nil || n != want {
			t.Fatalf("level of %s is %d, %v; want %d", tree, n, err, want)
		}
		if n, ok := repo.Revisions.Find(s.Upstream, s.Tag, s.Target, tree, "p"); !ok || n != want {
			t.Fatalf("afterwards %s is found as %d, %v", tree, n, ok)
		}
	}
	one, two := declared(), declared() // two processes that loaded at the same time
	level(one, "t1", 1)
	level(one, "t2", 2)
	level(two, "t3", 3)
	level(two, "t2", 2)

	later := declared()
	if err := r.Overlay(later); err != nil {
		t.Fatal(err)
	}
	level(later, "t3", 3)
	level(later, "t4", 4)
}
