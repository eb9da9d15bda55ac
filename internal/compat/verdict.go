package compat

import (
	"fmt"
	"maps"
	"slices"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// Verdict says how a patch stands to a tag.
type Verdict string

// The verdicts.
const (
	Exact       Verdict = "exact"         // every hunk stands where the patch says
	Offset      Verdict = "offset"        // every hunk has one place, some on other lines
	Merged      Verdict = "merged"        // some hunk has no place, and a clean merge puts it there (Options.ThreeWay)
	Landed      Verdict = "landed"        // upstream has every change of it
	Partly      Verdict = "partly landed" // upstream has some of it, the rest has a place and is applied
	Ambiguous   Verdict = "ambiguous"     // some hunk has several places, and with those that git apply takes it fits
	Conflict    Verdict = "conflict"      // some hunk has no place, or several and git takes none of them
	MissingFile Verdict = "missing file"  // it changes a file that is not there
	Unknown     Verdict = "unknown"       // the repository lacks a file's content, or it is not a patch file

	NotYet       = Verdict(spec.NotYet)
	NotCovered   = Verdict(spec.NotCovered)
	Cured        = Verdict(spec.Cured)
	NotForTarget = Verdict(spec.NotForTarget)
)

// verdicts are all of them, in the order of legends.
var verdicts = []Verdict{
	Exact, Offset, Merged, Landed, Partly, Ambiguous, Conflict, MissingFile, NotCovered, NotYet,
	Cured, NotForTarget, Unknown,
}

// Fits reports whether the patch can be applied as it is, and changes something.
func (v Verdict) Fits() bool { return v == Exact || v == Offset || v == Partly }

// changes reports whether later patches are judged on what the patch makes, as it
// is, merged, or as git apply would.
func (v Verdict) changes() bool { return v.Fits() || v == Merged || v == Ambiguous }

// unplaced reports whether some hunk of the patch has no place, or several.
func (v Verdict) unplaced() bool { return v == Conflict || v == Ambiguous }

// good reports whether a stack is complete with the patch in this state.
func (v Verdict) good() bool {
	return v.Fits() || v == Landed || v == NotYet || v == Cured || v == NotForTarget
}

// broken reports whether a patch in this state stops a build that needs it. A
// merge does: it is not made unless somebody asks for it.
func (v Verdict) broken() bool { return v.unplaced() || v == MissingFile || v == Merged }

// Finding is why a patch does not fit.
type Finding struct {
	File  string      `json:"file"`
	Line  int         `json:"line,omitempty"` // where the hunk nearly stands
	Hunk  int         `json:"hunk,omitempty"` // 1-based, 0: about the whole file
	Cause patch.Cause `json:"cause"`
	Why   string      `json:"why,omitempty"`
	// PatchLine is where the hunk begins in the patch file.
	PatchLine int      `json:"patch_line,omitempty"`
	Held      bool     `json:"held,omitempty"`   // upstream has just this change: that is why it does not fit
	Got       []string `json:"-"`                // what stands at Line
	Places    []int    `json:"places,omitempty"` // lines at which the whole preimage stands
	// Proposal is which of the places git apply takes, and what speaks for it.
	Proposal *patch.Proposal `json:"proposal,omitempty"`
}

func newFinding(c *patch.Conflict) Finding {
	return Finding{
		File: c.File, Line: c.Line, Hunk: c.Hunk, Cause: c.Kind, Why: c.Detail,
		PatchLine: c.PatchLine, Got: c.Got, Places: c.Places, Proposal: c.Proposal,
	}
}

// conflict is the finding as package patch words it.
func (f Finding) conflict(fix string, v *Variant, after string) *patch.Conflict {
	before, _ := patch.Preimage(v.Patches, f.PatchLine)
	return &patch.Conflict{
		Fix: fix, Patch: v.File, File: f.File, Hunk: f.Hunk, Line: f.Line, PatchLine: f.PatchLine,
		Kind: f.Cause, Detail: f.Why, Want: before, Got: f.Got, Places: f.Places, Proposal: f.Proposal, After: after,
	}
}

// String returns place and cause on one line.
func (f Finding) String() string {
	s := f.File
	if f.Line > 0 {
		s += fmt.Sprintf(":%d", f.Line)
	}
	if f.Hunk > 0 {
		s += fmt.Sprintf(": hunk %d", f.Hunk)
	}
	s += ": " + string(f.Cause)
	if f.Why != "" {
		s += " (" + f.Why + ")"
	}
	if f.Proposal != nil {
		s += fmt.Sprintf(" among %d places; %s", len(f.Places), f.Proposal)
	}
	return patch.Printable(s)
}

// outcome is a patch file's verdict on one set of files. Many cells share it.
type outcome struct {
	Verdict  Verdict
	Offset   int       // the greatest distance of a hunk from its line
	Changes  int       // hunks and changes of whole files
	Held     int       // of them, those that upstream has
	HeldAt   []int     // of those, the lines of the patch file at which they begin
	Findings []Finding // where it does not fit
	Why      string    // Unknown: what is lacking
	After    []entry   // where it changes the tree: what it leaves at the unit's paths
	Merge    *Merge    // what a merge came to, where one was tried

	misfits []*patch.Conflict // those of the findings, where it was judged in this run

	in   []entry // what it was judged on; of a merge, nil
	kept bool    // it is from the cache folder, and was not met yet in this run
}

// judged turns a judgement into an outcome, without After.
func judged(j *patch.Judgement) *outcome {
	out := &outcome{Verdict: Exact, Changes: j.Changes, Held: j.Held, HeldAt: slices.Sorted(maps.Keys(j.HeldAt))}
	for _, p := range j.Placements {
		if p.Kind == patch.Landed {
			continue
		}
		if d := max(p.Offset, -p.Offset); d > out.Offset {
			out.Verdict, out.Offset = Offset, d
		}
	}
	if len(j.Conflicts) == 0 {
		switch {
		case j.Held > 0 && j.Held == j.Changes:
			out.Verdict = Landed
		case j.Held > 0:
			out.Verdict = Partly
		}
		return out
	}
	out.Verdict, out.misfits = Conflict, j.Conflicts
	missing := true
	for _, c := range j.Conflicts {
		f := newFinding(c)
		f.Held = j.HeldAt[c.PatchLine]
		out.Findings = append(out.Findings, f)
		missing = missing && c.Kind == patch.MissingFile
	}
	// What upstream has is no trouble: the rest is what a user must mend.
	slices.SortStableFunc(out.Findings, func(a, b Finding) int {
		switch {
		case a.Held == b.Held:
			return 0
		case b.Held:
			return -1
		}
		return 1
	})
	switch {
	case missing:
		out.Verdict = MissingFile
	case j.Files != nil:
		out.Verdict = Ambiguous
	}
	return out
}
