package disk

import (
	"path/filepath"
	"testing"
)

func TestFree(t *testing.T) {
	dir := t.TempDir()
	if n, ok := Free(dir); !ok || n <= 0 {
		t.Errorf("%d %v", n, ok)
	}
	if _, ok := Free(filepath.Join(dir, "none")); ok {
		t.Error("a folder that is not there has room")
	}
}
