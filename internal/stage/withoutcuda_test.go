package stage

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A CUDA target's own backend and NVIDIA's libraries stay out of the simulated device's way.
func TestWithoutCUDA(t *testing.T) {
	t.Parallel()
	stage, bin := t.TempDir(), filepath.Join(t.TempDir(), "bin")
	put := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(stage, name), []byte(name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("llama-server.exe", "ggml.dll", "ggml-cpu-x64.dll", "libggml-base.so.0")
	if err := os.Mkdir(filepath.Join(stage, "LICENSES"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("libggml-base.so.0", filepath.Join(stage, "libggml-base.so")); err != nil {
		t.Fatal(err)
	}
	if got, err := WithoutCUDA(stage, bin); err != nil || got != stage {
		t.Errorf("nothing to leave out: %s, %v", got, err)
	}
	put("ggml-cuda.dll", "libggml-cuda.so", "CUDART64_110.dll", "libcudart.so.11.0", "cublas64_11.dll",
		"cublasLt64_11.dll", "libcublasLt.so.11", "nvcuda.dll", "libcuda.so.1")
	for range 2 {
		got, err := WithoutCUDA(stage, bin)
		if err != nil || got != bin {
			t.Fatalf("%s, %v", got, err)
		}
		entries, err := os.ReadDir(bin)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{
			"ggml-cpu-x64.dll", "ggml.dll", "libggml-base.so", "libggml-base.so.0",
			"llama-server.exe",
		}; !slices.Equal(names, want) {
			t.Errorf("%v", names)
		}
	}
	if _, err := WithoutCUDA(filepath.Join(stage, "none"), bin); !os.IsNotExist(err) {
		t.Errorf("no stage: %v", err)
	}
}
