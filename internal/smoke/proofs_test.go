package smoke

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestProofChecks(t *testing.T) {
	t.Parallel()
	trim := map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}
	grows := ProofCheck{spec.Check{Name: "prefill-vram", Device: spec.Sim, Env: trim}, FaultVRAMGrowth}
	noFlash := grows
	noFlash.Check.Args = map[string]any{"flash": false}
	flush := ProofCheck{spec.Check{Name: "graph-replay", Device: spec.Sim, Args: map[string]any{
		"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "kv": "f16", "args": []string{"-fa", "off"}, "fail-alloc": 12,
	}}, FaultGraphReplay}
	managed := ProofCheck{spec.Check{Name: "managed-fallback", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED": "1"}}, FaultDeviceOOM}
	capped := ProofCheck{spec.Check{Name: "graph-cache", Device: spec.Sim}, FaultGraphCache}
	for _, tc := range []struct {
		proof string
		build int
		want  []ProofCheck
	}{
		{"prefill-vram", 8390, []ProofCheck{grows}},
		{"prefill-vram", poolFlushes - 1, []ProofCheck{grows}},
		{"prefill-vram", poolFlushes, []ProofCheck{grows, flush}},
		{"prefill-vram", scratchLeftPool - 1, []ProofCheck{grows, flush}},
		{"prefill-vram", scratchLeftPool, []ProofCheck{noFlash, flush}},
		{"prefill-vram", 9842, []ProofCheck{noFlash, flush}},
		{"managed-fallback", 8390, []ProofCheck{managed}},
		{"managed-fallback", 9842, []ProofCheck{managed}},
		{"graph-cache", 8390, []ProofCheck{capped}},
		{"graph-cache", 9842, []ProofCheck{capped}},
		{"build", 8390, nil},
		{"graph-replay", 9842, nil},
		{"nonsense", 9842, nil},
		{"", 9842, nil},
	} {
		got := ProofChecks(tc.proof, tc.build)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s, build %d: -want +got:\n%s", tc.proof, tc.build, diff)
		}
		for _, one := range got {
			if err := Validate([]spec.Check{one.Check}); err != nil {
				t.Errorf("%s, build %d: %v", tc.proof, tc.build, err)
			}
		}
	}
	if got := Proofs(); !slices.Equal(got, slices.Sorted(maps.Keys(proofs))) || !slices.Contains(got, "prefill-vram") {
		t.Errorf("proofs: %v", got)
	}
}
