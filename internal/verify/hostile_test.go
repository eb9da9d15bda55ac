package verify

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// packed makes an archive of one file.
func packed(t *testing.T, name string, text io.Reader, size int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "llama-b1-bin-x.tar.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{
		Name: "llama-b1-bin-x/" + name, Mode: 0o644, Size: size,
		Typeflag: tar.TypeReg,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, text, size); err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{w, z, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// A manifest may hold anything.
func TestHostileManifest(t *testing.T) {
	for _, text := range []string{
		`{"tag":"b1","series":{},"files":[null]}`,
		`{"tag":"b1","series":null,"files":[]}`,
		`null`, `[]`, `{"tag":1}`,
	} {
		r, err := archive(t.Context(), packed(t, "BUILD_INFO.json", strings.NewReader(text), int64(len(text))), Options{})
		if err != nil || !strings.Contains(r.Text(), "BUILD_INFO.json cannot be read") {
			t.Errorf("%s: %v, %+v", text, err, r)
		}
	}
}

// What a small archive holds may be large, and is not kept.
func TestLargeFile(t *testing.T) {
	const size = maxOther + 1
	file := packed(t, "zeros", zeros{}, size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := archive(t.Context(), file, Options{})
	runtime.ReadMemStats(&after)
	if err != nil || r.files != 1 {
		t.Fatalf("%v, %+v", err, r)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > size/4 {
		t.Errorf("%d bytes were taken for %d", got, int64(size))
	}
}

// What lies beside an archive is what its folder holds.
func TestSumsLeadOut(t *testing.T) {
	file := packed(t, "x", strings.NewReader("x"), 1)
	name, dir := filepath.Base(file), filepath.Dir(file)
	if err := os.Mkdir(filepath.Join(dir, name+".d"), 0o755); err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("0", 64)
	text := sum + "  " + name + ".x/../../../../../../../dev/zero\n" + sum + "  " + name + ".d\n"
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := archive(t.Context(), file, Options{})
	if err != nil || !strings.Contains(r.Text(), "which is no file beside it") ||
		!strings.Contains(r.Text(), name+".d, beside it, is no regular file") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// A manifest that is too large to be one, or that lists what no memory holds, is wrong, and is not read.
func TestLargeManifest(t *testing.T) {
	for what, text := range map[string]string{
		"values": `{"tag":"b1","series":{},"files":[` + strings.Repeat("{},", 5_000_000) + `{}]}`,
		"quoted": `{"tag":"b1","series":{},"llpatch":"\"","files":[` + strings.Repeat("{},", 300_000) + `{}]}`,
		"bytes":  `{"tag":"b1","series":{},"files":[]}` + strings.Repeat(" ", maxText),
	} {
		file := packed(t, "BUILD_INFO.json", strings.NewReader(text), int64(len(text)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := archive(t.Context(), file, Options{})
		runtime.ReadMemStats(&after)
		if err != nil || !strings.Contains(r.Text(), "BUILD_INFO.json cannot be read: it") || !r.has(Wrong) {
			t.Errorf("%s: %v, %s", what, err, r.Text())
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 150<<20 {
			t.Errorf("%s: %d MiB were taken", what, got>>20)
		}
	}
}
