package leak

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
)

// advise adds what to try next: upstream's own switches first.
func (r *Result) advise(o Options, growsHost, growsVRAM bool, vram memory.Verdict, hasVRAM bool) {
	next := func(s string) { r.Next = append(r.Next, s) }
	ran := map[string]bool{}
	for _, f := range r.Tools {
		ran[f.Tool] = true
	}
	if looksLikeServer(o.Argv) && hasVRAM {
		quantised := strings.HasPrefix(option(o.Argv, "-ctk", "--cache-type-k"), "q") ||
			strings.HasPrefix(option(o.Argv, "-ctv", "--cache-type-v"), "q")
		if r.Workload == "prefill" && (growsVRAM || vram.State == memory.Bounded && vram.Growth.Low > 0) {
			if quantised {
				next("-ctk f16 -ctv f16 with -fa on: a quantised cache is turned into f16 scratch that grows with the context " +
					"(until b9488 in the pool; from b9489 it is reserved at the start)")
			}
			next("a smaller -ub, and a build without GGML_CUDA_NO_VMM where the driver has virtual memory: the legacy pool " +
				"keeps every buffer that it has outgrown")
			next("the fix ubatch-pool-purge for builds with the legacy pool; ik_llama.cpp with MLA: -amb 256")
			next("llpatch vram MODEL --ctx N: what this context needs by the model's own numbers")
		}
		if r.Workload != "prefill" && growsVRAM {
			next("GGML_CUDA_DISABLE_GRAPHS=1: if it is flat then, captured graphs are what grows; b8832 and newer drop those " +
				"unused for 10 s, the fix graph-cache-lru caps them (GGML_CUDA_GRAPH_CACHE_MAX=256)")
		}
	}
	if growsVRAM && !ran["memcheck"] {
		next("--with memcheck: tells device memory that is never freed from a cache")
	}
	if growsHost && o.Remote == nil && r.Place != "wine" && !ran["valgrind"] && !ran["heaptrack"] {
		next("--with valgrind: tells lost memory from a cache; --with heaptrack: is faster, and shows who allocates")
	}
	if r.Class == Unjudged && (len(r.decisive()) == 0 || slices.ContainsFunc(r.decisive(), tooShort)) {
		next(r.longer(o))
	}
	if rss, ok := r.verdict(memory.RSS); ok && rss.State == memory.Grows && !growsHost {
		r.Evidence = append(r.Evidence, "RSS grows and the program's own memory does not: these are pages of mapped "+
			"files, such as the model, which the system takes back when it needs them")
	}
}

// tooShort reports whether a longer run would let a kind of memory be judged.
func tooShort(v memory.Verdict) bool {
	return v.State == memory.Unclear && strings.HasSuffix(v.Reason, runLonger)
}

// runLonger is how a verdict on too short a run ends.
const runLonger = "; let it run longer"

// unclear says why a verdict decides nothing, and what to do about it.
func (r *Result) unclear(v memory.Verdict, o Options) string {
	if !tooShort(v) {
		return v.String()
	}
	return strings.TrimSuffix(v.String(), runLonger) + "; " + r.longer(o)
}

// longer says how a run gives more to judge.
func (r *Result) longer(o Options) string {
	s := "let it run longer: a larger --for, or a program that does more"
	switch {
	case r.cut && r.Workload != "none":
		s = fmt.Sprintf("let it run longer: a larger --for, for %v were over before the work was done", o.For)
	case r.Workload == "prefill":
		s = "give it more tokens: a larger --tokens, and a -c that holds them"
	case r.Workload != "none":
		s = "let it run longer: more --requests"
	}
	if every := cmp.Or(o.Every, memory.DefaultEvery); every > memory.MinEvery {
		s += fmt.Sprintf("; or look more often than every %v: --every %v", every, memory.MinEvery)
	}
	return s
}

// forecast says where it leads.
func (r *Result) forecast() {
	for _, v := range r.Verdicts {
		if v.Kind != memory.VRAM || v.Growth.Low <= 0 || (v.State != memory.Grows && v.State != memory.Bounded) {
			continue
		}
		if v.State == memory.Grows || r.Workload == "prefill" {
			if left := float64(r.Series.Device.Total - r.Series.Device.Baseline); left > 0 {
				if x, lo, hi, ok := v.Growth.Reaches(left); ok && x > v.Growth.From {
					r.Forecast = append(r.Forecast, fmt.Sprintf(
						"this card (%s, %s of it free before) runs out after %.0f %ss (%.0f to %.0f)",
						memory.FormatBytes(float64(r.Series.Device.Total)), memory.FormatBytes(left), x, v.Unit, lo, hi))
				}
			}
		}
		if v.Unit != memory.Token {
			continue
		}
		at := []float64{16384, 32768, 65536, 131072}
		if h, err := gguf.ReadFile(option(r.Argv, "-m", "--model")); err == nil && h.Context > 0 {
			at = append(at, float64(h.Context))
		}
		for _, x := range at {
			if x <= v.Growth.To {
				continue
			}
			y, lo, hi := v.Growth.At(x)
			r.Forecast = append(r.Forecast, fmt.Sprintf("%.0f tokens: %s of VRAM (%s to %s), if it goes on as seen", x,
				memory.FormatBytes(y), memory.FormatBytes(lo), memory.FormatBytes(hi)))
		}
	}
}
