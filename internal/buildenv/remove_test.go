//go:build linux

package buildenv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestRemove(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	made, err := Create(t.Context(), d, o)
	must(t, err)
	dir := filepath.Dir(made.Root)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "precious"), []byte("x"), 0o644))
	must(t, os.Symlink(outside, filepath.Join(made.Root, "usr/lib/out")))
	precious := func() {
		t.Helper()
		if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
			t.Fatal(err)
		}
	}

	// While it is used, and while a program of it runs, it stays.
	e, err := Open(t.Context(), o.Cache, d, nil)
	must(t, err)
	_, err = Remove(o.Cache, d.Name)
	var used *InUse
	if !errors.As(err, &used) {
		t.Fatal(err)
	}
	wantErr(t, err, d.id(), "in use")
	must(t, e.Close())

	if os.Geteuid() == 0 {
		must(t, syscall.Mount(outside, filepath.Join(made.Root, "home"), "", syscall.MS_BIND, ""))
		_, err = Remove(o.Cache, d.Name)
		wantErr(t, err, filepath.Join(made.Root, "home"), "unmount it first")
		must(t, syscall.Unmount(filepath.Join(made.Root, "home"), 0))
		precious()
	}

	// Folders that carry the name and no marker, and links to elsewhere.
	foreign := filepath.Join(o.Cache, "env", "tiny-1-0123456789ab")
	must(t, os.Mkdir(foreign, 0o755))
	_, err = Remove(o.Cache, "tiny-1-0123456789ab")
	wantErr(t, err, foreign, "not made by llpatch")
	must(t, os.Remove(foreign))
	must(t, os.Symlink(outside, foreign))
	_, err = Remove(o.Cache, "tiny-1-0123456789ab")
	wantErr(t, err, foreign, "not made by llpatch")
	must(t, os.Remove(foreign))
	for _, name := range []string{"..", "../env", "locks", "tiny", "", "."} {
		_, err = Remove(o.Cache, name)
		var none *NotMade
		if !errors.As(err, &none) {
			t.Errorf("%q: %v", name, err)
		}
	}

	// What a killed removal left goes first.
	must(t, os.Mkdir(dir+goneSuffix, 0o755))
	must(t, writeInfo(dir+goneSuffix, made.Info))
	must(t, os.Mkdir(dir+workSuffix, 0o755))
	must(t, writeInfo(dir+workSuffix, made.Info))
	// Others' folders stay, before it and behind it by name, and what can go goes.
	others := []string{
		filepath.Join(o.Cache, "env", d.Name+"-000000000000"),
		filepath.Join(o.Cache, "env", d.Name+"-ffffffffffff"), filepath.Join(o.Cache, "env", d.id()+"x.work"),
	}
	for _, other := range others {
		must(t, os.Mkdir(other, 0o755))
		must(t, os.WriteFile(filepath.Join(other, "mine"), nil, 0o644))
	}
	removed, err := Remove(o.Cache, d.Name)
	if !slices.Equal(removed, []string{d.id()}) {
		t.Errorf("%v, %v", removed, err)
	}
	wantErr(t, err, others[0]+" was not made by llpatch", others[1]+" was not made by llpatch")
	for _, other := range others {
		if _, err := os.Stat(filepath.Join(other, "mine")); err != nil {
			t.Error(err)
		}
		must(t, os.RemoveAll(other))
	}
	precious()
	if left := glob(t, o.Cache, "env/*"); len(left) != 1 { // locks
		t.Errorf("left: %v", left)
	}
}

// A program that outlives llpatch keeps its root.
func TestHeld(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	_, err := Create(t.Context(), d, o)
	must(t, err)
	e, err := Open(t.Context(), o.Cache, d, nil)
	must(t, err)
	c, err := e.Wrap(run.Cmd{Argv: []string{"/usr/bin/probe", "--version"}})
	must(t, err)
	if !slices.Contains(c.Hold, e.held) {
		t.Error("what runs inside does not hold the root")
	}
	must(t, e.Close())
}
