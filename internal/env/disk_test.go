//go:build linux

package env

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// TestFullDisk makes a root on a disk that is too small by little and by much.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		// In a user namespace anybody may mount.
		c := exec.Command("unshare", "--map-root-user", "--mount", "--", os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullDisk")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	m := newMirror(t)
	d, o := m.locked(), m.options()
	must(t, syscall.Mount("tmpfs", o.Cache, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, syscall.Unmount(o.Cache, 0)) })
	full := func(size int64, words ...string) {
		t.Helper()
		must(t, syscall.Mount("tmpfs", o.Cache, "tmpfs", syscall.MS_REMOUNT, "size="+strconv.FormatInt(size, 10)))
		_, err := Create(t.Context(), d, o)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%d: %v", size, err)
		}
		wantErr(t, err, append(words, o.Cache, "tiny-1")...)
	}
	full(64<<10, "KiB free")
	// The root is larger than its packages.
	full(2*d.size()+64<<10, "is full", "removed again")
	// Somebody else fills the disk while the packages come.
	ballast := filepath.Join(o.Cache, "ballast")
	fill := sync.OnceFunc(func() { _ = os.WriteFile(ballast, make([]byte, 64<<20), 0o644) }) // until no more goes in
	m.set(func(string, http.ResponseWriter, *http.Request) bool {
		fill()
		return false
	})
	full(8<<20, "is full", "removed again")
	must(t, os.Remove(ballast))
	m.set(nil)
	if left := glob(t, o.Cache, "env/*"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	must(t, syscall.Mount("tmpfs", o.Cache, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	_, err := Create(t.Context(), d, o)
	must(t, err)
}
