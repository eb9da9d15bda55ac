package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Another user may read a cache, but for what its owner's umask keeps from others. What
// may not be read is not damaged, and is not fetched again.
func TestSharedCache(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user; CI runs it as root")
	}
	u := newUpstream(t)
	o, _ := options(t, u.lock)
	o.Cache = filepath.Join(t.TempDir(), "cache")
	for dir := o.Cache; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.Chmod(dir, 0o755))
	}
	o.Override = u.bundle(t, "b102")
	mustFetch(t, o, "b102")
	o.Override = ""
	o.Offline = true
	as := func(uid int) (*Tree, error) {
		// Of this thread alone: it is not given back, so Go ends it with the goroutine.
		type result struct {
			tree *Tree
			err  error
		}
		got := make(chan result)
		go func() {
			runtime.LockOSThread()
			if err := syscall.Setfsuid(uid); err != nil {
				got <- result{nil, err}
				return
			}
			tree, err := fetch(t, o, "b102")
			got <- result{tree, err}
		}()
		r := <-got
		return r.tree, r.err
	}
	tree, err := as(65534)
	must(t, err)
	must(t, tree.Close())
	packs, err := filepath.Glob(filepath.Join(o.Cache, "*.git/objects/pack/*"))
	must(t, err)
	for _, p := range packs {
		must(t, os.Chmod(p, 0o600))
	}
	if _, err := as(65534); !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "corrupt") ||
		!strings.Contains(err.Error(), "the cache cannot be used") {
		t.Errorf("got %v", err)
	}
	tree, err = as(0)
	must(t, err)
	must(t, tree.Close())
}
