package bundle

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
)

// The same files give the same zip, with no folder at its top, and what comes out
// is what went in.
func TestZipBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "llama")
	files := map[string]string{"b.exe": strings.Repeat("llama", 1<<18), "a/LICENSE": "MIT", "empty": ""}
	when := time.Date(2026, 3, 17, 2, 1, 52, 0, time.UTC)
	var first []byte
	for i := range 2 {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		archive := filepath.Join(t.TempDir(), "a.zip")
		sum, err := writeZip(t.Context(), archive, dir, when)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = data
		} else if !bytes.Equal(first, data) {
			t.Fatal("the same files give another zip")
		}
		if len(sum) != 64 {
			t.Errorf("sum %q", sum)
		}
	}
	r, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || string(text) != files[f.Name] {
			t.Errorf("%s: %d bytes, %v", f.Name, len(text), err)
		}
		if !f.Modified.Equal(when) {
			t.Errorf("%s: time %v", f.Name, f.Modified)
		}
	}
	if !slices.Equal(names, []string{"a/LICENSE", "b.exe", "empty"}) {
		t.Errorf("names %v", names)
	}

	if err := os.Symlink("b.exe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var r2 *binary.Rejected
	if _, err := writeZip(t.Context(), filepath.Join(t.TempDir(), "b.zip"), dir, when); !errors.As(err, &r2) {
		t.Errorf("a link: %v", err)
	}
}
