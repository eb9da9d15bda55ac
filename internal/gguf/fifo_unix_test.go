//go:build unix

package gguf

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Nobody writes to the pipe: a read of it would wait for ever.
func TestReadPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "m.gguf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, "/dev/zero"} {
		if _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), name+": it is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
