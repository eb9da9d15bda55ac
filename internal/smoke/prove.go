package smoke

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// The faults that a proof can expect, besides FaultTokens, FaultRSSGrowth and
// FaultVRAMGrowth, which the checks on any place find. These take a device that
// sees its own memory and graphs: a proof check names one by namedFault.
const (
	FaultGraphReplay = "graph-replay" // a captured graph is launched over memory that was freed since
	FaultGraphCache  = "graph-cache"  // captured graphs are kept without a limit
	FaultGraphsLost  = "graphs-lost"  // graphs are dropped that should have been kept
	FaultRecapture   = "recapture"    // graphs are captured again where nothing has changed
	FaultCapture     = "capture"      // a call made a capture invalid, and the program ended
	FaultFreedInUse  = "freed-in-use" // memory is freed under work that nobody has waited for
	FaultUnasked     = "unasked"      // a fix does what its variable did not ask for
)

// Programs are one of the two builds of a proof, and what they run in.
type Programs struct {
	Bin string   // the folder with llama-server and what belongs to it
	Env []string // KEY=VALUE, added to Options.Env
}

// ProofOptions say what a fix has to show.
type ProofOptions struct {
	Options        // what both builds share; Bin, Stock, Same and Checks are not read
	Fix     string // the fix's id
	Check   spec.Check
	Case    string // what is other than in the proof's first check; may be empty
	Fault   string // what the unpatched build must show, and nothing else
	Control bool   // neither build may show it: what the fix is not for
	// both builds must show it, and ask the same of the device, call by call: nothing was asked of
	// the fix
	Same      bool
	Unpatched Programs
	Patched   Programs
	// Make makes one of the builds, "unpatched" or "patched", just before it is looked at.
	// What it returns is what came of Check, where that is a check of the build itself;
	// nil: the programs are there. An error says why they are not. May be nil.
	Make func(ctx context.Context, name string) (*Result, error)
}

// Proof is what a proof saw.
type Proof struct {
	Fix       string  `json:"fix"`
	Case      string  `json:"case,omitempty"` // settings that are other than the proof's own
	Fault     string  `json:"fault"`          // what was expected
	Verdict   Verdict `json:"verdict"`
	Detail    string  `json:"detail"`
	Unpatched *Report `json:"unpatched"`
	Patched   *Report `json:"patched,omitempty"` // nil: the unpatched build did not show the fault
}

// ProofError says that a fix is not proven. Where Disproven is set, the patched
// build shows the fault as the unpatched one does: the fix does not work. Else
// nothing can be said.
type ProofError struct {
	Proof     *Proof
	Disproven bool
}

// Error names the fix and what came instead.
func (e *ProofError) Error() string {
	what := "could not run"
	if e.Disproven {
		what = "failed"
	}
	return fmt.Sprintf("proof of %s on %s %s: %s", e.Proof.Name(), e.Proof.Unpatched.Tag, what, e.Proof.Detail)
}

// Unwrap returns a *Failed or a *NotRun, so that a proof ends as a check does.
func (e *ProofError) Unwrap() error {
	if e.Disproven {
		return &FailedChecks{e.Proof.Patched}
	}
	return &NotRun{e.Proof.last(), errors.New(e.Proof.Detail)}
}

func (p *Proof) last() *Report {
	if p.Patched != nil {
		return p.Patched
	}
	return p.Unpatched
}

// Name is the fix, and the case where it is not the proof's own.
func (p *Proof) Name() string {
	if p.Case == "" {
		return p.Fix
	}
	return p.Fix + " (" + p.Case + ")"
}

// Prove runs one check on an unpatched and on a patched build. The fix is proven
// where the unpatched build shows exactly the fault that is expected and the
// patched one passes; a control, where both pass; one that is to be the same, where both
// show the fault after the same calls. Anything else is a *ProofError; the proof is there all the
// same, unless the check does not exist or ctx ended.
func Prove(ctx context.Context, o ProofOptions) (*Proof, error) {
	if o.Fault == "" {
		return nil, fmt.Errorf("proof of %s: no fault is named that the unpatched build must show", o.Fix)
	}
	p := &Proof{Fix: o.Fix, Case: o.Case, Fault: o.Fault, Verdict: Errored}
	var err error
	if p.Unpatched, err = o.half(ctx, "unpatched", o.Unpatched); err != nil {
		return p, err
	}
	if was := p.Unpatched.Checks[0]; o.Control && was.Verdict != Passed {
		return p.end(fmt.Sprintf("the unpatched build was to pass: %s: %s", was.Verdict, was.Detail))
	} else if why := p.shows(); !o.Control && why != "" {
		return p.end("the unpatched build " + why)
	}
	if p.Patched, err = o.half(ctx, "patched", o.Patched); err != nil {
		return p, err
	}
	if o.Same {
		return p.same()
	}
	is := p.Patched.Checks[0]
	switch {
	case is.Verdict == Passed:
		p.Verdict = Passed
		p.Detail = fmt.Sprintf("unpatched: %s; patched: %s", p.Unpatched.Checks[0].Detail, is.seen())
		return p, nil
	case is.Verdict == Failed && is.Fault == p.Fault:
		p.Verdict = Failed
		p.Detail = fmt.Sprintf("the patched build shows %s too: %s", is.Fault, is.Detail)
		return p, &ProofError{p, true}
	case is.Verdict == Failed:
		return p.end(fmt.Sprintf("the patched build fails with %s: %s", named(is.Fault), is.Detail))
	}
	return p.end(fmt.Sprintf("the patched build: %s: %s", is.Verdict, is.Detail))
}

// same judges a case in which the fix was asked for nothing.
func (p *Proof) same() (*Proof, error) {
	was, is := p.Unpatched.Checks[0], p.Patched.Checks[0]
	if is.Verdict != Passed && is.Verdict != Failed {
		return p.end(fmt.Sprintf("the patched build: %s: %s", is.Verdict, is.Detail))
	}
	why := ""
	if is.Verdict != was.Verdict || is.Fault != was.Fault {
		why = fmt.Sprintf("%s, and %s unpatched: %s", is.Verdict, was.Verdict, is.seen())
	} else if was.device == nil || is.device == nil {
		return p.end("the check has no device of its own, whose calls could be compared")
	} else if parts, err := sameCalls(was.device, is.device); err != nil {
		return p.end(err.Error())
	} else {
		why = parts
	}
	if why != "" {
		p.Verdict, p.Detail = Failed, "the patched build does something else, where nothing was asked of the fix: "+why
		return p, &ProofError{p, true}
	}
	p.Verdict, p.Detail = Passed, "both, after the same calls: "+is.Detail
	return p, nil
}

// shows says why the unpatched build did not show what was expected, or "".
func (p *Proof) shows() string {
	was := p.Unpatched.Checks[0]
	switch {
	case was.Verdict == Failed && was.Fault == p.Fault:
		return ""
	case was.Verdict == Failed:
		return fmt.Sprintf("fails with %s, not with %s: %s", named(was.Fault), p.Fault, was.Detail)
	case was.Verdict == Passed:
		return fmt.Sprintf("does not show %s: %s", p.Fault, was.seen())
	}
	return fmt.Sprintf("does not show %s: %s: %s", p.Fault, was.Verdict, was.Detail)
}

func (p *Proof) end(why string) (*Proof, error) {
	p.Detail = why
	return p, &ProofError{p, false}
}

func named(fault string) string {
	if fault == "" {
		return "a fault that has no name"
	}
	return fault
}

// half runs the check on one of the builds. Only an interruption, or a check
// that does not exist, is an error here.
func (o ProofOptions) half(ctx context.Context, name string, build Programs) (*Report, error) {
	one := o.Options
	one.Bin, one.Stock, one.Same = build.Bin, "", ""
	one.Env = slices.Concat(o.Env, build.Env)
	one.Checks = []spec.Check{o.Check}
	one.Work = filepath.Join(o.Work, name)
	if name == "unpatched" {
		// It is to fail: an error in the log would be taken for one.
		one.Log = nil
	}
	r, err := o.look(ctx, name, one)
	var failed *FailedChecks
	var not *NotRun
	if ctx.Err() == nil && (errors.As(err, &failed) || errors.As(err, &not)) {
		err = nil
	}
	if err != nil {
		return r, fmt.Errorf("proof of %s: %s: %w", o.Fix, name, err)
	}
	return r, nil
}

// look makes a build where it is not there yet, and runs the check on it.
func (o ProofOptions) look(ctx context.Context, name string, one Options) (*Report, error) {
	if o.Make == nil {
		return Run(ctx, one)
	}
	res, err := o.Make(ctx, name)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		first, rest, _ := strings.Cut(err.Error(), "\n")
		res = &Result{Verdict: Errored, Detail: first, Tail: lastLines(rest, 20)}
	case res == nil:
		return Run(ctx, one)
	}
	res.Name, res.Place = o.Check.Name, PlaceBuild
	r := &Report{
		Tag: o.Tag, Target: o.Target, Commit: o.Commit, Tree: o.Tree, Place: PlaceBuild, Machine: thisMachine(),
		Checks: []Result{*res},
	}
	return r, r.judge(nil)
}
