//go:build linux

package buildenv

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// mayMount reports whether this test may mount. Where it may not, it has run once more in
// a user namespace, in which anybody may.
func mayMount(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		return true
	}
	c := exec.Command("unshare", "--map-root-user", "--mount", "--", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// TestFullDisk makes a root on a disk that is too small by little and by much.
func TestFullDisk(t *testing.T) {
	if !mayMount(t) {
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

// A disk that has no room for one more file is no fault of the archive that holds it.
func TestArchiveOnFullDisk(t *testing.T) {
	if !mayMount(t) {
		return
	}
	n := newNVIDIA(t)
	var items []item
	for i := range 60 {
		items = append(items, item{name: fmt.Sprintf("a-1-archive/b/%d/c", i), text: "x"})
	}
	n.put(t, "a", "1", linuxArchives, tarXZ(t, items...))
	d := Decl{Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{
		URL: n.url, Release: "11.4.4",
		Linux: []string{"a"},
	}, Holds: []string{"b/0/c"}}
	o := Options{Cache: t.TempDir()}
	var err error
	d.Lock, err = Update(t.Context(), d, o)
	must(t, err)
	must(t, syscall.Mount("tmpfs", o.Cache, "tmpfs", 0, "size=16m,nr_inodes=60"))
	t.Cleanup(func() { must(t, syscall.Unmount(o.Cache, 0)) })
	_, err = Create(t.Context(), d, o)
	if bad := new(BadArchive); !errors.Is(err, syscall.ENOSPC) || errors.As(err, &bad) {
		t.Error(err)
	}
	wantErr(t, err, o.Cache, "is full", "kit")
}
