//go:build linux

package buildenv

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// crate makes what cargo keeps of a crate.
func crate(t *testing.T, top string, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		must(t, w.WriteHeader(&tar.Header{Name: top + "/" + name, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		must(t, err)
	}
	must(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

// A root's library is built in it from a crate with that hash, by commands that see the root
// read only, and lies in it with its terms; what fails leaves no root.
func TestLibrary(t *testing.T) {
	m := newMirror(t)
	made := crate(t, "x-src-1.2.3+4", map[string]string{"x/x.c": "int x;\n", "x/LICENSE": "free\n", "Cargo.toml": ""})
	must(t, os.WriteFile(filepath.Join(m.dir, "x-src-1.2.3+4.crate"), made, 0o644))
	d := decl()
	o := Options{Cache: t.TempDir(), Mirror: "file://" + m.dir, Keyring: m.keys}
	var err error
	d.Lock, err = Update(t.Context(), d, o)
	must(t, err)
	plain := d.Digest()
	install := func(to string) []string { return []string{"/usr/bin/probe", "install", "x.c", to} }
	lib := func(steps ...[]string) *Library {
		return &Library{
			Name: "X 4", Crate: "x-src", Version: "1.2.3+4", SHA256: sha(made), Dir: "x", License: "LICENSE",
			Steps: steps,
		}
	}
	d.Library = lib(install("/llpatch/build/usr/local/lib/libx.a"))
	if d.Digest() == plain {
		t.Error("a root with a library has the digest of one without")
	}
	root, err := Create(t.Context(), d, o)
	must(t, err)
	got := contents(t, root.Root)
	for name, text := range map[string]string{
		"usr/local/lib/libx.a":          "int x;\n",
		"usr/share/doc/x-src/copyright": "free\n",
	} {
		if got[name] != text {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(root.Root), logFile))
	if err != nil || !strings.Contains(string(log), "install x.c /llpatch/build/usr/local/lib/libx.a") {
		t.Errorf("%v\n%s", err, log)
	}
	for name, c := range map[string]struct {
		lib  func(l *Library)
		want string
	}{
		"step":        {func(l *Library) { l.Steps = [][]string{{"/usr/bin/probe", "list", "/none"}} }, "build X 4: "},
		"root":        {func(l *Library) { l.Steps = [][]string{install("/usr/local/lib/libx.a")} }, "read-only file system"},
		"there":       {func(l *Library) { l.Steps = [][]string{install("/llpatch/build/usr/bin/probe")} }, "file exists"},
		"no terms":    {func(l *Library) { l.License = "COPYING" }, "the terms of X 4"},
		"other crate": {func(l *Library) { l.SHA256 = strings.Repeat("0", 64) }, "is not what env.toml asks for"},
	} {
		d.Library = lib(install("/llpatch/build/usr/local/lib/libx.a"))
		c.lib(d.Library)
		_, err := Create(t.Context(), d, o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if name == "other crate" && !errors.As(err, new(*Unavailable)) {
			t.Errorf("%s: %T", name, err)
		}
	}
	roots, err := List(o.Cache)
	must(t, err)
	if len(roots) != 1 || !slices.ContainsFunc(roots, func(i Info) bool { return i.Digest == root.Digest }) {
		t.Errorf("%+v", roots)
	}
}

// Where --mirror has no such crate, the user's own cargo is asked, and what it says is told.
func TestLibraryOfCargo(t *testing.T) {
	m := newMirror(t)
	d := decl()
	o := Options{Cache: t.TempDir(), Mirror: "file://" + m.dir, Keyring: m.keys}
	var err error
	d.Lock, err = Update(t.Context(), d, o)
	must(t, err)
	d.Library = &Library{
		Name: "X 4", Crate: "x-src", Version: "1.2.3+4", SHA256: strings.Repeat("0", 64), Dir: ".",
		License: "LICENSE", Steps: [][]string{{"/usr/bin/probe", "null"}},
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	if _, err = Create(t.Context(), d, o); err == nil || !strings.Contains(err.Error(), "lacks cargo") {
		t.Errorf("%v", err)
	}
	// A cargo that keeps crates where cargo does.
	made := crate(t, "x-src-1.2.3+4", map[string]string{"LICENSE": "free\n"})
	kept := filepath.Join(bin, "registry/cache/index-1")
	must(t, os.MkdirAll(kept, 0o755))
	must(t, os.WriteFile(filepath.Join(kept, "x-src-1.2.3+4.crate"), made, 0o644))
	for _, c := range [][2]string{{"1.2.3+5", "cargo has x-src 1.2.3+5"}, {"1.2.3+4", ""}} {
		version, want := c[0], c[1]
		script := "#!/bin/sh\n/bin/grep -q '^x-src = \"=1.2.3\"$' Cargo.toml || exit 1\n" +
			`echo '{"packages": [{"name": "x-src", "version": "` + version + `", "manifest_path": "` + bin +
			`/registry/src/index-1/x-src-` + version + `/Cargo.toml"}]}'` + "\n"
		must(t, os.WriteFile(filepath.Join(bin, "cargo"), []byte(script), 0o755))
		d.Library.SHA256 = sha(made)
		switch root, err := Create(t.Context(), d, o); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", version, err, want)
		case want == "" && contents(t, root.Root)["usr/share/doc/x-src/copyright"] != "free\n":
			t.Errorf("%s: no terms", version)
		}
	}
}

// A library alone is a folder, which programs of this machine make, or those of a root; what
// they lack is said before anything is fetched.
func TestLibraryAlone(t *testing.T) {
	dir := t.TempDir()
	made := crate(t, "x-src-1.2.3+4", map[string]string{"x/x.c": "int x;\n", "x/LICENSE": "free\n"})
	must(t, os.WriteFile(filepath.Join(dir, "x-src-1.2.3+4.crate"), made, 0o644))
	d := Decl{Name: "x-alone", Arch: "amd64", Lock: &Lock{Kind: Rust, Suite: "1.2.3+4", Arch: "amd64"}, Library: &Library{
		Name: "X 4", Crate: "x-src", Version: "1.2.3+4", SHA256: sha(made), Dir: "x", License: "LICENSE",
		Steps: [][]string{
			{"/usr/bin/install", "-D", "x.c", "/llpatch/build/lib/libx.a"},
			{"/usr/bin/env", "test", "-f", "/llpatch/src/x.c"},
		},
	}}
	o := Options{Cache: t.TempDir(), Mirror: "file://" + dir}
	if _, err := Open(t.Context(), o.Cache, d, nil); !errors.As(err, new(*NotMade)) {
		t.Fatalf("%v", err)
	}
	got, err := Create(t.Context(), d, o)
	must(t, err)
	e, err := Open(t.Context(), o.Cache, d, nil)
	must(t, err)
	has := contents(t, e.Root)
	if has["lib/libx.a"] != "int x;\n" || has["usr/share/doc/x-src/copyright"] != "free\n" || got.Root != e.Root ||
		got.Bytes != 12 {
		t.Errorf("%d bytes: %v", got.Bytes, has)
	}
	must(t, e.Close())
	if _, err := Update(t.Context(), d, o); err == nil || !strings.Contains(err.Error(), "has no lock") {
		t.Errorf("%v", err)
	}
	inside := d
	inside.In = "0123456789ab"
	if inside.Digest() == d.Digest() {
		t.Error("a library made in a root has the digest of one that this machine made")
	}
	var lacks *Missing
	o.In = &Entered{Info: Info{Name: "root", Root: t.TempDir()}}
	if _, err := Create(t.Context(), inside, o); !errors.As(err, &lacks) ||
		!strings.Contains(lacks.What, "/usr/bin/install in buildenv root") {
		t.Errorf("%v", err)
	}
	o.In, d.Library.Steps = nil, [][]string{{"/usr/bin/no-such-program"}}
	if _, err := Create(t.Context(), d, o); !errors.As(err, &lacks) ||
		!strings.Contains(lacks.What, "/usr/bin/no-such-program in this machine") {
		t.Errorf("%v", err)
	}
	d.Library.Steps = [][]string{{"/usr/bin/env", "false"}}
	if _, err := Create(t.Context(), d, o); err == nil || errors.As(err, &lacks) ||
		!strings.Contains(err.Error(), "build X 4: ") {
		t.Errorf("%v", err)
	}
}
