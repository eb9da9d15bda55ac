//go:build linux

package buildenv

import (
	"archive/tar"
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gathered is the tests' declaration with a folder of links.
func (m *mirror) gathered(gather map[string]string) Decl {
	d := m.locked()
	d.Gather = gather
	return d
}

// What the packages of unpack have in a folder is linked from another one, and nothing
// that was left out or is of another package.
func TestGather(t *testing.T) {
	m := newMirror(t)
	plain := m.locked()
	d := m.gathered(map[string]string{"/opt/kit/include": "/usr/include", "/opt/kit/libs": "/usr/lib"})
	if d.Digest() == plain.Digest() {
		t.Error("the digest does not tell a root with links from one without")
	}
	made, err := Create(t.Context(), d, m.options())
	must(t, err)
	for dir, want := range map[string]map[string]string{
		"opt/kit/include": {"big.h": "../../../usr/include/big.h"},
		// not libbig_static.a nor libtiny.so
		"opt/kit/libs": {"libcudart_static.a": "../../../usr/lib/libcudart_static.a"},
	} {
		got := map[string]string{}
		for _, file := range glob(t, filepath.Join(made.Root, dir), "*") {
			to, err := os.Readlink(file)
			must(t, err)
			got[filepath.Base(file)] = to
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", dir, got, want)
		}
	}
	for _, c := range []struct {
		gather map[string]string
		want   []string
	}{
		{
			map[string]string{"/opt/kit/bin": "/usr/bin"},
			[]string{"buildenv tiny-1: gather /opt/kit/bin: no package of unpack has a file in /usr/bin"},
		},
		{map[string]string{"/opt/kit": "/usr/share/none"}, []string{"no package of unpack has a file in /usr/share/none"}},
		{map[string]string{"/opt/kit": "/usr"}, []string{"/usr/lib has files of packages of base too, and a link " +
			"would show them"}},
		{map[string]string{"/usr/lib": "/usr/include", "/opt/libs": "/usr/lib"}, nil}, // big.h is new there
	} {
		_, err := Create(t.Context(), m.gathered(c.gather), m.options())
		if c.want == nil {
			must(t, err)
			continue
		}
		wantErr(t, err, c.want...)
	}
	d = m.gathered(map[string]string{"/opt/kit": "/usr/include"})
	d.Links = maps.Clone(d.Links)
	d.Links["/opt/kit/big.h"] = "elsewhere"
	_, err = Create(t.Context(), d, m.options())
	wantErr(t, err, "buildenv tiny-1: link /opt/kit/big.h")
}

// A folder of a package alone is one link, whatever lies in it, also a link.
func TestGatherFolders(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer root.Close()
	u := unpacker{decl: decl(), root: root, gathering: gathering{
		gather: map[string]string{"/kit": "/usr/include"},
		alone:  true,
	}}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "./usr/include/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/include/empty/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/include/deep/er/a.h", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./usr/include/deep/b.h", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./usr/include/old.h", Typeflag: tar.TypeSymlink, Linkname: "deep/b.h"},
		{Name: "./usr/includes/c.h", Typeflag: tar.TypeReg, Mode: 0o644},
	} {
		must(t, w.WriteHeader(&h))
	}
	must(t, w.Close())
	must(t, u.files(tar.NewReader(&b)))
	links, err := u.gathering.links()
	must(t, err)
	if want := map[string]string{
		"/kit/deep":  "../usr/include/deep",
		"/kit/old.h": "../usr/include/old.h",
	}; !maps.Equal(links, want) {
		t.Errorf("%v, want %v", links, want)
	}
}

// A Containerfile makes the same links.
func TestContainerfileGathers(t *testing.T) {
	m := newMirror(t)
	d := m.gathered(map[string]string{"/opt/kit/include": "/usr/include", "/opt/kit/libs": "/usr/lib"})
	made, err := Create(t.Context(), d, m.options())
	must(t, err)
	root, out, err := runScript(t, m, d)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if a, b := withoutFolders(t, made.Root), withoutFolders(t, root); !slices.Equal(a, b) {
		t.Errorf("create:\n%s\ncontainer:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}
