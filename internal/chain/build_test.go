package chain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/disk"
	"github.com/llpatch/llpatch/internal/spec"
)

// A full bundle of a build in a buildenv takes its libraries from the root that the
// buildenv names, and from nowhere else.
func TestLibrariesOfABuildenv(t *testing.T) {
	inside := buildenv.Decl{Name: "kit", Suite: "bookworm", Arch: "amd64"}
	full := spec.Recipe{Name: "small", Bundle: spec.Bundle{Runtime: spec.Full}}
	e, m, o := Workspace{Cache: t.TempDir()}, Machine{Root: &inside}, Order{Recipe: full}
	if _, err := libraries(t.Context(), e, o, m); err == nil || !strings.Contains(err.Error(),
		"--bundle full: buildenv kit has no libraries to carry") {
		t.Errorf("none is named: %v", err)
	}
	libs := buildenv.Decl{
		Name: "kit-runtime", Suite: "bookworm", Arch: "amd64",
		Lock: &buildenv.Lock{Kind: buildenv.Debian, Suite: "bookworm", Arch: "amd64"},
	}
	m.Libraries = &libs
	var not *buildenv.NotMade
	if _, err := libraries(t.Context(), e, o, m); !errors.As(err, &not) || not.Name != "kit-runtime" {
		t.Errorf("it is not made: %v", err)
	}
	for name, other := range map[string]struct {
		o Order
		m Machine
	}{
		"thin":            {Order{Recipe: spec.Recipe{Bundle: spec.Bundle{Runtime: spec.Thin}}}, m},
		"on this machine": {o, Machine{Libraries: &libs}},
		"a drop-in":       {Order{Recipe: full, DropIn: "libggml-cuda.so"}, m},
	} {
		if got, err := libraries(t.Context(), e, other.o, other.m); err != nil || got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// put writes a file and the folders above it.
func put(t *testing.T, file, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}

// The room that a recipe asks for is looked at before anything is written; what an
// earlier run left there has taken its part already.
func TestCheckRoom(t *testing.T) {
	out := filepath.Join(t.TempDir(), "not there yet")
	dir := filepath.Join(out, "b1", "small")
	free, known := disk.Free(t.TempDir())
	if !known {
		t.Skip("this system does not tell what is free")
	}
	p := Patched{Order: Order{Recipe: spec.Recipe{Name: "small"}, Room: free>>20 + 1<<20}, Dir: dir}
	var no *NoRoom
	if err := checkRoom(p); !errors.As(err, &no) || no.NeedMiB != p.Room || no.FreeMiB < 1 {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("looking has made a folder")
	}
	// A file with a hole takes no room in this test.
	put(t, filepath.Join(dir, "build/large.o"), "")
	if err := os.Truncate(filepath.Join(dir, "build/large.o"), 2<<40); err != nil {
		t.Fatal(err)
	}
	if err := checkRoom(p); err != nil {
		t.Errorf("with what is there: %v", err)
	}
	p.Room = 0
	p.Dir = filepath.Join(out, "b2", "small")
	if err := checkRoom(p); err != nil {
		t.Errorf("nothing is known of the target: %v", err)
	}
}
