package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// smallDisk mounts a tmpfs of size bytes and returns how to make it larger.
func smallDisk(t *testing.T, size int) (dir string, resize func(int)) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("a full disk needs a small tmpfs, and only root may mount one: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, syscall.Unmount(dir, 0)) })
	return dir, func(size int) {
		t.Helper()
		must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)))
	}
}

// TestFullDisk fills the disk of the cache, and that of the checkout, at many
// points. The error names the folder; with room, the same call goes through.
func TestFullDisk(t *testing.T) {
	u := newUpstream(t)
	noise := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	writeAll(t, u.dir, map[string]File{"noise": {Regular, noise}, "noise2": {Regular, noise[:1<<19]}})
	git(t, u.dir, "add", "-A")
	git(t, u.dir, "commit", "-q", "-m", "noise")
	git(t, u.dir, "tag", "b104")
	u.lock["llama.cpp"]["b104"] = u.pin(t, "b104", 104)
	bundle := u.bundle(t, "b104")
	archive := filepath.Join(t.TempDir(), "src.tar.gz")
	git(t, u.dir, "archive", "--prefix=x/", "-o", archive, "b104")
	r := &registry{t: t, tarball: func() []byte {
		b, err := os.ReadFile(bundle)
		must(t, err)
		return tarGzOf(t, file("package/llama/gitRelease.bundle", string(b)))
	}()}
	npm, _ := npmOptions(t, u, r.start(), "")
	npm.Sources[0].Tags = map[string]string{"b104": "3.0.0"}

	for name, o := range map[string]Options{"bundle": {Override: bundle}, "archive": {Override: archive}, "npm": npm} {
		t.Run(name, func(t *testing.T) {
			dir, resize := smallDisk(t, 16<<10)
			o.Cache, o.Lock = filepath.Join(dir, "cache"), u.lock
			for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
				resize(size)
				_, err := fetch(t, o, "b104")
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("%d bytes: %v", size, err)
				}
				wantErr(t, err, o.Cache, "no space left")
				nothingLeft(t, o.Cache)
			}
			resize(16 << 20)
			tree := mustFetch(t, o, "b104")
			if tree.ID() != u.tree("b104") {
				t.Errorf("tree %s", tree.ID())
			}
			must(t, tree.Close()) // before the disk goes
		})
	}
	t.Run("history", func(t *testing.T) {
		dir, resize := smallDisk(t, 64<<10)
		o := Options{Cache: filepath.Join(dir, "cache"), Override: u.dir, Lock: u.lock}
		for _, size := range []int{64 << 10, 1 << 20} {
			resize(size)
			_, err := History(t.Context(), o, "llama.cpp")
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%d bytes: %v", size, err)
			}
			wantErr(t, err, o.Cache, "no space left")
		}
		resize(16 << 20)
		if _, err := History(t.Context(), o, "llama.cpp"); err != nil {
			t.Errorf("with room: %v", err)
		}
	})
	t.Run("checkout", func(t *testing.T) {
		dir, resize := smallDisk(t, 64<<10)
		o, _ := options(t, u.lock)
		o.Override = u.dir
		tree := mustFetch(t, o, "b104")
		out := filepath.Join(dir, "tree")
		for _, size := range []int{64 << 10, 512 << 10, 1200 << 10} {
			resize(size)
			_, err := tree.Checkout(t.Context(), out, nil)
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%d bytes: %v", size, err)
			}
			wantErr(t, err, out, "no space left")
		}
		resize(16 << 20)
		if _, err := tree.Checkout(t.Context(), out, nil); err != nil || diskTree(t, out) != tree.ID() {
			t.Errorf("with room: %v", err)
		}
	})
}
