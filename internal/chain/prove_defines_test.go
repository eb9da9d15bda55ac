package chain

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// The proofs' backend is compiled with what the recipe says of the pool's trim.
func TestDefines(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"rocm-gfx1201", "win7-vxkex-cuda11.4", "linux-cuda"} {
		rec, err := repo.Recipe(target)
		if err != nil {
			t.Fatal(err)
		}
		compiled := strings.Contains(strings.Join(append(rec.CUDAFlags, rec.HIPFlags...), " "), "-D"+trimOn)
		hip, cuda := Simulation{HIP: "x"}.defines(rec), Simulation{}.defines(rec)
		if slices.Contains(append(hip, cuda...), trimOn) != compiled ||
			slices.Contains(hip, trimOn) != (target == "rocm-gfx1201") {
			t.Errorf("%s: the proofs' backend is compiled with %q and %q", target, hip, cuda)
		}
	}
}

// The programs that ik_llama.cpp's simulated backend is loaded before are the same for both of its
// targets, and nothing of a CUDA toolkit is asked for.
func TestBeforeDevice(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	var both []spec.Options
	for _, target := range []string{"ik-linux-cpu", "ik-linux-cuda"} {
		rec, err := repo.Recipe(target)
		if err != nil {
			t.Fatal(err)
		}
		before := maps.Clone(rec.CMake)
		got := beforeDevice(rec)
		if !maps.Equal(rec.CMake, before) {
			t.Errorf("%s: the recipe was changed", target)
		}
		if !slices.Equal(got.Backends, []string{"cpu"}) || got.Verify.CUDA != nil || len(got.CMakeFor) > 0 {
			t.Errorf("%s: %+v", target, got)
		}
		both = append(both, got.CMake)
	}
	if !maps.Equal(both[0], both[1]) {
		t.Errorf("%v\n%v", both[0], both[1])
	}
	if flags := both[0]["CMAKE_CXX_FLAGS_RELEASE"]; flags != "-O0 -DNDEBUG -DGGML_USE_CUDA" {
		t.Error(flags)
	}
}
