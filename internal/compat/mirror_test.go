package compat

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/spec"
)

// The real history is half a gigabyte, so it is not part of the test data.
var (
	mirror  = flag.String("mirror", "", "a repository with llama.cpp's whole history, for the tests that measure on it")
	foreign = flag.String("foreign", "", "a folder of patches that are not llpatch's, for the same")
)

// TestMirror prints the figures of docs/performance.md.
func TestMirror(t *testing.T) {
	if *mirror == "" {
		t.Skip("needs -mirror PATH")
	}
	repo, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Declared(repo, spec.LlamaCpp, nil)
	if err != nil {
		t.Fatal(err)
	}
	stacks := []Stack{ours}
	if *foreign != "" {
		s, err := Folder(*foreign)
		if err != nil {
			t.Fatal(err)
		}
		stacks = append(stacks, s)
	}
	for _, s := range stacks {
		cache := t.TempDir()
		for _, how := range []string{"cold", "warm"} {
			start := time.Now()
			h, err := Open(*mirror, spec.LlamaCpp, repo.Lock[spec.LlamaCpp])
			if err != nil {
				t.Fatal(err)
			}
			r, err := h.Status(t.Context(), Options{Cache: cache}, s, h.Tags)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			took := time.Since(start)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%s %s: %v, %d cells, %d applied, heap from the system %d MiB", s.Name, how, took.Round(time.Millisecond), r.Judged, r.Applied, m.Sys>>20)
			if how == "cold" && os.Getenv("SHOW") != "" {
				t.Log(r.Text())
			}
		}
	}
}

// TestMirrorAgreesWithGit compares whole columns of the foreign stack's matrix,
// of tags drawn at random, with what git apply does on the same trees.
func TestMirrorAgreesWithGit(t *testing.T) {
	if *mirror == "" || *foreign == "" {
		t.Skip("needs -mirror PATH and -foreign DIR")
	}
	h := open(t, *mirror)
	s, err := Folder(*foreign)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(20260822, 1))
	var tags []Tag
	// Some are left out, behind what landed in part: more than the 2,000 that count.
	// Half of them from where most patches fit somewhere, half from anywhere.
	for k := 0; len(tags)*len(s.Fixes) < 2300; k++ {
		from := 0
		if k%2 == 0 {
			from = len(h.Tags) * 4 / 5
		}
		tags = append(tags, h.Tags[from+rng.IntN(len(h.Tags)-from)])
	}
	n, ambiguous := agree(t, h, s, *foreign, tags)
	t.Logf("%d cells of %d tags compared, %d of them ambiguous where git takes the nearer place", n, len(tags), ambiguous)
}

// TestMirrorBlame takes patches that are upstream's own commits: where one stops
// to fit because it landed, the commit found must be that very commit.
func TestMirrorBlame(t *testing.T) {
	if *mirror == "" || *foreign == "" {
		t.Skip("needs -mirror PATH and -foreign DIR of upstream's own commits")
	}
	h := open(t, *mirror)
	all, err := Folder(*foreign)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range all.Fixes {
		// Each alone: on top of others, one may land with another.
		s := all
		s.Fixes = []Fix{f}
		start := time.Now()
		b, err := h.Blame(t.Context(), Options{}, s, f.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range b.Breaks {
			if k.Verdict != Landed {
				continue
			}
			if want := f.Variants[0].Patches[0].Header.Commit; k.Commit != want {
				t.Errorf("%s: landed with %s (%s), want %s", f.ID, k.Commit, k.Subject, want)
			}
			found++
		}
		t.Logf("%s: %d breaks, %v", f.ID, len(b.Breaks), time.Since(start).Round(time.Millisecond))
	}
	t.Logf("%d of %d patches were seen to land", found, len(all.Fixes))
}
