//go:build linux

package buildenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCreate(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	made, err := Create(t.Context(), d, o)
	must(t, err)
	for name, want := range map[string]string{
		"usr/lib/libtiny.so": "tiny\n", "bin/old-place": "#!/bin/sh\n", "usr/bin/old-place": "#!/bin/sh\n",
		"usr/include/big.h":          "#pragma once\n",
		"usr/lib/libcudart_static.a": "small\n", "usr/share/doc/libtiny/copyright": "free\n", "usr/share/basis": "basis\n",
	} {
		if got, err := os.ReadFile(filepath.Join(made.Root, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"usr/lib/libbig_static.a", "usr/share/doc/libtiny/README", "usr/share/unwanted"} {
		if _, err := os.Lstat(filepath.Join(made.Root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there", name)
		}
	}
	for name, want := range map[string]fs.FileMode{"usr/bin/probe": 0o755, "etc/tiny.conf": 0o640} {
		if st, err := os.Stat(filepath.Join(made.Root, name)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if f := made.Programs["cc"]; f.Version != "1.2.3" || f.Path != "/usr/bin/cc" {
		t.Errorf("programs: %+v", made.Programs)
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(made.Root), logFile))
	if err != nil || !strings.Contains(string(log), "libtiny 1:2.0+b~1 ") {
		t.Errorf("log: %s, %v", log, err)
	}
	entries, _ := os.ReadDir(filepath.Join(o.Cache, "env"))
	if len(entries) != 2 { // the root and locks
		t.Errorf("left: %v", entries)
	}

	// A second time there is nothing to do, and elsewhere the same comes of it.
	m.set(nil)
	again, err := Create(t.Context(), d, o)
	if requests, _ := m.came(); err != nil || !again.Existed || len(requests) != 0 || again.Root != made.Root {
		t.Errorf("again: %+v, %v, %v", again, requests, err)
	}
	elsewhere, err := Create(t.Context(), d, m.options())
	must(t, err)
	if a, b := tree(t, made.Root), tree(t, elsewhere.Root); a != b {
		t.Errorf("two roots of one lock differ:\n%s\n%s", a, b)
	}
	list, err := List(o.Cache)
	if err != nil || len(list) != 1 || list[0].Root != made.Root || list[0].Bytes < 1<<20 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

func TestWrongVersion(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	for version, ok := range map[string]bool{"1.2": true, "1.2.3": true, "1.20": false, "2": false} {
		d.Programs = map[string]Program{"cc": {Path: "/usr/bin/cc", Version: version}}
		_, err := Create(t.Context(), d, o)
		if ok != (err == nil) {
			t.Errorf("%s: %v", version, err)
		}
		if err != nil {
			wantErr(t, err, "/usr/bin/cc is version 1.2.3", "promises "+version)
		}
		_, err = Remove(o.Cache, d.Name)
		must(t, err)
	}
}

func TestUnlocked(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	for _, c := range []struct {
		change func(*Decl)
		words  string
	}{
		{func(d *Decl) { d.Lock = nil }, "has no packages.lock"},
		{func(d *Decl) { d.Base = []string{"tools", "newer"} }, "lacks newer"},
		{func(d *Decl) { d.Suite = "other" }, "asks for suite other amd64"},
	} {
		changed := d
		c.change(&changed)
		_, err := Create(t.Context(), changed, m.options())
		var u *Unlocked
		if !errors.As(err, &u) {
			t.Errorf("%v", err)
		}
		wantErr(t, err, c.words, "--update-lock")
	}
}
