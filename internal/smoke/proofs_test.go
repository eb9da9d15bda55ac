package smoke

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestProofCheck(t *testing.T) {
	t.Parallel()
	noFlash := map[string]any{"flash": false}
	for _, tc := range []struct {
		proof string
		build int
		fault string
		args  map[string]any
		env   map[string]string
	}{
		{"prefill-vram", 8390, FaultVRAMGrowth, nil, map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}},
		{"prefill-vram", scratchLeftPool - 1, FaultVRAMGrowth, nil, map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}},
		{"prefill-vram", scratchLeftPool, FaultVRAMGrowth, noFlash, map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}},
		{"prefill-vram", 9842, FaultVRAMGrowth, noFlash, map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}},
		// An earlier answer's arguments do not stay.
		{"prefill-vram", 8390, FaultVRAMGrowth, nil, map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}},
		{"managed-fallback", 8390, FaultDeviceOOM, nil, map[string]string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED": "1"}},
		{"managed-fallback", 9842, FaultDeviceOOM, nil, map[string]string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED": "1"}},
		{"graph-cache", 8390, FaultGraphCache, nil, nil},
		{"graph-cache", 9842, FaultGraphCache, nil, nil},
	} {
		check, fault, known := ProofCheck(tc.proof, tc.build)
		want := spec.Check{Name: tc.proof, Device: spec.Sim, Args: tc.args, Env: tc.env}
		if diff := cmp.Diff(want, check); !known || fault != tc.fault || diff != "" {
			t.Errorf("%s, build %d: known %t, fault %s, want %s; check -want +got:\n%s", tc.proof, tc.build, known, fault, tc.fault, diff)
		}
		if err := Validate([]spec.Check{check}); err != nil {
			t.Errorf("%s, build %d: %v", tc.proof, tc.build, err)
		}
	}
	for _, proof := range []string{"build", "graph-replay", "nonsense", ""} {
		for _, build := range []int{8390, 9842} {
			if check, fault, known := ProofCheck(proof, build); known || fault != "" || check.Name != "" {
				t.Errorf("%q, build %d: %+v, %s, %t", proof, build, check, fault, known)
			}
		}
	}
	if got := Proofs(); !slices.Equal(got, slices.Sorted(maps.Keys(proofs))) || !slices.Contains(got, "prefill-vram") {
		t.Errorf("proofs: %v", got)
	}
}
