//go:build linux || darwin

package source

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file changed with its size and its mtime kept is hashed again, whether its
// bytes were written over or another file took its place.
func TestCheckoutSeesKeptTimes(t *testing.T) {
	tree := checkoutTree(t, map[string]File{"a/d.c": {Regular, []byte("d")}, "run.sh": {Executable, []byte("#!")}})
	for name, replace := range map[string]bool{"written over": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			_, err := tree.CheckoutOwn(t.Context(), dir, nil)
			must(t, err)
			age(t, tree.CheckoutOwn, dir)
			time.Sleep(20 * time.Millisecond) // past the tick in which the index was written
			file := filepath.Join(dir, "a/d.c")
			fi, err := os.Stat(file)
			must(t, err)
			if replace {
				must(t, os.WriteFile(file+".new", []byte("X"), fi.Mode()))
				must(t, os.Rename(file+".new", file))
			} else {
				must(t, os.WriteFile(file, []byte("X"), fi.Mode()))
			}
			must(t, os.Chtimes(file, fi.ModTime(), fi.ModTime()))
			stats, err := tree.CheckoutOwn(t.Context(), dir, nil)
			if got := diskTree(t, dir); err != nil || got != tree.ID() || stats.Written != 1 {
				t.Errorf("tree %s, %+v, %v", got, stats, err)
			}
		})
	}
}

// What nobody touched is not read: neither after the checkout itself, nor after
// an index of before the change times were kept was used once.
func TestCheckoutTrustsItsIndex(t *testing.T) {
	tree := checkoutTree(t, map[string]File{"a/d.c": {Regular, []byte("d")}, "run.sh": {Executable, []byte("#!")}})
	dir := filepath.Join(t.TempDir(), "tree")
	_, err := tree.CheckoutOwn(t.Context(), dir, nil)
	must(t, err)
	trusted := func() (n int) {
		x, err := readIndex(dir)
		must(t, err)
		for p := range x.Files {
			fi, err := os.Lstat(filepath.Join(dir, p))
			must(t, err)
			if _, ok := x.trusts(p, fi); ok {
				n++
			}
		}
		return n
	}
	later := func() { // as if the index had been written a while after the files
		at := time.Now().Add(time.Minute)
		must(t, os.Chtimes(indexPath(dir), at, at))
	}
	if later(); trusted() != 2 {
		t.Errorf("after the checkout %d of 2 files are trusted", trusted())
	}
	x, err := readIndex(dir)
	must(t, err)
	for p, f := range x.Files {
		f.CTime, f.Inode = 0, 0
		x.Files[p] = f
	}
	b, err := json.Marshal(x)
	must(t, err)
	must(t, os.WriteFile(indexPath(dir), b, 0o644))
	if later(); trusted() != 0 {
		t.Errorf("%d files are trusted without their change time", trusted())
	}
	_, err = tree.CheckoutOwn(t.Context(), dir, nil)
	must(t, err)
	if later(); trusted() != 2 {
		t.Errorf("after the second checkout %d of 2 files are trusted", trusted())
	}
}
