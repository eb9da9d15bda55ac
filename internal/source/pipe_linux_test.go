package source

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// TestPipe: a pipe that nobody writes to is refused, not waited for.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, syscall.Mkfifo(path, 0o600))
	for _, kind := range []string{kindSniff, "bundle", "archive", "git"} {
		o, _ := options(t, nil)
		o.Sources = []spec.Source{{Name: "pipe", Kind: kind, URL: path}}
		done := make(chan error, 1)
		go func() { _, err := fetch(t, o, "b1"); done <- err }()
		select {
		case err := <-done:
			wantErr(t, err, path)
			if kind != "git" {
				wantErr(t, err, "not a regular file")
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it waits for the pipe", kind)
		}
	}
}
