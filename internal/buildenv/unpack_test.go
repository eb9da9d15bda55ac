//go:build linux

package buildenv

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// No package writes outside the root, whatever its archive says.
func TestUnpackStaysInside(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"dots":        {{Name: "../evil", Typeflag: tar.TypeReg, Mode: 0o644}},
		"hidden dots": {{Name: "./usr/../../evil", Typeflag: tar.TypeReg, Mode: 0o644}},
		"by a link": {
			{Name: "./out", Typeflag: tar.TypeSymlink, Linkname: "../"},
			{Name: "./out/evil", Typeflag: tar.TypeReg, Mode: 0o644},
		},
		"hard link": {{Name: "./got", Typeflag: tar.TypeLink, Linkname: "../secret"}},
		"device":    {{Name: "./dev/sda", Typeflag: tar.TypeBlock, Mode: 0o644, Devmajor: 8}},
		"fifo":      {{Name: "./fifo", Typeflag: tar.TypeFifo, Mode: 0o644}},
		"file, folder": {
			{Name: "./a/b", Typeflag: tar.TypeReg, Mode: 0o644},
			{Name: "./a", Typeflag: tar.TypeReg, Mode: 0o644},
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			must(t, os.Mkdir(filepath.Join(top, "root"), 0o755))
			must(t, os.WriteFile(filepath.Join(top, "secret"), nil, 0o644))
			root, err := os.OpenRoot(filepath.Join(top, "root"))
			must(t, err)
			defer root.Close()
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range entries {
				must(t, w.WriteHeader(&h))
			}
			must(t, w.Close())
			u := unpacker{decl: decl(), root: root}
			if err := u.files(tar.NewReader(&b)); err == nil {
				t.Error("no error")
			}
			if left := glob(t, top, "*"); len(left) != 2 {
				t.Errorf("outside: %v", left)
			}
		})
	}
	// A link with an absolute target is a link in the root, and no way through it.
	top := t.TempDir()
	root, err := os.OpenRoot(top)
	must(t, err)
	defer root.Close()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: "./abs", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}))
	must(t, w.WriteHeader(&tar.Header{Name: "./abs/x", Typeflag: tar.TypeReg, Mode: 0o644}))
	must(t, w.Close())
	u := unpacker{decl: decl(), root: root}
	wantErr(t, u.files(tar.NewReader(&b)), "escapes")
}
