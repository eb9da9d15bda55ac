package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func alone(t *testing.T, dir string, n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != n {
		t.Errorf("in the folder: %v %v", entries, err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lock")
	for _, text := range []string{"one", "", "three"} {
		if err := WriteFile(name, []byte(text), 0o644); err != nil || content(t, name) != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	alone(t, dir, 1)
	if runtime.GOOS == "windows" {
		return
	}
	// The permissions that somebody gave it stay, whatever the umask.
	if err := os.Chmod(name, 0o664); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o664 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

// What cannot be written or put in place changes nothing and leaves nothing.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "none", "x"), nil, 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(folder, []byte("x"), 0o644); err == nil || strings.Contains(err.Error(), Prefix(folder)) ||
		!strings.Contains(err.Error(), folder) {
		t.Errorf("a folder: %v", err)
	}
	alone(t, dir, 1)

	name := filepath.Join(dir, "file")
	if err := WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Create(name, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half of the n"); err != nil || content(t, name) != "old" {
		t.Errorf("while it is written: %v", err)
	}
	for range 2 {
		if err := f.Cleanup(); err != nil {
			t.Error(err)
		}
	}
	if alone(t, dir, 2); content(t, name) != "old" {
		t.Error("a file that was given up is in place")
	}
}

// A reader never sees anything but a whole content, whoever writes.
func TestAtOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows replaces no file that is open")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	whole := map[string]bool{}
	var texts [][]byte
	for i := range 4 {
		text := make([]byte, 100_000*(i+1))
		for j := range text {
			text[j] = byte('a' + i)
		}
		texts, whole[string(text)] = append(texts, text), true
	}
	if err := WriteFile(name, texts[0], 0o644); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, text := range texts {
		writers.Go(func() {
			for range 20 {
				if err := WriteFile(name, text, 0o644); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for reads := 0; ; reads++ {
		if text := content(t, name); !whole[text] {
			t.Fatalf("%d bytes that nobody wrote", len(text))
		}
		select {
		case <-done:
			alone(t, dir, 1)
			return
		default:
		}
	}
}
