package smoke

import (
	"maps"
	"slices"

	"github.com/llpatch/llpatch/internal/spec"
)

// ProofCheck is a check that runs without and with a fix. Its settings are given
// to both builds; the one without the fix does not know them.
type ProofCheck struct {
	Check spec.Check
	Fault string // that it must show without the fix
}

// proofs are what a fix.toml can name as its proof, for a build number of
// llama.cpp.
var proofs = map[string]func(build int) []ProofCheck{
	"prefill-vram": poolProofs,
	"managed-fallback": func(int) []ProofCheck {
		return []ProofCheck{{spec.Check{Name: "managed-fallback", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED": "1"}}, FaultDeviceOOM}}
	},
	"graph-cache": func(int) []ProofCheck {
		return []ProofCheck{{spec.Check{Name: "graph-cache", Device: spec.Sim}, FaultGraphCache}}
	},
}

const (
	// scratchLeftPool is the build from which attention's scratch for a quantised
	// cache is no longer the pool's (upstream's pull request 23907).
	scratchLeftPool = 9489
	// poolFlushes is the build from which the pool gives back everything idle when
	// an allocation fails (upstream's pull request 22155).
	poolFlushes = 8863
)

// poolProofs: the pool keeps what it has outgrown, and where it flushes, graphs
// that were captured over that are launched all the same.
func poolProofs(build int) []ProofCheck {
	grows := spec.Check{Name: "prefill-vram", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}}
	if build >= scratchLeftPool {
		grows.Args = map[string]any{"flash": false}
	}
	list := []ProofCheck{{grows, FaultVRAMGrowth}}
	if build >= poolFlushes {
		list = append(list, ProofCheck{spec.Check{Name: "graph-replay", Device: spec.Sim, Args: map[string]any{
			"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "kv": "f16", "args": []string{"-fa", "off"}, "fail-alloc": 12,
		}}, FaultGraphReplay})
	}
	return list
}

// ProofChecks returns the checks that a fix's proof names, for a build number of
// llama.cpp; none where the name is not one of Proofs.
func ProofChecks(proof string, build int) []ProofCheck {
	list, known := proofs[proof]
	if !known {
		return nil
	}
	return list(build)
}

// Proofs returns the proofs that a fix can name, besides "build", sorted.
func Proofs() []string { return slices.Sorted(maps.Keys(proofs)) }
