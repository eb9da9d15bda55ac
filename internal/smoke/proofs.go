package smoke

import (
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// ProofCheck is a check that runs without and with a fix. Its settings are given
// to both builds; the one without the fix does not know them.
type ProofCheck struct {
	Check spec.Check
	Fault string // that it must show without the fix
	Case  string // what is other than in the proof's first check of that name; empty there
	// Control is a case that the fix is not for: neither build may show the fault.
	Control bool
	// Same is a case in which the fix is asked for nothing: both builds show the fault after
	// the same calls.
	Same bool
}

// Reserve is the proof of a fix that takes attention's scratch for a quantised cache at
// the start. With such a fix in the tree the others' proofs are not about that scratch.
const Reserve = "fattn-reserve"

// proofs are what a fix.toml can name as its proof, for a build number of llama.cpp
// and a tree that reserves the scratch of attention, or does not.
var proofs = map[string]func(build int, reserved bool) []ProofCheck{
	"prefill-vram":     poolProofs,
	"managed-fallback": managedProofs,
	// The trim is off, so that only what the start takes keeps the prompt from growing.
	Reserve: func(int, bool) []ProofCheck {
		return []ProofCheck{{Check: spec.Check{
			Name: "prefill-vram", Device: spec.Sim,
			Env: map[string]string{"GGML_CUDA_POOL_TRIM": "off"},
		}, Fault: FaultVRAMGrowth}}
	},
	"graph-cache": func(int, bool) []ProofCheck {
		return []ProofCheck{{Check: spec.Check{Name: "graph-cache", Device: spec.Sim}, Fault: FaultGraphCache}}
	},
	// The second case kills a reserve that nobody asked for.
	"prefill-reserve": func(int, bool) []ProofCheck {
		asked := spec.Check{Name: "prefill-reserve", Device: spec.Sim, Env: map[string]string{reserveVariable: "1"}}
		return []ProofCheck{
			{Check: asked, Fault: FaultDeviceOOM},
			{Case: "not asked", Check: spec.Check{Name: "prefill-reserve", Device: spec.Sim}, Fault: FaultDeviceOOM, Same: true},
		}
	},
	// Every input; a fix shows those of what it cures.
	Malformed: func(int, bool) []ProofCheck {
		var all []string
		for _, in := range malformedInputs {
			all = append(all, in.cures)
		}
		return MalformedChecks(all)
	},
	// These need no device. Of the last three the build itself is what is looked at.
	"exit":    noDevice("exit", FaultExitHang),
	"version": noDevice("version", FaultVersion),
	// One answer in five or so ends a router whose threads free what they use.
	"router": func(int, bool) []ProofCheck {
		return []ProofCheck{{Check: spec.Check{Name: "router", Args: map[string]any{"requests": 60}}, Fault: FaultRouterEnds}}
	},
	Compiles:  noDevice(Compiles, FaultCompile),
	CUDAClang: noDevice(CUDAClang, FaultCompile),
	NoAVX512:  noDevice(NoAVX512, FaultAVX512),
}

// The checks of a proof that the build itself answers: ProofOptions.Make does them, and
// no recipe names them.
const (
	Compiles  = "compiles"   // every source that the fix changes is compiled
	CUDAClang = "cuda-clang" // CMake takes clang for CUDA beside MinGW, and a file of ggml-cuda is compiled
	NoAVX512  = "no-avx512"  // no variant of the processor's library is compiled for AVX-512
)

// The faults that they find.
const (
	// the compiler refuses a file that the fix changes; or, for CUDAClang, CMake or clang anything
	FaultCompile = "compile"
	FaultAVX512  = "avx512" // a library for AVX-512 is to be built
)

func noDevice(name, fault string) func(int, bool) []ProofCheck {
	return func(int, bool) []ProofCheck { return []ProofCheck{{Check: spec.Check{Name: name}, Fault: fault}} }
}

// OnDevice reports whether a proof's checks run on the simulated device.
func OnDevice(proof string) bool {
	list := ProofChecks(proof, 0, false)
	return len(list) > 0 && list[0].Check.Device == spec.Sim
}

const (
	// scratchLeftPool is the build from which attention's scratch for a quantised
	// cache is no longer the pool's (upstream's pull request 23907).
	scratchLeftPool = 9489
	// poolFlushes is the build from which the pool gives back everything idle when
	// an allocation fails (upstream's pull request 22155).
	poolFlushes = 8863
	// promptsCaptured is the build from which a mixture's prompts are captured too, and take
	// the graph of its answers (upstream's pull request 26802).
	promptsCaptured = 10385
)

// poolProofs: the pool keeps what it has outgrown, and where it flushes, graphs
// that were captured over that are launched all the same. What the trim releases,
// which upstream does not, no graph may be launched over either.
func poolProofs(build int, reserved bool) []ProofCheck {
	trim := map[string]string{"GGML_CUDA_POOL_TRIM": "grow"}
	grows := spec.Check{Name: "prefill-vram", Device: spec.Sim, Env: trim}
	replay := map[string]any{"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "growing": true}
	flags := []string{"-fa", "off"}
	if build >= promptsCaptured {
		// A prompt's layers that are on the processor are computed on the device, so that its splits, and their
		// graphs, are not those of an answer.
		flags = append(flags, "-ot", oddLayers)
	}
	if reserved || build >= scratchLeftPool {
		grows.Args = map[string]any{"flash": false}
		replay["kv"], replay["args"] = "f16", flags
	}
	unasked := grows
	unasked.Env = nil
	list := []ProofCheck{
		{Check: grows, Fault: FaultVRAMGrowth},
		{Case: "not asked", Check: unasked, Fault: FaultVRAMGrowth, Same: true},
	}
	if build >= poolFlushes {
		list = append(list, ProofCheck{Check: spec.Check{Name: "graph-replay", Device: spec.Sim, Args: map[string]any{
			"slots": 1, "for": "1ms", "experts": 8, "model": "q8_0", "kv": "f16", "args": flags, "fail-alloc": 12,
		}}, Fault: FaultGraphReplay})
	}
	return append(list, ProofCheck{
		Case: "graphs and the trim", Check: spec.Check{Name: "graph-replay", Device: spec.Sim, Env: trim, Args: replay},
		Fault: FaultGraphReplay, Control: true,
	})
}

// managedVariables are the two of upstream's pull request 22158.
var managedVariables = [2]string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED", "GGML_CUDA_POOL_USE_MANAGED"}

// managedProofs: a cache that does not fit a small device, first; then the four cells of the
// table in pull request 22158 (neither variable, one, both), once where the cache of
// 262,144 cells does not fit and once where it does and the scratch of a long prompt does
// not. A cell that asks for nothing that would help does what stock does, call by call.
func managedProofs(build int, reserved bool) []ProofCheck {
	one := func(name string, env map[string]string, same bool, args map[string]any) ProofCheck {
		return ProofCheck{
			Case: name, Fault: FaultDeviceOOM, Same: same,
			Check: spec.Check{Name: "managed-fallback", Device: spec.Sim, Env: env, Args: args},
		}
	}
	list := []ProofCheck{
		one("", map[string]string{managedVariables[0]: "1"}, false, nil),
		one("a limit that is too low", map[string]string{
			managedVariables[0]: "1", managedVariables[1]: "0",
			"GGML_CUDA_MANAGED_MAX_MIB": "64",
		}, true, nil),
	}
	for _, full := range []struct {
		name string
		args map[string]any
	}{
		// 16.9 GiB of cache on 16 GiB, the card of the report.
		{"the cache", map[string]any{"vram": 16384, "layers": 60, "kv-heads": 8, "head-dim": 128}},
		// The report's model has two heads of 256; its 16 GiB are full but for what the pool
		// takes until token 41,000.
		{"the pool", poolCell(build, reserved)},
	} {
		for cell := range 4 {
			env, name := map[string]string{}, full.name
			for i, variable := range managedVariables {
				if cell>>i&1 == 1 {
					env[variable], name = "1", name+", "+variable
				}
			}
			if cell == 0 {
				name += ", not asked"
			}
			// The cache is a buffer: the first variable is its own, and the pool the second's.
			cache := full.name == "the cache"
			helps := cache && cell&1 == 1 || !cache && cell&2 == 2
			args := map[string]any{"tokens": 262144, "kv": "q4_0", "ubatch": 128, "args": []string{"-fa", "on"}}
			maps.Copy(args, full.args)
			args["buffers"], args["pool"] = "device", "device"
			if cache {
				args["buffers"] = "managed"
			}
			if cell&2 == 2 {
				args["pool"] = "all managed"
			}
			list = append(list, one(name, env, !helps, args))
		}
	}
	return list
}

// poolCell are the settings with which the pool runs out of the device's memory.
func poolCell(build int, reserved bool) map[string]any {
	if reserved || build >= scratchLeftPool {
		// What grows there is the softmax without flash attention, 2 KiB a cell as well; and
		// the pool is flushed, so that it ends only where what is used at once has no room.
		return map[string]any{
			"prompt": 49152, "layers": 4, "kv-heads": 8, "head-dim": 64, "kv": "f16", "room": 80,
			"args": []string{"-fa", "off"}, "tokens": 65536,
		}
	}
	if build >= poolFlushes {
		return map[string]any{"prompt": 49152, "layers": 100, "kv-heads": 2, "head-dim": 256, "room": 80}
	}
	return map[string]any{"prompt": 49152, "layers": 100, "kv-heads": 2, "head-dim": 256, "room": 1395}
}

// ProofChecks returns the checks that a fix's proof names, for a build number of
// llama.cpp; none where the name is not one of Proofs. reserved is whether a fix of the
// tree has the proof Reserve.
func ProofChecks(proof string, build int, reserved bool) []ProofCheck {
	list, known := proofs[proof]
	if !known {
		return nil
	}
	return list(build, reserved)
}

// ikGraphs is the build of ik_llama.cpp from which the simulated device gets graphs (its pull request 689).
const ikGraphs = 3838

// IKProofChecks are ProofChecks for a build of ik_llama.cpp: what its server and the fixes' variants
// for it have of them.
func IKProofChecks(proof string, build int) []ProofCheck {
	list := ProofChecks(proof, 0, true) // its attention takes no scratch for a quantised cache from the pool
	switch proof {
	case "prefill-vram":
		if build < ikGraphs { // without a graph there is none over what the trim releases
			list = slices.DeleteFunc(list, func(c ProofCheck) bool { return c.Check.Name == "graph-replay" })
		}
	case "managed-fallback": // buffers alone: its pool knows no managed memory
		list = slices.DeleteFunc(list, func(c ProofCheck) bool {
			return c.Check.Env[managedVariables[1]] == "1" || strings.HasPrefix(c.Case, "the pool")
		})
	}
	return list
}

// poolCases are other ways to use a server under which the pool must be shown to
// grow without the fix, and not with it.
var poolCases = []struct {
	name string
	args map[string]any
}{
	{"-ub 64", map[string]any{"ubatch": 64}},
	// One cache for all slots, so that the prompt's slot has as much as alone.
	{"-np 3", map[string]any{"args": []string{"-np", "3", "-kvu"}}},
	{"half of the layers on the processor", map[string]any{"offload": 0.5}},
	{"experts", map[string]any{"experts": 8, "model": "q8_0"}},
}

// MoreProofChecks returns a proof's checks once more under other settings: small
// ubatches, several slots, half of the layers off the device, a mixture of experts.
func MoreProofChecks(proof string, build int, reserved bool) []ProofCheck {
	if proof != "prefill-vram" {
		return nil
	}
	var list []ProofCheck
	for _, c := range poolCases {
		one := poolProofs(build, reserved)[0]
		args := maps.Clone(one.Check.Args)
		if args == nil {
			args = map[string]any{}
		}
		maps.Copy(args, c.args)
		one.Check.Args, one.Case = args, c.name
		list = append(list, one)
	}
	return list
}

// HIPProofChecks returns what a proof shows besides on a HIP device: the cases that were
// reported for AMD cards.
func HIPProofChecks(proof string, _ int) []ProofCheck {
	switch proof {
	case "graph-cache": // issue 25082
		return []ProofCheck{
			{Case: "three slots", Check: spec.Check{
				Name: "graph-cache", Device: spec.Sim,
				Args: map[string]any{"slots": 3, "rounds": 4},
			}, Fault: FaultGraphCache},
			{Case: "a dense model, wholly on the device", Check: spec.Check{
				Name: "graph-cache", Device: spec.Sim,
				Args: map[string]any{"slots": 3, "rounds": 4, "dense": true},
			}, Fault: FaultGraphCache, Control: true},
		}
	}
	return nil
}

// Proofs returns the proofs that a fix can name, besides "build", sorted.
func Proofs() []string { return slices.Sorted(maps.Keys(proofs)) }
