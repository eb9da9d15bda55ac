package chain

import (
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
		if slices.Contains(append(hip, cuda...), trimOn) != compiled || slices.Contains(hip, trimOn) != (target == "rocm-gfx1201") {
			t.Errorf("%s: the proofs' backend is compiled with %q and %q", target, hip, cuda)
		}
	}
}
