//go:build linux

package buildenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever a list says, what is made of it is a lock that reads as it is written.
func FuzzList(f *testing.F) {
	const sum = "36bd6f1ea8711f69405ebd0b26d1f791a6ef6eb01cc3f01ba4231eb8ec09c208"
	f.Add([]byte(`{"release_date": "2022-02-01", "cuda_cudart": {"version": "11.4.148", "linux-x86_64": {"relative_path": "cuda_cudart/linux-x86_64/a.tar.xz", "sha256": "` + sum + `", "size": "828732"}}}`))
	f.Add([]byte(`{"cuda_cudart": {"version": 1, "linux-x86_64": []}}`))
	d := Decl{Name: "kit", Arch: "amd64", Redist: &Redist{Release: "11.4.4", Linux: []string{"cuda_cudart"}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := d.redistLock(data)
		if err != nil {
			return
		}
		again, err := ParseLock([]byte(l.String()))
		if err != nil || again.String() != l.String() {
			t.Fatalf("%v of\n%s", err, l)
		}
	})
}

// Whatever an archive holds, nothing comes to lie out of the root, and no link of a root
// that is taken leads there.
func FuzzArchive(f *testing.F) {
	f.Add(true, zipped(f, item{name: "a/b/c.dll", text: "MZ"}, item{name: "a/../../x", text: "x"},
		item{name: "a/l", mode: fs.ModeSymlink, text: "/etc"}))
	f.Add(false, tarXZ(f, item{name: "a/lib/c.so", kind: '2', link: "d.so"}, item{name: "a/lib/d.so", text: "elf"},
		item{name: "a/x", kind: '1', link: "a/lib/d.so"}))
	f.Add(false, tarXZ(f, item{name: "a/b/c/s", kind: '2', link: "../.."},
		item{name: "a/b/t", kind: '2', link: "c/s/../../x"}))
	f.Fuzz(func(t *testing.T, windows bool, data []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "a/b/root")
		must(t, os.MkdirAll(dir, 0o755))
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer root.Close()
		p := Package{Name: "a", Version: "1", Arch: linuxArchives, File: "a.tar.xz"}
		if windows {
			p.Arch, p.File = windowsArchives, "a.zip"
		}
		file := filepath.Join(t.TempDir(), p.File)
		must(t, os.WriteFile(file, data, 0o644))
		a := archives{decl: Decl{Name: "kit", RoomMiB: 1, Redist: &Redist{}, Lock: &Lock{}}, root: root, left: 1 << 20}
		err = a.unpack(t.Context(), p, file)
		if err == nil {
			err = a.check()
		}
		if a.bytes > 1<<20 {
			t.Errorf("%d bytes were written", a.bytes)
		}
		must(t, filepath.WalkDir(top, func(name string, e fs.DirEntry, werr error) error {
			if werr != nil {
				return werr
			}
			if !strings.HasPrefix(name+"/", dir+"/") && !strings.HasPrefix(dir+"/", name+"/") {
				t.Errorf("%s is out of the root", name)
			}
			if real, lerr := filepath.EvalSymlinks(name); err == nil && e.Type()&fs.ModeSymlink != 0 && lerr == nil &&
				!strings.HasPrefix(real+"/", dir+"/") {
				t.Errorf("%s leads to %s", name, real)
			}
			return nil
		}))
	})
}
