package bundle

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tarGz writes an archive with these entries into a file.
func tarGz(t *testing.T, file string, entries ...*tar.Header) {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	for _, e := range entries {
		e.Mode = 0o755
		if e.Typeflag == tar.TypeReg {
			e.Size = 4
		}
		if err := tw.WriteHeader(e); err != nil {
			t.Fatal(err)
		}
		if e.Typeflag == tar.TypeReg {
			if _, err := tw.Write([]byte("evil")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(tw.Close(), gz.Close(), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Whatever names and links an archive has, nothing is written outside of the folder.
func TestUnpackStaysInside(t *testing.T) {
	reg := func(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name} }
	for name, entries := range map[string][]*tar.Header{
		"up":             {reg("top/../../out")},
		"through a link": {{Typeflag: tar.TypeSymlink, Name: "top/a", Linkname: "../.."}, reg("top/a/out")},
		"over a link":    {{Typeflag: tar.TypeSymlink, Name: "top/a", Linkname: "../../out"}, reg("top/a")},
		"rooted":         {reg("top//../../out")},
		"a device":       {{Typeflag: tar.TypeChar, Name: "top/dev"}},
		"twice":          {reg("top/a"), reg("top/a")},
	} {
		dir := t.TempDir()
		inside := filepath.Join(dir, "x", "in")
		if err := os.MkdirAll(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "a.tar.gz")
		tarGz(t, file, entries...)
		if err := Unpack(t.Context(), file, inside); err == nil {
			t.Errorf("%s: it was unpacked", name)
		}
		for _, out := range []string{filepath.Join(dir, "out"), filepath.Join(dir, "x", "out")} {
			if _, err := os.Lstat(out); err == nil {
				t.Errorf("%s: %s was written", name, out)
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.tar.gz")
	tarGz(t, file, reg("top/sub/a"), &tar.Header{Typeflag: tar.TypeSymlink, Name: "top/l", Linkname: "sub"})
	inside := filepath.Join(dir, "in")
	if err := errors.Join(os.Mkdir(inside, 0o755), Unpack(t.Context(), file, inside)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(inside, "sub", "a")); err != nil || string(got) != "evil" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReadBounds(t *testing.T) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for n := range MaxEntries + 1 {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("d%d/", n)}); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(*tar.Header, io.Reader) error { return nil }
	if err := ReadTar(t.Context(), &b, nothing); !errors.Is(err, ErrTooMuch) {
		t.Errorf("too many: %v", err)
	}
	b.Reset()
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: MaxFile + 1}); err != nil {
		t.Fatal(err)
	}
	if err := ReadTar(t.Context(), &b, nothing); !errors.Is(err, ErrTooMuch) {
		t.Errorf("too large: %v", err)
	}
	if _, err := Behind(strings.NewReader(strings.Repeat("\x00", maxBehind+1))); !errors.Is(err, ErrTooMuch) {
		t.Errorf("too much behind it: %v", err)
	}

	b.Reset()
	zw := zip.NewWriter(&b)
	for n := range MaxEntries + 1 {
		if _, err := zw.Create(fmt.Sprintf("d%d/", n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(zw.SetComment("c"), zw.Close()); err != nil {
		t.Fatal(err)
	}
	if comment, err := ReadZip(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len()), nothing); !errors.Is(err,
		ErrTooMuch) || comment != "c" {
		t.Errorf("a zip with too many: %q, %v", comment, err)
	}
}

// What somebody states of a second build is no statement of another archive, plan or kind.
func FuzzReproduced(f *testing.F) {
	sum, i := strings.Repeat("a", 64), Info{Plan: "plan", Patched: "tree"}
	good := func(sum, plan, by string) []byte {
		text, err := json.Marshal(Statement{
			StatementType,
			[]Resource{{Digest: map[string]string{"sha256": sum}}},
			TestResultType,
			TestResult{
				Result: "PASSED", Configuration: []Resource{{Name: by, Digest: map[string]string{"plan": plan, "gitTree": "tree"}}},
			},
		})
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	if got, err := i.ReadReproduced(good(sum, "plan", rebuiltBy), sum); err != nil || got.Result != "PASSED" {
		f.Fatalf("%+v, %v", got, err)
	}
	for name, text := range map[string][]byte{
		"another archive": good("b", "plan", rebuiltBy), "another plan": good(sum, "other", rebuiltBy),
		"the release's own": good(sum, "plan", "recipes/x.toml"),
	} {
		if _, err := i.ReadReproduced(text, sum); err == nil {
			f.Errorf("%s passes", name)
		}
		f.Add(text)
	}
	f.Add(good(sum, "plan", rebuiltBy))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := i.ReadReproduced(text, sum); err == nil && !bytes.Contains(text, []byte("verify")) &&
			!bytes.Contains(text, []byte(`\u`)) {
			t.Errorf("%q passes", text)
		}
	})
}
