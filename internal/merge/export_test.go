package merge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// content reads all files below a folder.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	if err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		m[p[len(dir)+1:]] = string(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// Where a step fails, everything is as it was.
func TestReplaceFilesTakesBack(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	before := map[string]string{"0001-a.patch": "old a", "0002-b.patch": "old b", "series": "old"}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old := []string{"0001-a.patch", "0002-b.patch", "series"}
	files := []exportFile{{"0001-a.patch", []byte("new a")}, {"0002-c.patch", []byte("c")}, {"series", []byte("new")}}

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := replaceFiles(stopped, dir, files, old); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if diff := cmp.Diff(before, content(t, dir)); diff != "" {
		t.Errorf("after a cancel:\n%s", diff)
	}
	if err := replaceFiles(stopped, filepath.Join(parent, "fresh"), files, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}

	// A folder is in the way of the second file.
	if err := os.Mkdir(filepath.Join(dir, "0002-c.patch"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := replaceFiles(t.Context(), dir, files, old); err == nil {
		t.Error("a folder in the way is no error")
	}
	if diff := cmp.Diff(before, content(t, dir)); diff != "" {
		t.Errorf("after a failure:\n%s", diff)
	}
	for _, name := range []string{"fresh", "out/" + exportStage} {
		if _, err := os.Lstat(filepath.Join(parent, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}

	if err := os.Remove(filepath.Join(dir, "0002-c.patch")); err != nil {
		t.Fatal(err)
	}
	if err := replaceFiles(t.Context(), dir, files, old); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range files {
		want[f.name] = string(f.data)
	}
	if diff := cmp.Diff(want, content(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Killed between any two renames, the folder is still known as llpatch's, and
// the next export completes it.
func TestExportAfterKill(t *testing.T) {
	old := []exportFile{{"0001-a.patch", []byte("old a")}, {"0002-b.patch", []byte("b")}}
	files := []exportFile{{"0001-a.patch", []byte("new a")}, {"0002-c.patch", []byte("c")}}
	old, files = withSeries(old), withSeries(files)
	// Every state that the renames of replaceFiles pass: the old ones leave from
	// the last on, the new ones come from the first on.
	for moved := range len(old) + len(files) + 1 {
		dir := t.TempDir()
		put := func(sub string, f exportFile) {
			t.Helper()
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, sub, f.name), f.data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for i, f := range old {
			if len(old)-1-i < moved {
				put(exportStage+"/old", f)
			} else {
				put(".", f)
			}
		}
		for i, f := range files {
			if len(old)+i < moved {
				put(".", f)
			} else {
				put(exportStage+"/new", f)
			}
		}
		for _, next := range [][]exportFile{files, old} {
			d, err := exported(dir, next)
			if err != nil {
				t.Fatalf("killed after %d renames: %v", moved, err)
			}
			if d.same(next) {
				t.Errorf("killed after %d renames, and all is said to be well", moved)
			}
		}
		d, err := exported(dir, files)
		if err != nil {
			t.Fatal(err)
		}
		if err := replaceFiles(t.Context(), dir, files, d.names); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, f := range files {
			want[f.name] = string(f.data)
		}
		if diff := cmp.Diff(want, content(t, dir)); diff != "" {
			t.Errorf("killed after %d renames:\n%s", moved, diff)
		}
	}
}
