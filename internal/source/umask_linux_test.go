package source

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestUmask: modes do not depend on who checks out.
func TestUmask(t *testing.T) {
	tree := checkoutTree(t, map[string]File{"a.c": {Regular, nil}, "run.sh": {Executable, nil}})
	for _, mask := range []int{0, 0o002, 0o077} {
		dir := filepath.Join(t.TempDir(), "w")
		old := syscall.Umask(mask)
		_, err := tree.Checkout(t.Context(), dir, nil)
		syscall.Umask(old)
		must(t, err)
		for name, want := range map[string]os.FileMode{"a.c": 0o644, "run.sh": 0o755} {
			if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode() != want {
				t.Errorf("umask %03o: %s has mode %v (%v)", mask, name, fi.Mode(), err)
			}
		}
	}
}
