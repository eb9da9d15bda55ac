package spec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A named pipe in the place of a declaration is refused, and not waited for.
func TestNamedPipe(t *testing.T) {
	for _, name := range []string{
		"buildenv/tiny/packages.lock", "buildenv/tiny/env.toml", "patches/series",
		RevisionsFile,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		env := filepath.Join(dir, "buildenv/tiny/env.toml")
		if strings.HasSuffix(name, "packages.lock") {
			text := "summary=\"x\"\nsuite=\"tiny\"\narch=\"amd64\"\ncomponents=[\"main\"]\nbase=[\"tools\"]\n[program.cc]\npath=\"/usr/bin/cc\"\nversion=\"1\"\n"
			if err := os.WriteFile(env, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(os.DirFS(dir))
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), name+": cannot be read: it is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
