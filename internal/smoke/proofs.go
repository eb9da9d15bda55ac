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
	"prefill-vram": {spec.Check{Name: "prefill-vram", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}}, FaultVRAMGrowth},
	"graph-cache":  {spec.Check{Name: "graph-cache", Device: spec.Sim}, FaultGraphCache},
}

// ProofCheck returns the check that a fix's proof names and the fault that the
// build without the fix must show.
func ProofCheck(proof string) (check spec.Check, fault string, known bool) {
	p, known := proofs[proof]
	return p.check, p.fault, known
}

// Proofs returns the proofs that a fix can name, besides "build", sorted.
func Proofs() []string { return slices.Sorted(maps.Keys(proofs)) }
