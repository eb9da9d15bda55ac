package stage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// The libraries that a full bundle holds are the ones that its checks use.
func TestCarriedComeFirst(t *testing.T) {
	top := t.TempDir()
	kit := filepath.Join(top, "kit")
	compile(t, filepath.Join(kit, "libcublas.so.12"))
	needs := []*binary.File{{Name: "libggml-cuda.so", Needed: []string{"libcublas.so.12"}}}
	fact := build.CUDAFact{Version: "12.4", Libs: []string{kit}}
	link := filepath.Join(top, "libs/cuda/libcublas.so.12")
	for _, carried := range []bool{false, true} {
		if carried {
			needs = append(needs, &binary.File{Name: "libcublas.so.12"})
		}
		if _, err := CUDALibraries(filepath.Join(top, "libs"), needs, fact); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(link); carried != os.IsNotExist(err) {
			t.Errorf("carried %v: %v", carried, err)
		}
	}
}

// The libraries of a full bundle come from where the build linked with them: on this
// machine, or in the root that has them.
func TestLibraryDirs(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "CMakeCache.txt"),
		"CUDA_cublas_LIBRARY:FILEPATH=/usr/lib/x86_64-linux-gnu/stubs/libcublas.so\n")
	root := t.TempDir()
	put(t, filepath.Join(root, "bin/a.dll"), "")
	for _, c := range []struct{ root, named, want string }{
		{"", "", "/usr/lib/x86_64-linux-gnu"},
		{root, "", root + "/usr/lib/x86_64-linux-gnu"},
		{root, "kit", root + "/bin"},
	} {
		if got, err := LibraryDirs(dir, c.root, spec.Bundle{Libraries: c.named}); err != nil || len(got) != 1 ||
			got[0] != c.want {
			t.Errorf("got %q, %v; want %q", got, err, c.want)
		}
	}
}
