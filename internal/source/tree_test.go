package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// TestTreeIDAgainstGit compares ids of random trees with git write-tree: names
// that sort around a slash, every mode, changes and deletions.
func TestTreeIDAgainstGit(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	rng := rand.New(rand.NewPCG(7, 7))
	names := []string{"a", "a-b", "a.c", "a0", "ab", "b", "é", "x y", "A"}
	for round := range 8 {
		files := map[string]File{}
		for range 30 {
			parts := make([]string, 1+rng.IntN(3))
			for i := range parts {
				parts[i] = names[rng.IntN(len(names))]
			}
			p := strings.Join(parts, "/")
			free := true
			for other := range files {
				free = free && !strings.HasPrefix(other+"/", p+"/") && !strings.HasPrefix(p+"/", other+"/")
			}
			if free {
				mode := []Mode{Regular, Executable, Symlink}[rng.IntN(3)]
				files[p] = File{mode, fmt.Appendf(nil, "content %d", rng.IntN(9))}
			}
		}
		tree, err := New(files)
		must(t, err)
		git(t, dir, "read-tree", "--empty")
		for p, f := range files {
			git(t, dir, "update-index", "--add", "--cacheinfo", fmt.Sprintf("%s,%s,%s", f.Mode, hashObject(t, dir, f.Data), p))
		}
		if want := git(t, dir, "write-tree"); tree.ID() != want {
			t.Fatalf("round %d: ID is %s, git says %s", round, tree.ID(), want)
		}
		// Change one, delete one, add one, and compare again.
		paths := sorted(files)
		changed, err := tree.With(map[string]*File{
			paths[0]:          {Executable, []byte("changed")},
			paths[1]:          nil,
			"new/folder/file": {Regular, []byte("new")},
		})
		must(t, err)
		git(t, dir, "update-index", "--cacheinfo", "100755,"+hashObject(t, dir, []byte("changed"))+","+paths[0])
		git(t, dir, "update-index", "--force-remove", paths[1])
		git(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+hashObject(t, dir, []byte("new"))+",new/folder/file")
		if want := git(t, dir, "write-tree"); changed.ID() != want {
			t.Fatalf("round %d, changed: ID is %s, git says %s", round, changed.ID(), want)
		}
		if back, err := changed.Read(paths[0]); err != nil || string(back.Data) != "changed" || back.Mode != Executable {
			t.Fatalf("Read of a changed file: %v %v", back, err)
		}
		if before, err := tree.Read(paths[1]); err != nil || !bytes.Equal(before.Data, files[paths[1]].Data) {
			t.Fatalf("With changed its receiver: %v %v", before, err)
		}
		if _, err := changed.Read(paths[1]); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Read of a deleted file: %v", err)
		}
	}
}

func hashObject(t *testing.T, dir string, data []byte) string {
	t.Helper()
	writeAll(t, dir, map[string]File{".hash-me": {Regular, data}})
	return git(t, dir, "hash-object", "-w", ".hash-me")
}

func TestWithRefuses(t *testing.T) {
	base, err := New(map[string]File{"a/b": {Regular, nil}})
	must(t, err)
	for name, change := range map[string]map[string]*File{
		"parent":       {"../x": {Regular, nil}},
		"absolute":     {"/x": {Regular, nil}},
		"dot":          {"a/./x": {Regular, nil}},
		"empty":        {"": {Regular, nil}},
		"double slash": {"a//x": {Regular, nil}},
		"git":          {"a/.GIT/config": {Regular, nil}},
		"file, folder": {"a": {Regular, nil}},
		"folder, file": {"a/b/c": {Regular, nil}},
		"submodule":    {"sub": {Submodule, nil}},
		"odd mode":     {"x": {0o100600, nil}},
		"delete":       {"none": nil},
	} {
		if n, err := base.With(change); err == nil {
			t.Errorf("%s: With gave tree %s", name, n.ID())
		}
	}
}

// TestParseTreeRefuses gives tree objects that git itself would never write.
func TestParseTreeRefuses(t *testing.T) {
	id := strings.Repeat("x", 20)
	for name, content := range map[string]string{
		"up":      "40000 ..\x00" + id,
		"slash":   "100644 a/b\x00" + id,
		"git":     "40000 .git\x00" + id,
		"short":   "100644 a\x00" + id[:19],
		"no zero": "100644 a",
		"mode":    "100600 a\x00" + id,
		"letters": "10x644 a\x00" + id,
		"nothing": " \x00" + id,
	} {
		if got, err := parseTree([]byte(content)); err == nil {
			t.Errorf("%s: parsed as %v", name, got)
		}
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x0012345678901234567890" + "40000 b\x0012345678901234567890"))
	f.Add([]byte("120000 .\x0012345678901234567890"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseTree(b)
		if err != nil {
			return
		}
		for _, e := range entries {
			if checkName(e.name) != nil {
				t.Errorf("name %q passed", e.name)
			}
		}
	})
}

// TestHas: a folder is there where a file is in it, whatever sorts between.
func TestHas(t *testing.T) {
	tree, err := New(map[string]File{"a/b/c": {Mode: Regular}, "a/b-d": {Mode: Regular}, "a/b.e/f": {Mode: Regular}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"a": true, "a/b": true, "a/b/c": true, "a/b-d": true, "a/b.e": true,
		"a/": false, "b": false, "a/b/c/d": false, "a/b-": false, "z": false,
	} {
		if tree.Has(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func TestLacks(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string { t.Helper(); return git(t, dir, args...) }
	git("init", "-q")
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("add", ".")
	git("commit", "-q", "-m", "x")
	git("tag", "b1")
	blob := git("rev-parse", "b1:b")
	if err := os.Remove(filepath.Join(dir, ".git/objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	tree, err := Fetch(t.Context(), Options{Cache: t.TempDir(), Override: dir}, spec.LlamaCpp, tag.MustParse("b1"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	lacks, err := tree.Lacks()
	if err != nil || !slices.Equal(lacks, []string{"b"}) {
		t.Errorf("lacks %v, %v", lacks, err)
	}
	fixed, err := tree.With(map[string]*File{"b": {Mode: Regular, Data: []byte("b")}})
	if err != nil {
		t.Fatal(err)
	}
	if lacks, err := fixed.Lacks(); err != nil || len(lacks) > 0 {
		t.Errorf("with the file in memory: lacks %v, %v", lacks, err)
	}
}

// A folder as a tree of its own has the id that git gives the folder.
func TestSub(t *testing.T) {
	whole, err := New(map[string]File{
		"a/b": {Regular, []byte("x")}, "a/c/d": {Executable, []byte("y")},
		"ab": {Regular, nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := New(map[string]File{"b": {Regular, []byte("x")}, "c/d": {Executable, []byte("y")}})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := whole.Sub("a")
	if err != nil || sub.ID() != want.ID() {
		t.Errorf("%v, %v", sub, err)
	}
	if f, err := sub.Read("c/d"); err != nil || string(f.Data) != "y" || f.Mode != Executable {
		t.Errorf("%v, %v", f, err)
	}
	if _, err := whole.Sub("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}
