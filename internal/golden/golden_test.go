package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// heard notes what a test would have been told.
type heard struct {
	testing.TB
	failed bool
}

func (h *heard) Helper()               {}
func (h *heard) Errorf(string, ...any) { h.failed = true }

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new/kept.txt")
	*update = true
	Check(t, file, "text\n")
	*update = false
	Check(t, file, []byte("text\n"))
	h := &heard{TB: t}
	if Check(h, file, "other\n"); !h.failed {
		t.Error("another text passes")
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "text\n" {
		t.Errorf("%q, %v", got, err)
	}
}
