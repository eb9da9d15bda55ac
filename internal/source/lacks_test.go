package source

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

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
