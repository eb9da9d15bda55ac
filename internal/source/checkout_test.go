package source

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// checkoutTree is a small tree in memory.
func checkoutTree(t *testing.T, files map[string]File) *Tree {
	t.Helper()
	tree, err := New(files)
	must(t, err)
	return tree
}

// mtimes are the modification times of all files below dir.
func mtimes(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	for _, p := range listDir(t, dir) {
		fi, err := os.Lstat(filepath.Join(dir, p))
		must(t, err)
		if !fi.IsDir() {
			out[p] = fi.ModTime()
		}
	}
	return out
}

// age makes every file of a checkout old, and its index know that.
func age(t *testing.T, checkout func(context.Context, string, []string) (Stats, error), dir string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	for p := range mtimes(t, dir) {
		if fi, err := os.Lstat(filepath.Join(dir, p)); err == nil && fi.Mode().IsRegular() {
			must(t, os.Chtimes(filepath.Join(dir, p), old, old))
		}
	}
	stats, err := checkout(t.Context(), dir, nil)
	if err != nil || stats.Written != 0 {
		t.Fatalf("%+v %v", stats, err)
	}
}

func TestCheckoutUpdatesInPlace(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "rm", "-q", "-r", "docs/a", "ggml.h")
	git(t, u.dir, "update-index", "--chmod=+x", "LICENSE")
	writeAll(t, u.dir, map[string]File{
		"link": {Symlink, []byte("src")}, "empty": {Regular, []byte("no longer")},
		"new/deep/file": {Regular, []byte("x")},
	})
	git(t, u.dir, "add", "link", "empty", "new")
	git(t, u.dir, "commit", "-q", "-m", "next")
	git(t, u.dir, "tag", "b104")
	u.lock["llama.cpp"]["b104"] = u.pin(t, "b104", 104)
	o, _ := options(t, u.lock)
	o.Override = u.dir
	from, to := mustFetch(t, o, "b103"), mustFetch(t, o, "b104")
	dir := filepath.Join(t.TempDir(), "tree")
	stats, err := from.Checkout(t.Context(), dir, nil)
	must(t, err)
	if got := diskTree(t, dir); got != from.ID() || stats.Written != len(from.Files()) {
		t.Errorf("first checkout: tree %s, %+v", got, stats)
	}
	age(t, from.Checkout, dir)
	before := mtimes(t, dir)

	stats, err = to.Checkout(t.Context(), dir, nil)
	must(t, err)
	if got := diskTree(t, dir); got != to.ID() {
		t.Errorf("second checkout: tree %s, want %s", got, to.ID())
	}
	// ggml.h and docs/a/b/guide.md go; LICENSE, link, empty and new come.
	if stats.Written != 4 || stats.Removed != 2 || len(stats.Unknown) != 0 || stats.Kept != len(to.Files())-4 {
		t.Errorf("%+v", stats)
	}
	for p, m := range mtimes(t, dir) {
		changed := slices.Contains([]string{"LICENSE", "link", "empty", "new/deep/file"}, p)
		if changed == m.Equal(before[p]) {
			t.Errorf("%s: mtime %v, was %v", p, m, before[p])
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "docs", "a")); !errors.Is(err, os.ErrNotExist) {
		t.Error("an empty folder stays")
	}
	// Nothing to do, and back.
	if stats, err := to.Checkout(t.Context(), dir, nil); err != nil || stats.Written+stats.Removed != 0 ||
		stats.Bytes != 0 {
		t.Errorf("third checkout: %+v %v", stats, err)
	}
	if _, err := from.Checkout(t.Context(), dir, nil); err != nil || diskTree(t, dir) != from.ID() {
		t.Errorf("back: %v", err)
	}
}

// TestCheckoutExclude: what is excluded is not written, and goes if it is there.
func TestCheckoutExclude(t *testing.T) {
	files := map[string]File{}
	for _, p := range []string{
		"a.c", "docs/x", "docs/y/z", "docsx/x", "models/a.gguf", "models/a.txt",
		"models/sub/b.gguf", "src/docs/k", "[x]/f",
	} {
		files[p] = File{Regular, []byte(p)}
	}
	tree := checkoutTree(t, files)
	all := sorted(files)
	for _, c := range []struct {
		exclude []string
		gone    []string
	}{
		{nil, nil},
		{[]string{"docs/**"}, []string{"docs/x", "docs/y/z"}},
		{[]string{"docs"}, []string{"docs/x", "docs/y/z"}},
		{[]string{"docs/"}, []string{"docs/x", "docs/y/z"}},
		{[]string{"docs/*"}, []string{"docs/x", "docs/y/z"}}, // docs/y is a folder that matches
		{[]string{"models/*.gguf"}, []string{"models/a.gguf"}},
		{[]string{"models/**/*.gguf"}, []string{"models/a.gguf", "models/sub/b.gguf"}},
		{[]string{"**/docs"}, []string{"docs/x", "docs/y/z", "src/docs/k"}},
		{[]string{"models/{sub,none}", "?.c"}, []string{"models/sub/b.gguf", "a.c"}},
		{[]string{`\[x\]/f`}, []string{"[x]/f"}},
	} {
		dir := filepath.Join(t.TempDir(), "tree")
		for _, before := range [][]string{nil, c.exclude} { // also what is there already
			_, err := tree.Checkout(t.Context(), dir, before)
			must(t, err)
			if before == nil && c.exclude != nil {
				continue
			}
			want := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(c.gone, p) })
			if got := sorted(mtimes(t, dir)); !slices.Equal(got, want) {
				t.Errorf("%q: have %v, want %v", c.exclude, got, want)
			}
		}
	}
	for _, bad := range []string{"", "/", "/docs", "a[", "{a"} {
		_, err := tree.Checkout(t.Context(), filepath.Join(t.TempDir(), "x"), []string{bad})
		wantErr(t, err, "exclude")
	}
}

// TestCheckoutOfMeddling changes a checkout to llpatch's own folder by hand in
// every way; the next one puts it right without following a link.
func TestCheckoutOfMeddling(t *testing.T) {
	tree := checkoutTree(t, map[string]File{
		"a/b/c.c": {Regular, []byte("c")}, "a/d.c": {Regular, []byte("d")}, "run.sh": {Executable, []byte("#!")},
		"l": {Symlink, []byte("a/d.c")}, "e/f/g": {Regular, []byte("g")},
	})
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "c.c"), []byte("precious"), 0o644))
	for name, meddle := range map[string]func(dir string){
		"same size":  func(d string) { must(t, os.WriteFile(filepath.Join(d, "a/d.c"), []byte("X"), 0o644)) },
		"not opened": func(d string) { must(t, os.Chmod(filepath.Join(d, "a/d.c"), 0o755)) },
		"same size and time": func(d string) {
			// Within one tick of the clock, as an editor run by a script could.
			fi, err := os.Stat(filepath.Join(d, "a/d.c"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(d, "a/d.c"), []byte("X"), 0o644))
			must(t, os.Chtimes(filepath.Join(d, "a/d.c"), fi.ModTime(), fi.ModTime()))
			must(t, os.Chtimes(d+".index.json", fi.ModTime(), fi.ModTime()))
		},
		"removed":       func(d string) { must(t, os.RemoveAll(filepath.Join(d, "a"))) },
		"extra file":    func(d string) { must(t, os.WriteFile(filepath.Join(d, "a/extra.c"), nil, 0o644)) },
		"extra folders": func(d string) { must(t, os.MkdirAll(filepath.Join(d, "x/y/z"), 0o755)) },
		"file for folder": func(d string) {
			must(t, os.RemoveAll(filepath.Join(d, "e")))
			must(t, os.WriteFile(filepath.Join(d, "e"), nil, 0o644))
		},
		"folder for file": func(d string) {
			must(t, os.Remove(filepath.Join(d, "run.sh")))
			must(t, os.MkdirAll(filepath.Join(d, "run.sh/x"), 0o755))
		},
		"link for file": func(d string) {
			must(t, os.Remove(filepath.Join(d, "a/d.c")))
			must(t, os.Symlink(filepath.Join(outside, "c.c"), filepath.Join(d, "a/d.c")))
		},
		"link for folder": func(d string) {
			must(t, os.RemoveAll(filepath.Join(d, "a/b")))
			must(t, os.Symlink(outside, filepath.Join(d, "a/b")))
		},
		"link within": func(d string) {
			must(t, os.RemoveAll(filepath.Join(d, "a/b")))
			must(t, os.Symlink("../e", filepath.Join(d, "a/b")))
		},
		"link elsewhere": func(d string) {
			must(t, os.Remove(filepath.Join(d, "l")))
			must(t, os.Symlink("run.sh", filepath.Join(d, "l")))
		},
		"file for link": func(d string) {
			must(t, os.Remove(filepath.Join(d, "l")))
			must(t, os.WriteFile(filepath.Join(d, "l"), []byte("a/d.c"), 0o644))
		},
		"temporary file": func(d string) { must(t, os.WriteFile(filepath.Join(d, "a", tempPrefix+"1-1"), nil, 0o600)) },
		"index of another version": func(d string) {
			b, err := json.Marshal(map[string]any{"format": indexFormat, "version": 99, "files": map[string]any{}})
			must(t, err)
			must(t, os.WriteFile(d+".index.json", b, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			_, err := tree.CheckoutOwn(t.Context(), dir, nil)
			must(t, err)
			age(t, tree.CheckoutOwn, dir)
			meddle(dir)
			stats, err := tree.CheckoutOwn(t.Context(), dir, nil)
			must(t, err)
			if got := diskTree(t, dir); got != tree.ID() {
				t.Errorf("tree %s, want %s", got, tree.ID())
			}
			if extra := name == "extra file"; extra != slices.Contains(stats.Unknown, "a/extra.c") {
				t.Errorf("%+v", stats)
			}
			if got := listDir(t, dir); len(got) != 10 {
				t.Errorf("left: %v", got)
			}
			if b, err := os.ReadFile(filepath.Join(outside, "c.c")); err != nil || string(b) != "precious" {
				t.Fatalf("written through a link: %q %v", b, err)
			}
		})
	}
}

// TestCheckoutRefusesForeignFolder: somebody's own files are not removed.
func TestCheckoutRefusesForeignFolder(t *testing.T) {
	tree := checkoutTree(t, map[string]File{"a": {Regular, nil}})
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644))
	_, err := tree.Checkout(t.Context(), dir, nil)
	wantErr(t, err, dir, "thesis.tex", "another folder")
	if got := listDir(t, dir); !slices.Equal(got, []string{"thesis.tex"}) {
		t.Errorf("folder holds %v", got)
	}
	if _, err := os.Stat(dir + ".index.json"); err == nil {
		t.Error("the folder was claimed")
	}
}

// TestCheckoutSubmodule: a submodule is listed and not written.
func TestCheckoutSubmodule(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "update-index", "--add", "--cacheinfo", "160000,"+u.lock["llama.cpp"]["b101"].Commit+",vendor/kompute")
	git(t, u.dir, "commit", "-q", "-m", "submodule")
	git(t, u.dir, "tag", "b104")
	o, _ := options(t, nil)
	o.Override = u.dir
	tree := mustFetch(t, o, "b104")
	e, ok := tree.Stat("vendor/kompute")
	if !ok || e.Mode != Submodule || tree.ID() != git(t, u.dir, "rev-parse", "b104^{tree}") {
		t.Errorf("%+v %v", e, ok)
	}
	if _, err := tree.Read("vendor/kompute"); err == nil {
		t.Error("a submodule was read")
	}
	dir := filepath.Join(t.TempDir(), "tree")
	_, err := tree.Checkout(t.Context(), dir, nil)
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "vendor")); err == nil {
		t.Error("a submodule was written")
	}
	// A bundle of it is complete without the submodule's commit.
	o.Cache, o.Override = t.TempDir(), u.bundle(t, "b104")
	o.Lock = spec.Lock{"llama.cpp": {"b104": u.pin(t, "b104", 104)}}
	mustFetch(t, o, "b104")
}

func TestCancel(t *testing.T) {
	u := newUpstream(t)
	o, _ := options(t, u.lock)
	o.Override = u.bundle(t, "b102")
	tree := mustFetch(t, o, "b102")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := filepath.Join(t.TempDir(), "tree")
	if _, err := tree.Checkout(ctx, dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("checkout: %v", err)
	}
	if _, err := tree.Checkout(t.Context(), dir, nil); err != nil || diskTree(t, dir) != tree.ID() {
		t.Errorf("the same again: %v", err)
	}
	o.Cache = t.TempDir()
	f := newFetcher(ctx, o, "llama.cpp")
	if _, err := f.fetch(ctx, tree.Tag); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "no source") {
		t.Errorf("fetch: %v", err)
	}
	nothingLeft(t, o.Cache)
	mustFetch(t, o, "b102")
}
