package page

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// The hash of a page is the one that a user gets with find, sort and sha256sum.
func TestSumIsWhatAUserGets(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"index.html": "<html>", "_app/version.json": "{}", "a b.js": "x", "_app.js": "y", "Z": "",
		"a/b/c": "z\n",
	}
	for name, data := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Read(t.Context(), dir, strings.Repeat("a", 40))
	if err != nil {
		t.Fatal(err)
	}
	sh := exec.Command("sh", "-c", `find . -type f | sed 's|^\./||' | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum`)
	sh.Dir = dir
	out, err := sh.Output()
	if want, _, _ := strings.Cut(string(out), " "); err != nil || p.SHA256 != want || p.Files != len(files) {
		t.Errorf("%d files, %s; find and sha256sum: %s (%v)", p.Files, p.SHA256, want, err)
	}
}

// What lies under a hash and is not it is no page, and Keep puts it right.
func TestKeepPutsADamagedPageRight(t *testing.T) {
	tree, err := source.New(map[string]source.File{"index.html": {Mode: source.Regular, Data: []byte("<html>")}})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Sum(tree)
	if err != nil {
		t.Fatal(err)
	}
	c := Cache{Dir: t.TempDir()}
	p := Page{SHA256: sum, Tree: tree}
	for range 2 {
		if err := c.Keep(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, there := c.Find(t.Context(), "", sum); !there {
			t.Fatal("the page that was kept is not there")
		}
		if err := os.WriteFile(filepath.Join(c.path(sum), "index.html"), []byte("other"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, there := c.Find(t.Context(), "", sum); there {
			t.Fatal("a page that was changed is taken")
		}
	}
}
