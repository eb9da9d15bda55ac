package leak

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
)

// Class is what growth is, as far as can be told.
type Class string

// The classes.
const (
	None     Class = "no leak"             // flat
	HostOnly Class = "no leak on the host" // and VRAM is not known
	Settles  Class = "bounded"             // it grew and settled
	Need     Class = "need of the context" // grows with the context the first time, and not again
	Explicit Class = "explicit leak"       // memory that nothing points to any more, or that was never freed
	Cache    Class = "cache that grows"    // it is given back at the end, or has a cap of its own
	Unknown  Class = "growth"              // a leak or a cache without bounds
	Unjudged Class = "not judged"
)

// Result is what a run gave.
type Result struct {
	Argv     []string         `json:"argv"`
	Place    string           `json:"place"` // "host", "wine" (a Windows program under it), or "ssh:" and a machine
	Began    time.Time        `json:"began"`
	Work     string           `json:"work"` // the folder with logs
	Log      string           `json:"log"`
	Workload string           `json:"workload"`
	Requests int64            `json:"requests"`
	Tokens   int64            `json:"tokens"`
	WorkFrom float64          `json:"work_from"` // seconds of the series between which the work was done
	WorkTo   float64          `json:"work_to"`
	End      string           `json:"end"`                 // how the program ended, where it did by itself
	ExitCode *int             `json:"exit_code,omitempty"` // however it came to end; absent after a signal
	Series   memory.Series    `json:"series"`
	Verdicts []memory.Verdict `json:"verdicts"`
	Tools    []Finding        `json:"tools,omitempty"`
	Class    Class            `json:"class"`
	Cap      string           `json:"cap,omitempty"` // where a cache that grows ends
	Evidence []string         `json:"evidence"`
	Forecast []string         `json:"forecast,omitempty"`
	Next     []string         `json:"next,omitempty"`
	Notes    []string         `json:"notes,omitempty"`

	cut bool // --for ended the work
}

// ended notes a program that did not wait to be stopped.
func (r *Result) ended(p *program, w *work) {
	if !p.Ended() {
		return
	}
	r.End = p.how()
	if w.srv != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("the server %s during the workload, after %d tokens and %d requests: %s",
			r.End, w.Tokens.Load(), w.Requests.Load(), strings.Join(p.Tail()[max(0, len(p.Tail())-3):], " / ")))
	}
}

// unit is what the workload counts.
func (r *Result) unit() memory.Unit {
	switch {
	case r.Workload == "prefill":
		return memory.Token
	case r.Workload == "none":
		return memory.Second
	}
	return memory.Request
}

// judge judges the part of the series in which the work was done: loading a model
// before, and what is given back after it, belong to no line.
func (r *Result) judge(o Options) {
	s := r.worked()
	if until, ends := s.RemoteEnds(); ends {
		r.Series.Notes = append(r.Series.Notes, fmt.Sprintf("host memory is known only up to %.1f s: %s", until, s.RemoteWhy))
	} else if o.Remote != nil && !s.Has(memory.Anon) && r.Series.Has(memory.Anon) {
		note := "fewer than two figures of host memory came during the work"
		if _, ends := r.Series.RemoteEnds(); ends {
			note += ": " + s.RemoteWhy
		}
		r.Series.Notes = append(r.Series.Notes, note)
	}
	r.Verdicts = memory.Judge(s, memory.JudgeOptions{Unit: r.unit(), Floor: o.Floor, Ended: r.Workload == "none" &&
		r.End != ""})
}

// worked is the series without what was before and after the work.
func (r *Result) worked() memory.Series {
	s := r.Series
	s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p memory.Point) bool {
		return p.Seconds < r.WorkFrom || p.Seconds > r.WorkTo
	})
	return s
}

// verdict returns the verdict on a kind.
func (r *Result) verdict(k memory.Kind) (memory.Verdict, bool) {
	i := slices.IndexFunc(r.Verdicts, func(v memory.Verdict) bool { return v.Kind == k })
	if i < 0 {
		return memory.Verdict{}, false
	}
	return r.Verdicts[i], true
}

// NoVRAM says why VRAM, which was to be looked at, is not known; empty where it is,
// or where nobody asked.
func (r *Result) NoVRAM() string {
	if _, judged := r.verdict(memory.VRAM); judged {
		return ""
	}
	return r.Series.Device.Unknown
}

// noRemote reports whether host memory, which was to be read elsewhere, was not judged.
func (r *Result) noRemote(o Options) bool {
	_, judged := r.verdict(memory.Anon)
	return o.Remote != nil && !judged
}

// decisive are the verdicts that decide: VRAM, and what the program took on the
// host for itself. RSS holds the pages of a mapped model too, which the system
// takes back; PSS is looked at too seldom.
func (r *Result) decisive() []memory.Verdict {
	var out []memory.Verdict
	for _, k := range []memory.Kind{memory.VRAM, memory.Anon} {
		if v, ok := r.verdict(k); ok {
			out = append(out, v)
		}
	}
	return out
}

// conclude says what it is, with the evidence, and what to do next.
func (r *Result) conclude(o Options) {
	d := r.decisive()
	for _, v := range r.Verdicts {
		r.Evidence = append(r.Evidence, v.String())
	}
	vram, hasVRAM := r.verdict(memory.VRAM)
	host, _ := r.verdict(memory.Anon)
	switch {
	case memory.Says(d, memory.Grows):
		r.Class = Unknown
	case memory.Says(d, memory.Unclear) || len(d) == 0 || r.noRemote(o):
		r.Class = Unjudged
	case r.Workload == "prefill" && slices.ContainsFunc(d, func(v memory.Verdict) bool {
		return v.State == memory.Bounded && v.Growth.Low > 0
	}):
		r.Class = Need
		r.Evidence = append(r.Evidence, "it grew while the context grew for the first time, and not again when a second "+
			"prompt grew as far")
	case memory.Says(d, memory.Bounded):
		r.Class = Settles
	default:
		r.Class = None
	}
	if r.NoVRAM() != "" && r.Class != Unknown && r.Class != Unjudged {
		r.Class = HostOnly
		if o.Named {
			r.Class = Unjudged
			r.Next = append(r.Next, "--vram none: judges host memory alone")
		}
	}
	growsHost := host.State == memory.Grows
	growsVRAM := hasVRAM && vram.State == memory.Grows
	r.fromTools(growsHost, growsVRAM)
	if growsHost && looksLikeServer(o.Argv) {
		r.promptCache(o)
	}
	r.advise(o, growsHost, growsVRAM, vram, hasVRAM)
	r.forecast()
}

// fromTools lets the tools decide between a leak and a cache.
func (r *Result) fromTools(growsHost, growsVRAM bool) {
	for _, f := range r.Tools {
		device := f.Tool == "memcheck"
		// A loss once at the start is no growth: a leak comes with every request.
		each := slices.ContainsFunc(f.Places, func(p Place) bool { return p.Blocks >= f.Requests })
		switch {
		case f.Tool == "nsys":
			r.Evidence = append(r.Evidence, f.nsysEvidence()...)
			continue
		case f.Tool == "heaptrack":
			r.Evidence = append(r.Evidence, fmt.Sprintf("heaptrack: %s were not given back at the end (lost, or still in use)",
				memory.FormatBytes(float64(f.Kept))))
			for _, p := range f.Places {
				if f.Requests > 1 && p.Blocks >= f.Requests && p.Blocks%f.Requests == 0 {
					r.Evidence = append(r.Evidence, fmt.Sprintf("heaptrack: %d of them a request at %s", p.Blocks/f.Requests,
						strings.Join(p.Stack[:min(2, len(p.Stack))], " < ")))
				}
			}
			continue
		case f.Lost > 0:
			once := ""
			if f.Requests > 1 && !each {
				once = ", nowhere once a request"
			}
			r.Evidence = append(r.Evidence, fmt.Sprintf("%s: %s in %d allocations were lost%s", f.Tool,
				memory.FormatBytes(float64(f.Lost)), f.LostN, once))
			for _, p := range f.Places[:min(3, len(f.Places))] {
				r.Evidence = append(r.Evidence, fmt.Sprintf("%s: %s in %d at %s", f.Tool, memory.FormatBytes(float64(p.Bytes)),
					p.Blocks, strings.Join(p.Stack[:min(4, len(p.Stack))], " < ")))
			}
		default:
			r.Evidence = append(r.Evidence, f.Tool+": nothing was lost: all that was taken was given back, or is still in "+
				"use, at the end")
		}
		for _, call := range slices.Compact(slices.Sorted(slices.Values(f.API))) {
			n := 0
			for _, c := range f.API {
				if c == call {
					n++
				}
			}
			why := ""
			if strings.HasPrefix(call, "cudaErrorGraphExecUpdateFailure ") {
				why = "; llama.cpp asks whether a graph can be updated, and makes a new one where it cannot"
			}
			r.Evidence = append(r.Evidence, fmt.Sprintf(
				"%s: a call returned an error, which is no wrong access: %s, %d times%s", f.Tool, call, n, why))
		}
		if f.Errors > 0 {
			r.Evidence = append(r.Evidence, fmt.Sprintf("%s: %d wrong accesses, see %s", f.Tool, f.Errors, f.Files[0]))
		}
		if (device && growsVRAM) || (!device && growsHost) {
			switch {
			case f.Lost > 0 && each:
				r.Class = Explicit
			case f.Lost == 0 && r.Class == Unknown:
				r.Class = Cache
			}
		}
	}
}

// promptCache knows the cache that explains most growth of llama-server's host
// memory: prompts of up to --cache-ram MiB (8192 where nothing is said; upstream
// since b6685) and checkpoints.
func (r *Result) promptCache(o Options) {
	if v := option(o.Argv, "--cache-ram", "-cram"); v == "0" {
		return
	}
	b, err := os.ReadFile(r.Log)
	if err != nil || !strings.Contains(string(b), "prompt cache is enabled") {
		return
	}
	if r.Class == Unknown {
		r.Class = Cache
	}
	limit := cmp.Or(option(o.Argv, "--cache-ram", "-cram"), "8192")
	r.Cap = limit + " MiB"
	r.Evidence = append(r.Evidence, "the server says that its prompt cache is enabled: it keeps prompts in host "+
		"memory up to "+limit+" MiB")
	r.Next = append(r.Next, "run it again with --cache-ram 0 --ctx-checkpoints 0: what still grows then is not that cache")
}
