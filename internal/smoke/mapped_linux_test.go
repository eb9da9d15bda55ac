package smoke

import (
	"os"
	"path/filepath"
	"testing"
)

// The file that a process runs is in its memory.
func TestMapped(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		t.Fatal(err)
	}
	if got := mapped(os.Getpid(), filepath.Base(self)); got != self {
		t.Errorf("got %q, want %s", got, self)
	}
	for _, pid := range []int{os.Getpid(), -1} {
		if got := mapped(pid, "libggml-cpu"); got != "" {
			t.Errorf("process %d: %s", pid, got)
		}
	}
}
