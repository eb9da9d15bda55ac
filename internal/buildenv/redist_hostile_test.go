//go:build linux

package buildenv

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What no archive may hold, although its hash is right.
func TestHostileArchives(t *testing.T) {
	const top = "a-1-archive/"
	for name, c := range map[string]struct {
		tar  []item
		zip  []item
		want string
	}{
		"a path out of it": {
			tar:  []item{{name: top + "../../x", text: "x"}},
			want: "is no path that an archive may have",
		},
		"an absolute path": {
			tar:  []item{{name: "/" + top + "x", text: "x"}},
			want: "is no path that an archive may have",
		},
		"a backslash":  {zip: []item{{name: top + `..\x`, text: "x"}}, want: "is no path that an archive may have"},
		"a drive":      {zip: []item{{name: "c:/x", text: "x"}}, want: "is no path that an archive may have"},
		"a line break": {tar: []item{{name: top + "a\nb", text: "x"}}, want: `a\nb" is no path`},
		"a long name":  {tar: []item{{name: top + strings.Repeat("x", 2000), text: "x"}}, want: "is no path"},
		"a folder too long": {
			tar:  []item{{name: top + strings.Repeat("x", 300) + "/y", text: "x"}},
			want: "cannot be placed",
		},
		"two folders at the top": {
			tar:  []item{{name: top + "a", text: "x"}, {name: "b/c", text: "x"}},
			want: "is not below one folder",
		},
		"no folder at the top": {tar: []item{{name: "a", text: "x"}}, want: "is not below one folder"},
		"a file twice": {
			tar:  []item{{name: top + "b/c", text: "x"}, {name: top + "b/c", text: "y"}},
			want: "is in it twice",
		},
		"a DLL twice": {
			zip:  []item{{name: top + "bin/a.dll", text: "x"}, {name: top + "bin/A.DLL", text: "y"}},
			want: "is in it twice",
		},
		"a file as a folder": {
			tar:  []item{{name: top + "b/c", text: "x"}, {name: top + "b/c/d", text: "y"}},
			want: "cannot be placed",
		},
		"a link away": {
			tar:  []item{{name: top + "b/c", kind: tar.TypeSymlink, link: "/etc/passwd"}},
			want: `is a link to "/etc/passwd", out of the root`,
		},
		"a link up": {tar: []item{{name: top + "b/c", kind: tar.TypeSymlink, link: "../../../x"}}, want: "out of the root"},
		"links that lead away together": {tar: []item{
			{name: top + "b/c/s", kind: tar.TypeSymlink, link: "../.."},
			{name: top + "b/t", kind: tar.TypeSymlink, link: "c/s/../../x"},
		}, want: "is a link that does not stay in it"},
		"another name of what is not there": {
			tar:  []item{{name: top + "b/c", kind: tar.TypeLink, link: "../../etc/passwd"}},
			want: "is another name of",
		},
		"a device": {
			tar:  []item{{name: top + "b/c", kind: tar.TypeChar}},
			want: "is neither a file nor a folder",
		},
		"a pipe": {
			tar:  []item{{name: top + "b/c", kind: tar.TypeFifo}},
			want: "is neither a file nor a folder",
		},
		"a link in a zip": {
			zip:  []item{{name: top + "b/c", mode: fs.ModeSymlink, text: "/etc/passwd"}},
			want: "is neither a file nor a folder",
		},
		"too much in a tar": {
			tar:  []item{{name: top + "b/c", text: strings.Repeat("0", 3<<20)}},
			want: "unpack to more than the 1 MiB",
		},
		"too much left out of a tar": {
			tar:  []item{{name: top + "left/out", text: strings.Repeat("0", 3<<20)}},
			want: "unpack to more than the 1 MiB",
		},
		"too much in a zip": {
			zip:  []item{{name: top + "b/c", text: strings.Repeat("0", 3<<20)}},
			want: "unpack to more than the 1 MiB",
		},
		"not what is promised": {tar: []item{{name: top + "b/d", text: "x"}}, want: "has no b/c, which env.toml promises"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNVIDIA(t)
			d := Decl{
				Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{URL: n.url, Release: "11.4.4"},
				Exclude: []string{"left/**"}, Holds: []string{"b/c"},
			}
			if c.tar != nil {
				n.put(t, "a", "1", linuxArchives, tarXZ(t, c.tar...))
				d.Redist.Linux = []string{"a"}
			} else {
				n.put(t, "a", "1", windowsArchives, zipped(t, c.zip...))
				d.Redist.Windows = []string{"a"}
			}
			refused(t, d, c.want)
		})
	}
	t.Run("two archives with different files for one path", func(t *testing.T) {
		n := newNVIDIA(t)
		d := Decl{Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{
			URL: n.url, Release: "11.4.4",
			Linux: []string{"a", "b"},
		}, Holds: []string{"b/c"}}
		n.put(t, "a", "1", linuxArchives, tarXZ(t, item{name: top + "b/c", text: "x"}))
		for _, text := range []string{"y", "xy", ""} {
			n.put(t, "b", "1", linuxArchives, tarXZ(t, item{name: "b/b/c", text: text}))
			refused(t, d, "and another archive before it have different files for b/c")
		}
	})
	t.Run("no archive at all", func(t *testing.T) {
		n := newNVIDIA(t)
		d := Decl{Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{
			URL: n.url, Release: "11.4.4",
			Linux: []string{"a"},
		}, Holds: []string{"b/c"}}
		n.put(t, "a", "1", linuxArchives, []byte("<html>"))
		refused(t, d, "a-linux-x86_64-1-archive.tar.xz cannot be unpacked: xz")
		d.Redist.Linux, d.Redist.Windows = nil, []string{"a"}
		n.put(t, "a", "1", windowsArchives, []byte("<html>"))
		refused(t, d, "a-windows-x86_64-1-archive.zip cannot be unpacked: zip")
	})
	t.Run("cut off", func(t *testing.T) {
		n := newNVIDIA(t)
		d := Decl{Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{
			URL: n.url, Release: "11.4.4",
			Linux: []string{"a"},
		}, Holds: []string{"b/c"}}
		whole := tarXZ(t, item{name: top + "b/c", text: strings.Repeat("0123456789", 10000)})
		n.put(t, "a", "1", linuxArchives, whole[:len(whole)-40])
		refused(t, d, "a-linux-x86_64-1-archive.tar.xz cannot be unpacked: ")
	})
	// Holes take no room in the archive, and all of it on the disk.
	t.Run("a file full of holes", func(t *testing.T) {
		n := newNVIDIA(t)
		d := Decl{Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{
			URL: n.url, Release: "11.4.4",
			Linux: []string{"a"},
		}, Holds: []string{"b/c"}}
		for _, form := range []string{"gnu", "posix"} {
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(dir, top, "b"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, top, "b/c"), []byte("x"), 0o600))
			must(t, os.Truncate(filepath.Join(dir, top, "b/c"), 64<<20))
			out, err := exec.Command("tar", "-C", dir, "--format", form, "-cSJf", filepath.Join(dir, "a.tar.xz"),
				top).CombinedOutput()
			if err != nil {
				t.Fatalf("tar: %v: %s", err, out)
			}
			data, err := os.ReadFile(filepath.Join(dir, "a.tar.xz"))
			must(t, err)
			n.put(t, "a", "1", linuxArchives, data)
			refused(t, d, "unpack to more than the 1 MiB")
		}
	})
}

// refused makes a root that must not come about, and sees that nothing of it is left
// but what was fetched.
func refused(t *testing.T, d Decl, want string) {
	t.Helper()
	var err error
	if d.Lock, err = Update(t.Context(), d, Options{}); err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	cache := filepath.Join(top, "a/b/c/cache")
	_, err = Create(t.Context(), d, Options{Cache: cache})
	wantErr(t, err, want, "kit")
	if !errors.As(err, new(*BadArchive)) {
		t.Errorf("%T: %v", err, err)
	}
	if roots, err := List(cache); err != nil || len(roots) != 0 {
		t.Errorf("there is a root: %v, %v", roots, err)
	}
	for name := range contents(t, top) {
		if dir := filepath.Dir(name); filepath.Base(dir) != packagesDir && filepath.Base(dir) != "locks" &&
			filepath.Base(name) != infoFile {
			t.Errorf("%s is left", name)
		}
	}
}

// A full disk is not the archive's fault, and what was begun is removed.
func TestRedistFullDisk(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "disk")
	must(t, os.Mkdir(cache, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=40", "tmpfs",
		cache).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no small disk can be made here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", cache).Run() })
	n := newNVIDIA(t)
	d := Decl{Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{
		URL: n.url, Release: "11.4.4",
		Linux: []string{"a"},
	}, Holds: []string{"b/1"}}
	var items []item
	for i := range 60 {
		items = append(items, item{name: fmt.Sprintf("a/b/%d/x", i), text: "x"})
	}
	n.put(t, "a", "1", linuxArchives, tarXZ(t, items...))
	var err error
	d.Lock, err = Update(t.Context(), d, Options{})
	must(t, err)
	_, err = Create(t.Context(), d, Options{Cache: cache})
	wantErr(t, err, "the disk of "+cache, "is full", "no space left on device")
	if errors.As(err, new(*BadArchive)) {
		t.Errorf("the archive is said to be at fault: %v", err)
	}
}
