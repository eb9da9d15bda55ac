package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Where a folder of llpatch's own cannot be used the hint names another place, and where a
// file of the user's cannot be read there is none.
func TestElsewhere(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("LLPATCH_CACHE", cache)
	a := &app{out: "dist"}
	for path, want := range map[string]string{
		filepath.Join(cache, "env"): "LLPATCH_CACHE=DIR",
		"dist/b1":                   "--out DIR",
		filepath.Join(os.TempDir(), "llpatch-doctor-1", "file"): "TMPDIR=DIR",
		filepath.Join(os.TempDir(), "mine"):                     "",
		filepath.Join(os.TempDir(), "mine", "llpatch-x"):        "",
		"/elsewhere": "",
	} {
		for _, cause := range []error{fs.ErrPermission, syscall.ENOSPC} {
			got := a.elsewhere(fmt.Errorf("inspect: %w", &fs.PathError{Op: "open", Path: path, Err: cause}))
			if (want == "") != (got == "") || !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}
}
