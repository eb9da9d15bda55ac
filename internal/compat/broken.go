package compat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
)

// Broken is a stack that does not fit where it is declared to.
type Broken struct {
	Stack string
	Fixes []BrokenFix
}

// BrokenFix is where a fix does not fit although a range of it says so.
type BrokenFix struct {
	Fix  string
	Runs []Run
}

// Error lists the fixes, the tags and the reasons.
func (e *Broken) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d %s not fit where declared", e.Stack, len(e.Fixes),
		plural(len(e.Fixes), "fix does", "fixes do"))
	for _, f := range e.Fixes {
		for _, r := range f.Runs {
			why := r.why()
			if r.Verdict == Merged {
				why = "has no place, and merges " + why
			}
			fmt.Fprintf(&b, "\n  %s (%s) on %s: %s", f.Fix, r.Patch, Span{r.From, r.To, r.Tags}, why)
		}
	}
	return b.String()
}

// ExitCode is exit.Conflict.
func (e *Broken) ExitCode() int { return exit.Conflict }

// Hint says what to do.
func (e *Broken) Hint() string {
	return "a declared range must end where its patch does; llpatch status --blame FIX names the commit that broke it"
}

// Broken returns where the fixes do not fit although they are declared to, nil
// where there is nothing. A foreign stack declares nothing, so nothing is broken.
func (r *Report) Broken() *Broken {
	b := &Broken{Stack: r.Stack}
	for i := range r.Fixes {
		st := &r.Fixes[i]
		var runs []Run
		for _, run := range fold(st.Runs) {
			if run.Verdict.broken() {
				runs = append(runs, run)
			}
		}
		if runs != nil && slices.ContainsFunc(st.Variants, func(p Proof) bool { return p.Declared != "" }) {
			b.Fixes = append(b.Fixes, BrokenFix{st.Fix, runs})
		}
	}
	if b.Fixes == nil {
		return nil
	}
	return b
}
