package smoke

import (
	"maps"
	"slices"

	"github.com/llpatch/llpatch/internal/spec"
)

// proofs are the checks that a fix.toml can name as its proof: what runs, and
// the fault that it must show without the fix. The settings are given to both
// builds; the one without the fix does not know them.
var proofs = map[string]struct {
	check spec.Check
	fault string
}{
	"prefill-vram":     {spec.Check{Name: "prefill-vram", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}}, FaultVRAMGrowth},
	"managed-fallback": {spec.Check{Name: "managed-fallback", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED": "1"}}, FaultDeviceOOM},
	"graph-cache":      {spec.Check{Name: "graph-cache", Device: spec.Sim}, FaultGraphCache},
}

// scratchLeftPool is the build from which attention's scratch for a quantised
// cache is no longer the pool's (upstream's pull request 23907).
const scratchLeftPool = 9489

// ProofCheck returns the check that a fix's proof names, for a build number of
// llama.cpp, and the fault that the build without the fix must show.
func ProofCheck(proof string, build int) (check spec.Check, fault string, known bool) {
	p, known := proofs[proof]
	if proof == "prefill-vram" && build >= scratchLeftPool {
		p.check.Args = map[string]any{"flash": false}
	}
	return p.check, p.fault, known
}

// Proofs returns the proofs that a fix can name, besides "build", sorted.
func Proofs() []string { return slices.Sorted(maps.Keys(proofs)) }
