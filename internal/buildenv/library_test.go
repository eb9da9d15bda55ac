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
		return &Library{Name: "X 4", Crate: "x-src", Version: "1.2.3+4", SHA256: sha(made), Dir: "x", License: "LICENSE", Steps: steps}
	}
	d.Library = lib(install("/llpatch/build/usr/local/lib/libx.a"))
	if d.Digest() == plain {
		t.Error("a root with a library has the digest of one without")
	}
	root, err := Create(t.Context(), d, o)
	must(t, err)
	got := contents(t, root.Root)
	for name, text := range map[string]string{"usr/local/lib/libx.a": "int x;\n", "usr/share/doc/x-src/copyright": "free\n"} {
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
	d.Library = &Library{Name: "X 4", Crate: "x-src", Version: "1.2.3+4", SHA256: strings.Repeat("0", 64), Dir: ".", License: "LICENSE", Steps: [][]string{{"/usr/bin/probe", "null"}}}
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
			`echo '{"packages": [{"name": "x-src", "version": "` + version + `", "manifest_path": "` + bin + `/registry/src/index-1/x-src-` + version + `/Cargo.toml"}]}'` + "\n"
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
