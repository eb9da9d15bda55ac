package bundle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes a file and the folders above it.
func put(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSplit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name]")
	data := bytes.Repeat([]byte("0123456789"), 100)
	file := put(t, filepath.Join(dir, "a.tar.gz"), string(data))
	put(t, filepath.Join(dir, "a.tar.gz.part009"), "of an earlier one")
	put(t, filepath.Join(dir, "a.tar.gz.part1"), "not ours")
	put(t, filepath.Join(dir, "a.tar.gz.part002"), "wrong")
	parts, err := split(t.Context(), file, 300)
	if err != nil {
		t.Fatal(err)
	}
	var joined []byte
	for _, p := range parts {
		part, err := os.ReadFile(filepath.Join(dir, p.Name))
		if err != nil || int64(len(part)) != p.Bytes || len(part) > 300 {
			t.Errorf("%+v: %d bytes, %v", p, len(part), err)
		}
		joined = append(joined, part...)
	}
	if !bytes.Equal(joined, data) || len(parts) != 4 {
		t.Errorf("%d parts join to %d bytes", len(parts), len(joined))
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 6 {
		t.Errorf("%v, %v", left, err)
	}
	if parts, err = split(t.Context(), file, 1000); err != nil || parts != nil {
		t.Errorf("an archive of just the limit: %v, %v", parts, err)
	}
	if _, err := split(t.Context(), file, 1); err == nil || !strings.Contains(err.Error(), "more than 999 parts") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := split(ctx, file, 300); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
