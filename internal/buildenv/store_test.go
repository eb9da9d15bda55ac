//go:build linux

package buildenv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A disk that is too full from the start is left as it was.
func TestNoRoom(t *testing.T) {
	d, o := newMirror(t).locked(), Options{Cache: t.TempDir()}
	lock := *d.Lock
	lock.Packages = slices.Clone(lock.Packages)
	for i := range lock.Packages {
		lock.Packages[i].Size = 1 << 55
	}
	d.Lock = &lock
	_, err := Create(t.Context(), d, o)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if left := glob(t, o.Cache, "env/tiny*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// What an llpatch left that found no room for its marker is llpatch's, and
// somebody's files are not.
func TestUnmarkedWork(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	work := filepath.Join(o.Cache, "env", d.id()+workSuffix)
	begin := func() {
		t.Helper()
		must(t, os.MkdirAll(work, 0o755))
		must(t, os.WriteFile(filepath.Join(work, "."+infoFile+".new-X"), nil, 0o644))
	}
	begin()
	if removed, err := Remove(o.Cache, d.Name); err != nil || !slices.Equal(removed, []string{d.id()}) {
		t.Errorf("%v, %v", removed, err)
	}
	if left := glob(t, o.Cache, "env/tiny*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	must(t, os.Mkdir(filepath.Join(o.Cache, "env", d.id()+goneSuffix), 0o755)) // a removal killed at its last step
	begin()
	precious := filepath.Join(work, "precious")
	must(t, os.WriteFile(precious, nil, 0o644))
	_, err := Create(t.Context(), d, o)
	wantErr(t, err, work, "not made by llpatch")
	_, err = Remove(o.Cache, d.Name)
	wantErr(t, err, work, "not made by llpatch")
	must(t, os.Remove(precious)) // which is still there
	_, err = Remove(o.Cache, d.Name)
	must(t, err)
	if left := glob(t, o.Cache, "env/tiny*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	begin()
	_, err = Create(t.Context(), d, o)
	must(t, err)
}

// A root whose files were deleted by hand is not one.
func TestHollowRoot(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	made, err := Create(t.Context(), d, o)
	must(t, err)
	must(t, os.RemoveAll(made.Root))
	if list, err := List(o.Cache); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	_, err = Open(t.Context(), o.Cache, d, nil)
	var none *NotMade
	if !errors.As(err, &none) {
		t.Errorf("open: %v", err)
	}
	again, err := Create(t.Context(), d, o)
	if err != nil || again.Existed {
		t.Fatalf("%+v, %v", again, err)
	}
	if left := glob(t, o.Cache, "env/tiny*"); len(left) != 1 || strings.HasSuffix(left[0], goneSuffix) {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(made.Root, "usr/bin/probe")); err != nil {
		t.Error(err)
	}
}
