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
	grows := ProofCheck{Check: spec.Check{Name: "prefill-vram", Device: spec.Sim, Env: trim}, Fault: FaultVRAMGrowth}
	noFlash := grows
	noFlash.Check.Args = map[string]any{"flash": false}
	flush := ProofCheck{Check: spec.Check{Name: "graph-replay", Device: spec.Sim, Args: map[string]any{
		"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "kv": "f16", "args": []string{"-fa", "off"}, "fail-alloc": 12,
	}}, Fault: FaultGraphReplay}
	managed := ProofCheck{Check: spec.Check{Name: "managed-fallback", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED": "1"}}, Fault: FaultDeviceOOM}
	capped := ProofCheck{Check: spec.Check{Name: "graph-cache", Device: spec.Sim}, Fault: FaultGraphCache}
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

// What was reported for AMD cards is shown on a HIP device.
func TestHIPProofChecks(t *testing.T) {
	t.Parallel()
	var cases []string
	for _, id := range Proofs() {
		for _, one := range HIPProofChecks(id, 8833) {
			cases = append(cases, one.Check.Name+": "+one.Case)
			if err := Validate([]spec.Check{one.Check}); err != nil {
				t.Error(err)
			}
			if one.Check.Device != spec.Sim || one.Fault == "" || one.Control != (one.Check.Args["dense"] == true) {
				t.Errorf("%+v", one)
			}
		}
	}
	want := []string{"graph-cache: three slots", "graph-cache: a dense model, wholly on the device", "managed-fallback: 262,144 cells of q4_0, -ub 128"}
	if !slices.Equal(cases, want) {
		t.Errorf("%q", cases)
	}
	if HIPProofChecks("build", 8833) != nil {
		t.Error("a proof by compiling")
	}
}

func TestMoreProofChecks(t *testing.T) {
	t.Parallel()
	for _, build := range []int{8833, 9842} {
		got := MoreProofChecks("prefill-vram", build)
		if len(got) != len(poolCases) {
			t.Fatalf("%d: %v", build, got)
		}
		for i, one := range got {
			if one.Case != poolCases[i].name || one.Fault != FaultVRAMGrowth || one.Check.Env["GGML_CUDA_POOL_TRIM"] != "grow" {
				t.Errorf("%d: %+v", build, one)
			}
			if flash, set := one.Check.Args["flash"]; set == (build < scratchLeftPool) || flash == true {
				t.Errorf("%d: %+v", build, one)
			}
			if err := Validate([]spec.Check{one.Check}); err != nil {
				t.Error(err)
			}
		}
	}
	if got := poolProofs(9842)[0].Check.Args; len(got) != 1 {
		t.Errorf("the first check got the cases' settings: %v", got)
	}
	for _, id := range Proofs() {
		if id != "prefill-vram" && MoreProofChecks(id, 8833) != nil {
			t.Error(id)
		}
	}
}
