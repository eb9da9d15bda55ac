//go:build linux

package buildenv

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/exit"
)

// versioned compiles a library whose function has the given version, and a library that needs it.
func versioned(t *testing.T, version string) (library, user string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"lib.c": "int which(void) { return 1; }\n", "lib.map": version + " { global: which; };\n",
		"user.c": "int which(void);\nint user(void) { return which(); }\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, args := range [][]string{
		{"-o", "libver.so.1", "-Wl,-soname,libver.so.1", "-Wl,--version-script=lib.map", "lib.c"},
		{"-o", "libuser.so", "user.c", "-l:libver.so.1", "-L."},
	} {
		c := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-nostdlib"}, args...)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for name, to := range map[string]*string{"libver.so.1": &library, "libuser.so": &user} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		*to = string(data)
	}
	return library, user
}

// twoSuites is a mirror whose suite newer has packages that may be laid over a root of tiny.
func twoSuites(t *testing.T) *mirror {
	t.Helper()
	m := newMirror(t)
	lib, user := versioned(t, "VER_1.0")
	newLib, newUser := versioned(t, "VER_2.0")
	_, absent := versioned(t, "VER_3.0")
	absent = strings.ReplaceAll(absent, "libver.so.1", "libnot.so.1")
	foreign := []byte(newUser)
	foreign[18] = byte(elf.EM_AARCH64) // e_machine, of which the other byte is 0 in both
	const dir = "usr/lib/x86_64-linux-gnu/"
	m.add(
		deb{control: "Package: libver\nVersion: 1", files: map[string]string{
			dir + "libver.so.1.0": lib, dir + "libver.so.1": "-> libver.so.1.0",
		}},
		deb{control: "Package: libver\nVersion: 2", newer: true, files: map[string]string{dir + "libver.so.1": newLib}},
		deb{control: "Package: kit\nVersion: 5\nDepends: libver (>= 2)", newer: true, files: map[string]string{
			"usr/bin/kit": "#!/bin/sh\n", dir + "libkit.so": user, dir + "libplug.so": absent,
			"usr/arm/lib.so": string(foreign), "usr/share/kit/table": "\x7fEL", "usr/include/kit.h": "#pragma once\n",
			"usr/lib/libkit_static.a": "!<arch>\n",
		}},
		deb{control: "Package: new-kit\nVersion: 6", newer: true, files: map[string]string{
			"usr/lib/new-kit/libkit.so": newUser, "usr/lib/new-kit/libkit.so.6": "-> libkit.so",
		}},
		deb{control: "Package: thief\nVersion: 7", newer: true, files: map[string]string{"usr/share/basis": "other\n"}},
		deb{control: "Package: tools\nVersion: 9", newer: true, files: map[string]string{"usr/bin/probe": "other\n"}},
	)
	return m
}

// over is the tests' declaration with packages of newer over it, and locked.
func (m *mirror) over(packages ...string) (Decl, error) {
	d := decl()
	d.Base = append(slices.Clone(d.Base), "libver")
	d.From = map[string]From{"newer": {Components: []string{"main"}, Unpack: packages}}
	var err error
	d.Lock, err = Update(m.t.Context(), d, Options{Mirror: m.url, Keyring: m.keys})
	return d, err
}

// A root of one suite takes named packages of another, and nothing that those depend on.
func TestTwoSuites(t *testing.T) {
	m := twoSuites(t)
	d, err := m.over("kit")
	must(t, err)
	var names []string
	for _, p := range d.Lock.Packages {
		names = append(names, p.Name+" "+p.Version)
	}
	if want := []string{"basis 1", "big-dev 3", "kit 5", "libtiny 1:2.0+b~1", "libver 1", "tools 1.0-1"}; !slices.Equal(
		names, want) {
		t.Errorf("packages: %v", names)
	}
	if again, err := ParseLock([]byte(d.Lock.String())); err != nil || again.Suite != "tiny+newer" {
		t.Errorf("%+v, %v", again, err)
	}
	if order := d.order(); order[len(order)-1].Name != "kit" {
		t.Errorf("order: %v", order)
	}
	d.Gather = map[string]string{"/opt/kit": "/usr/include"}
	made, err := Create(t.Context(), d, m.options())
	must(t, err)
	for _, name := range []string{"usr/bin/kit", "usr/lib/x86_64-linux-gnu/libplug.so", "opt/kit/kit.h", "opt/kit/big.h"} {
		if _, err := os.Stat(filepath.Join(made.Root, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(made.Root, "usr/lib/libkit_static.a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what exclude leaves out is there: %v", err)
	}
	root, out, err := runScript(t, m, d)
	if a, b := withoutFolders(t, made.Root), withoutFolders(t, root); err != nil || !slices.Equal(a, b) {
		t.Errorf("%v\n%s\ncreate:\n%s\ncontainer:\n%s", err, out, strings.Join(a, "\n"), strings.Join(b, "\n"))
	}

	// Its lock is of both suites, and names what each was asked for.
	one := d
	one.From = nil
	wantErr(t, one.CheckLock(), "packages.lock is of suite tiny+newer amd64, and env.toml asks for suite tiny amd64")
	more := d
	more.From = map[string]From{"newer": {Unpack: []string{"kit", "new-kit"}}}
	wantErr(t, more.CheckLock(), "packages.lock lacks new-kit")
}

// What is newer than the root is refused, before there is a root.
func TestUnfit(t *testing.T) {
	m := twoSuites(t)
	d, err := m.over("new-kit")
	must(t, err)
	o := m.options()
	_, err = Create(t.Context(), d, o)
	wantErr(t, err, "buildenv tiny-1: package new-kit of newer is too new for the root: usr/lib/new-kit/libkit.so needs "+
		"VER_2.0, which the root's libver.so.1 does not have", "exclude")
	if exit.Code(err) != exit.Declaration {
		t.Errorf("exit code %d", exit.Code(err))
	}
	if made, err := List(o.Cache); err != nil || len(made) != 0 {
		t.Errorf("there is a root: %v, %v", made, err)
	}
	// Where nothing runs it, it can be left out.
	d.Exclude = append(slices.Clone(d.Exclude), "usr/lib/new-kit/**")
	_, err = Create(t.Context(), d, o)
	must(t, err)

	d, err = m.over("thief")
	must(t, err)
	_, err = Create(t.Context(), d, m.options())
	wantErr(t, err, "buildenv tiny-1: unpack thief: package thief of newer would replace usr/share/basis")
	if exit.Code(err) != exit.Declaration {
		t.Errorf("exit code %d", exit.Code(err))
	}
	for _, name := range []string{"tools", "libver", "libtiny"} { // a package that the root has of its own suite
		_, err = m.over(name)
		wantErr(t, err, "package "+name+" is to be unpacked alone, and a package of the base depends on it")
	}
	_, err = m.over("no-such-package")
	wantErr(t, err, "packages of newer", "no-such-package")
}
