package binary_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
)

// A pipe that nobody writes to is refused, not waited for.
func TestInspectOfPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := binary.Inspect(path); done <- err }()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the pipe")
	}
}
