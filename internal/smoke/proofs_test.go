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
	unasked := ProofCheck{
		Case: "not asked", Check: spec.Check{Name: "prefill-vram", Device: spec.Sim},
		Fault: FaultVRAMGrowth, Same: true,
	}
	noFlashUnasked := unasked
	noFlashUnasked.Check.Args = map[string]any{"flash": false}
	noFlash := grows
	noFlash.Check.Args = map[string]any{"flash": false}
	flush := ProofCheck{Check: spec.Check{Name: "graph-replay", Device: spec.Sim, Args: map[string]any{
		"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "kv": "f16", "args": []string{"-fa", "off"},
		"fail-alloc": 12,
	}}, Fault: FaultGraphReplay}
	trimmed := ProofCheck{Case: "graphs and the trim", Check: spec.Check{
		Name: "graph-replay", Device: spec.Sim,
		Env: trim, Args: map[string]any{
			"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "growing": true,
		},
	}, Fault: FaultGraphReplay, Control: true}
	noFlashTrimmed := trimmed
	noFlashTrimmed.Check.Args = map[string]any{
		"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "growing": true,
		"kv": "f16", "args": []string{"-fa", "off"},
	}
	apart := func(c ProofCheck) ProofCheck {
		c.Check.Args = maps.Clone(c.Check.Args)
		c.Check.Args["args"] = []string{"-fa", "off", "-ot", oddLayers}
		return c
	}
	reserves := unasked
	reserves.Case, reserves.Same, reserves.Check.Env = "", false, map[string]string{"GGML_CUDA_POOL_TRIM": "off"}
	capped := ProofCheck{Check: spec.Check{Name: "graph-cache", Device: spec.Sim}, Fault: FaultGraphCache}
	for _, tc := range []struct {
		proof    string
		build    int
		want     []ProofCheck
		reserved bool
	}{
		// Attention's scratch is reserved, and the pool does not flush yet.
		{"prefill-vram", 8833, []ProofCheck{noFlash, noFlashUnasked, noFlashTrimmed}, true},
		{Reserve, 8833, []ProofCheck{reserves}, true},
		{"prefill-vram", 8390, []ProofCheck{grows, unasked, trimmed}, false},
		{"prefill-vram", poolFlushes - 1, []ProofCheck{grows, unasked, trimmed}, false},
		{"prefill-vram", poolFlushes, []ProofCheck{grows, unasked, flush, trimmed}, false},
		{"prefill-vram", scratchLeftPool - 1, []ProofCheck{grows, unasked, flush, trimmed}, false},
		{"prefill-vram", scratchLeftPool, []ProofCheck{noFlash, noFlashUnasked, flush, noFlashTrimmed}, false},
		{"prefill-vram", 9842, []ProofCheck{noFlash, noFlashUnasked, flush, noFlashTrimmed}, false},
		{"prefill-vram", promptsCaptured - 1, []ProofCheck{noFlash, noFlashUnasked, flush, noFlashTrimmed}, false},
		{"prefill-vram", promptsCaptured, []ProofCheck{noFlash, noFlashUnasked, apart(flush), apart(noFlashTrimmed)}, false},
		{"graph-cache", 8390, []ProofCheck{capped}, false},
		{"graph-cache", 9842, []ProofCheck{capped}, false},
		{"build", 8390, nil, false},
		{"graph-replay", 9842, nil, false},
		{"nonsense", 9842, nil, false},
		{"", 9842, nil, false},
	} {
		got := ProofChecks(tc.proof, tc.build, tc.reserved)
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

// The table of pull request 22158: which cells help, and what each asks for.
func TestManagedProofs(t *testing.T) {
	t.Parallel()
	const fallback, pool = "GGML_CUDA_ALLOC_FALLBACK_MANAGED", "GGML_CUDA_POOL_USE_MANAGED"
	for _, build := range []int{8390, 8833, poolFlushes, scratchLeftPool} {
		reserved := build == 8833
		got := ProofChecks("managed-fallback", build, reserved)
		var names []string
		for _, one := range got {
			env, args := one.Check.Env, one.Check.Args
			if !one.Same && env[fallback] != "1" && env[pool] != "1" || one.Fault != FaultDeviceOOM || one.Control {
				t.Errorf("%d: %+v", build, one)
			}
			if args["pool"] != nil && (args["pool"] == "all managed") != (env[pool] == "1") {
				t.Errorf("%d: %+v", build, one)
			}
			// Prefilled past the token at which stock dies.
			if prompt, set := args["prompt"]; set && prompt != 49152 || (args["room"] != nil) != set {
				t.Errorf("%d: %+v", build, one)
			}
			if err := Validate([]spec.Check{one.Check}); err != nil {
				t.Errorf("%d: %v", build, err)
			}
			name := one.Case
			if one.Same {
				name += " = stock"
			}
			names = append(names, name)
		}
		want := []string{
			"", "a limit that is too low = stock",
			"the cache, not asked = stock", "the cache, " + fallback, "the cache, " + pool + " = stock", "the cache, " +
				fallback + ", " + pool,
			"the pool, not asked = stock", "the pool, " + fallback + " = stock", "the pool, " + pool, "the pool, " + fallback +
				", " + pool,
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%d: -want +got:\n%s", build, diff)
		}
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
	want := []string{"graph-cache: three slots", "graph-cache: a dense model, wholly on the device"}
	if !slices.Equal(cases, want) {
		t.Errorf("%q", cases)
	}
	if HIPProofChecks("build", 8833) != nil {
		t.Error("a proof by compiling")
	}
}

// What ik_llama.cpp's fixes show: no graphs before it has them, and no managed memory in the pool.
func TestIKProofChecks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		proof string
		build int
		want  []string
	}{
		{"prefill-reserve", 3836, []string{"", "not asked"}},
		{"prefill-vram", 3836, []string{"", "not asked"}},
		{"prefill-vram", 4840, []string{"", "not asked", "graphs and the trim"}},
		{"graph-cache", 4840, []string{""}},
		{"managed-fallback", 4840, []string{
			"", "a limit that is too low", "the cache, not asked", "the cache, GGML_CUDA_ALLOC_FALLBACK_MANAGED",
		}},
		{"build", 4840, nil},
	} {
		list := IKProofChecks(tc.proof, tc.build)
		var cases []string
		for _, one := range list {
			cases = append(cases, one.Case)
			if err := Validate([]spec.Check{one.Check}); err != nil || one.Check.Device != spec.Sim {
				t.Errorf("%s: %+v: %v", tc.proof, one, err)
			}
		}
		if !slices.Equal(cases, tc.want) {
			t.Errorf("%s, build %d: %q, want %q", tc.proof, tc.build, cases, tc.want)
		}
	}
}

func TestPoolCases(t *testing.T) {
	t.Parallel()
	for _, build := range []int{8833, 9842} {
		got := MoreProofChecks("prefill-vram", build, false)
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
	if got := poolProofs(9842, false)[0].Check.Args; len(got) != 1 {
		t.Errorf("the first check got the cases' settings: %v", got)
	}
	for _, id := range Proofs() {
		if id != "prefill-vram" && MoreProofChecks(id, 8833, true) != nil {
			t.Error(id)
		}
	}
}
