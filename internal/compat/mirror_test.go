package compat

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/source"
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
			t.Logf("%s %s: %v, %d cells, %d applied, heap from the system %d MiB", s.Name, how, took.Round(time.Millisecond),
				r.Judged, r.Applied, m.Sys>>20)
			if how == "cold" && os.Getenv("SHOW") != "" {
				t.Log(r.Text())
			}
		}
	}
}

// TestMirrorAgreesWithGit has git apply judge every cell of the foreign stack's
// matrix. A cell hangs on the files that the patch touches alone, so git is asked
// once for each set of files that some tag has, as the patches before it left them.
func TestMirrorAgreesWithGit(t *testing.T) {
	if *mirror == "" || *foreign == "" {
		t.Skip("needs -mirror PATH and -foreign DIR")
	}
	h := open(t, *mirror)
	s, err := Folder(*foreign)
	if err != nil {
		t.Fatal(err)
	}
	j := newJudge(h, Options{}, s)
	cells, err := j.run(t.Context(), h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := h.repo.Objects()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Release() }() // it was only read from
	c := &contents{sharedContents: j.files, objects: objects}
	count := map[string]int{} // cells
	for i, u := range j.all {
		file, err := filepath.Abs(filepath.Join(*foreign, u.variant.File))
		if err != nil {
			t.Fatal(err)
		}
		cellsOf := map[*outcome]int{}
		for k := range h.Tags {
			cellsOf[cells[i][k].outcome()]++
		}
		for out, n := range cellsOf {
			if out.Verdict == Unknown || out.in == nil {
				count["not asked"] += n
				continue
			}
			is := gitOnFiles(t, u, c, out, file)
			if is == "other" {
				t.Errorf("%s on %d tags: we say %s %v, and git something else", s.Fixes[i].ID, n, out.Verdict, out.Findings)
			}
			count[is] += n
			count["asked"]++
		}
	}
	t.Logf("cells by how git's answer is to ours, and how often git was asked: %v", count)
}

// gitOnFiles has git apply the unit's patch file to what an outcome was judged on.
func gitOnFiles(t *testing.T, u *unit, c *contents, out *outcome, file string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := u.files(out.in, c)
	if err != nil {
		t.Fatal(err)
	}
	for path, f := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if f.Mode == source.Executable {
			mode = 0o755
		}
		if err := os.WriteFile(full, f.Data, mode); err != nil {
			t.Fatal(err)
		}
	}
	_, err = tryGit(t, dir, []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}, "", "apply", "--whitespace=nowarn",
		file)
	fits := err == nil
	switch {
	case out.Verdict == Partly && !fits, out.Verdict == Landed && !fits:
		return "landed, wholly or in part, which git has no word for"
	case !fits && !out.Verdict.changes():
		return "both refuse"
	case !fits:
		return "other"
	case out.Verdict == Conflict && onlyAmbiguous(out):
		return "ambiguous, git puts the hunks out of order"
	case !out.Verdict.changes():
		return "other"
	}
	for k, e := range out.After {
		data, err := os.ReadFile(filepath.Join(dir, u.paths[k]))
		if there := err == nil; there != (e.Mode != 0) || there && blobID(data) != e.ID {
			return "other"
		}
	}
	if out.Verdict == Ambiguous {
		return "ambiguous, git makes what is proposed"
	}
	return "both apply, the same bytes"
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
