package source

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestArchive(t *testing.T) {
	u := newUpstream(t)
	path := filepath.Join(t.TempDir(), "src.tar.gz")
	git(t, u.dir, "archive", "--prefix=llama.cpp-b102/", "-o", path, "b102")
	o, _ := options(t, u.lock)
	o.Override, o.Offline = path, true
	tree := mustFetch(t, o, "b102")
	if tree.ID() != u.tree("b102") {
		t.Errorf("tree %s, want %s", tree.ID(), u.tree("b102"))
	}
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := tree.Checkout(t.Context(), dir, nil); err != nil || diskTree(t, dir) != tree.ID() {
		t.Errorf("checkout of an archive: %v", err)
	}
	if got := git(t, filepath.Join(o.Cache, "llama.cpp.git"), "fsck", "--full", "--strict"); strings.Contains(got,
		"error") {
		t.Errorf("git says of the pack we wrote: %s", got)
	}
	// The time is the commit's, which git archive gives to every file.
	o.Cache, o.Lock = t.TempDir(), nil
	if pin := mustFetch(t, o, "b102").Pin; pin.Time.Format("2006-01-02T15:04:05Z") != "2026-03-17T02:01:52Z" ||
		pin.Commit != "" || pin.Build != 102 {
		t.Errorf("unlocked pin %+v", pin)
	}

	// By URL with the tag in it; another tag's tarball is refused.
	s := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(path))))
	defer s.Close()
	must(t, os.Rename(path, filepath.Join(filepath.Dir(path), "b102.tar.gz")))
	git(t, u.dir, "archive", "--prefix=x/", "-o", filepath.Join(filepath.Dir(path), "b101.tar.gz"), "b103")
	o, _ = options(t, u.lock)
	o.Sources = []spec.Source{{Name: "web", Upstream: "llama.cpp", Kind: "archive", URL: s.URL + "/{tag}.tar.gz"}}
	mustFetch(t, o, "b102")
	if left := listDir(t, filepath.Join(o.Cache, "llama.cpp.downloads")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	_, err := fetch(t, o, "b101")
	as[*Mismatch](t, err)
	wantErr(t, err, u.tree("b101"), u.tree("b103"))
	_, err = fetch(t, o, "b103")
	wantErr(t, err, "404")
	o.Override = s.URL + "/b102.tar.gz"
	o.Cache = t.TempDir()
	mustFetch(t, o, "b102")
	o.Offline, o.Cache = true, t.TempDir()
	_, err = fetch(t, o, "b102")
	wantErr(t, err, "--offline")
}

// TestBadArchives: whatever could write outside the tree, or is no file, is
// refused, wherever in the archive it stands.
func TestBadArchives(t *testing.T) {
	link := func(name, to string) entry {
		return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}, ""}
	}
	hard := func(name, to string) entry {
		return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}, ""}
	}
	typed := func(typ byte) entry {
		return entry{tar.Header{Typeflag: typ, Name: "top-b1/x", Linkname: "top-b1/ok"}, ""}
	}
	ok := file("top-b1/ok", "fine")
	for name, bad := range map[string][]entry{
		"parent":          {ok, file("top-b1/../../evil", "x")},
		"parent inside":   {ok, file("top-b1/a/../evil", "x")},
		"absolute":        {ok, file("/top-b1/evil", "x")},
		"backslash":       {ok, file(`top-b1\..\..\evil`, "x")},
		"git folder":      {ok, file("top-b1/.git/hooks/post-checkout", "x")},
		"two tops":        {ok, file("other/x", "x")},
		"file as top":     {file("top-b1", "x")},
		"link absolute":   {ok, link("top-b1/l", "/etc/passwd")},
		"link out":        {ok, link("top-b1/a/l", "../../etc")},
		"link to above":   {ok, link("top-b1/l", "..")},
		"link above, in":  {ok, link("top-b1/a/l", "../..")},
		"link out, late":  {ok, link("top-b1/l", "a/../../x")},
		"link, backslash": {ok, link("top-b1/l", `a\..\x`)},
		"link, too long":  {ok, link("top-b1/l", strings.Repeat("x", maxPath+1))},
		"link to nothing": {ok, link("top-b1/l", "")},
		"through a link":  {ok, link("top-b1/l", "a"), file("top-b1/l/x", "x")},
		"hard link out":   {ok, hard("top-b1/x", "/etc/passwd")},
		"hard link up":    {ok, hard("top-b1/x", "top-b1/../ok")},
		"hard link, late": {hard("top-b1/x", "top-b1/ok"), ok},
		"hard to nothing": {ok, hard("top-b1/x", "top-b1/no")},
		"hard to a link":  {ok, link("top-b1/l", "ok"), hard("top-b1/x", "top-b1/l")},
		"hard to itself":  {ok, hard("top-b1/ok", "top-b1/ok")},
		"name too long":   {ok, file("top-b1/"+strings.Repeat("x", 256), "x")},
		"char device":     {ok, typed(tar.TypeChar)},
		"block device":    {ok, typed(tar.TypeBlock)},
		"fifo":            {ok, typed(tar.TypeFifo)},
		"twice":           {ok, ok},
		"file and folder": {ok, file("top-b1/ok/x", "x")},
		"empty":           {},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.tar.gz")
			must(t, os.WriteFile(path, tarGzOf(t, bad...), 0o644))
			o, _ := options(t, nil)
			o.Override = path
			tree, err := fetch(t, o, "b1")
			if err == nil {
				t.Fatalf("gave tree %s", tree.ID())
			}
			as[*Unavailable](t, err)
			if strings.Contains(err.Error(), "proves") {
				t.Errorf("it is refused for want of a tag only: %v", err)
			}
			nothingLeft(t, o.Cache)
		})
	}
	// Links inside the tree are fine; a hard one is its file under another name.
	path := filepath.Join(t.TempDir(), "good.tar.gz")
	must(t, os.WriteFile(path, tarGzOf(t, ok, link("top-b1/a/l", "../ok"), link("top-b1/m", "a/l"),
		link("top-b1/n", "..ok"), link("top-b1/a/b/o", "../.."), link("top-b1/p", strings.Repeat("x", maxPath)),
		hard("top-b1/a/hard", "./top-b1/ok")), 0o644))
	o, _ := options(t, nil)
	o.Override = path
	tree := mustFetch(t, o, "b1")
	if got, err := tree.Read("a/hard"); err != nil || string(got.Data) != "fine" || got.Mode != Regular {
		t.Errorf("%q, %v", got.Data, err)
	}
}

// TestArchiveLimits: a header that claims too much is refused before its data come.
func TestArchiveLimits(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "top/huge", Size: maxUnpacked + 1}))
	visited := false
	err := scanTar(t.Context(), &b, maxEntries, func(tarFile, io.Reader) error { visited = true; return nil })
	wantErr(t, err, "top/huge", "to unpack")
	if visited {
		t.Error("it was used")
	}
	b.Reset()
	w = tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "top/"}))
	err = scanTar(t.Context(), &endless{block: b.Bytes()[:512]}, 5000, nil)
	wantErr(t, err, "more than 5000 entries")
}

// endless is one header of a tar stream over and over.
type endless struct {
	block []byte
	at    int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c := copy(p[n:], e.block[e.at:])
		n, e.at = n+c, (e.at+c)%len(e.block)
	}
	return n, nil
}

// TestCorruptArchive changes and cuts a tarball at many places.
func TestCorruptArchive(t *testing.T) {
	u := newUpstream(t)
	path := filepath.Join(t.TempDir(), "src.tar.gz")
	git(t, u.dir, "archive", "--prefix=x/", "-o", path, "b102")
	good, err := os.ReadFile(path)
	must(t, err)
	for i := 0; i < len(good); i += max(1, len(good)/60) {
		for _, bad := range [][]byte{good[:i], func() []byte { b := bytes.Clone(good); b[i] ^= 0x20; return b }()} {
			must(t, os.WriteFile(path, bad, 0o644))
			o, _ := options(t, u.lock)
			o.Override = path
			// Some bytes of gzip's header say nothing about the content.
			if tree, err := fetch(t, o, "b102"); err == nil && (len(bad) < len(good) || i > 9) {
				t.Errorf("%d of %d bytes, byte %d changed: gave tree %s", len(bad), len(good), i, tree.ID())
			} else if err != nil {
				nothingLeft(t, o.Cache)
			}
		}
	}
}

func FuzzScanTar(f *testing.F) {
	seed := func(entries ...tar.Header) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range entries {
			if err := w.WriteHeader(&h); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(b.Bytes())
	}
	seed(tar.Header{Typeflag: tar.TypeReg, Name: "top/a"}, tar.Header{
		Typeflag: tar.TypeSymlink, Name: "top/b",
		Linkname: "a",
	})
	seed(tar.Header{Typeflag: tar.TypeReg, Name: "top/../a"})
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = scanTar(t.Context(), bytes.NewReader(b), maxEntries, func(e tarFile, _ io.Reader) error {
			if !filepath.IsLocal(filepath.FromSlash(e.path)) || checkPath(e.path) != nil {
				t.Errorf("path %q passed", e.path)
			}
			if e.mode == Symlink && !filepath.IsLocal(filepath.Join(filepath.Dir(e.path), e.link)) {
				t.Errorf("link %q -> %q passed", e.path, e.link)
			}
			return nil
		})
	})
}
