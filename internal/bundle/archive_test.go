package bundle

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
)

// The same files give the same archive, however many processors pack it.
func TestArchiveBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "llama")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Several of the compressor's blocks, half of them compressible.
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a seeded fixture
	var big bytes.Buffer
	for big.Len() < 5<<20 {
		big.WriteString("llama.cpp ")
		big.WriteByte(byte(rng.Uint32()))
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), big.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	var first []byte
	for _, n := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(n)
		file := filepath.Join(t.TempDir(), "a.tar.gz")
		if _, err := writeTarGz(t.Context(), file, dir, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if !bytes.Equal(first, got) {
			t.Fatalf("%d processors give another archive: %d bytes and %d", n, len(got), len(first))
		}
	}
}

// Ctrl+C does not wait for the end of a large file.
func TestPackStops(t *testing.T) {
	dir := t.TempDir()
	large := put(t, filepath.Join(dir, "in", "large"), "")
	if err := os.Truncate(large, 1<<40); err != nil {
		t.Fatal(err)
	}
	for name, pack := range map[string]func(context.Context) error{
		"tar.gz": func(ctx context.Context) error {
			_, err := writeTarGz(ctx, filepath.Join(dir, "a.tar.gz"), filepath.Dir(large), time.Unix(0, 0))
			return err
		},
		"zip": func(ctx context.Context) error {
			_, err := writeZip(ctx, filepath.Join(dir, "a.zip"), filepath.Dir(large), time.Unix(0, 0))
			return err
		},
		"parts": func(ctx context.Context) error { _, err := split(ctx, large, 1<<39); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := pack(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A link is packed where it leads to its own folder, and refused where it leads out of it.
func TestPackLinks(t *testing.T) {
	for to, packed := range map[string]bool{
		"a": true, "..a": true, "../a": false, "b/a": false, "/a": false, "a/../../x": false, "..": false, ".": false,
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "in", "a"), "text")
		if err := os.Symlink(to, filepath.Join(dir, "in", "link")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "a.tar.gz")
		_, err := writeTarGz(t.Context(), file, filepath.Join(dir, "in"), time.Unix(0, 0))
		var r *binary.Rejected
		if packed != (err == nil) || !packed && !errors.As(err, &r) {
			t.Errorf("a link to %s: %v", to, err)
		}
		if _, err := os.Stat(file); packed != (err == nil) {
			t.Errorf("a link to %s: %v", to, err)
		}
	}
}
