package compat

import (
	"fmt"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
)

// Run is a row of neighbouring tags on which a fix stands in the same way.
type Run struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Tags    int     `json:"tags"`
	Verdict Verdict `json:"verdict"`
	Patch   string  `json:"patch,omitempty"`  // the variant's file
	Offset  int     `json:"offset,omitempty"` // the greatest distance of a hunk from its line
	Changes int     `json:"changes,omitempty"`
	Held    int     `json:"held,omitempty"` // of the changes, those that upstream has
	// Findings say why it does not fit the first of the tags.
	Findings []Finding `json:"findings,omitempty"`
	After    string    `json:"after,omitempty"` // an earlier fix of the same files that does not fit either
	Reason   string    `json:"reason,omitempty"`
	Landed   []Landing `json:"landed,omitempty"` // where the changes that upstream has came from
	Merge    *Merge    `json:"merge,omitempty"`  // what merging it came to, where that was tried

	first, last int // indexes of the tags
	fix         string
	variant     *Variant
}

// fold joins neighbours of the same verdict and patch; of conflicts the first is kept.
func fold(runs []Run) []Run {
	var out []Run
	for _, r := range runs {
		n := len(out) - 1
		if n < 0 || out[n].Verdict != r.Verdict || out[n].Patch != r.Patch || out[n].Reason != r.Reason {
			out = append(out, r)
			continue
		}
		out[n].To, out[n].last = r.To, r.last
		out[n].Tags += r.Tags
		out[n].Offset = max(out[n].Offset, r.Offset)
		out[n].Held = max(out[n].Held, r.Held)
	}
	return out
}

// why says on one line why a run is as it is.
func (r *Run) why() string {
	var s string
	switch r.Verdict {
	case Offset:
		s = fmt.Sprintf("up to %d %s off", r.Offset, plural(r.Offset, "line", "lines"))
	case Landed:
		s = "upstream has it"
		if r.Merge != nil {
			s += ", as a merge over " + r.Merge.Base + " shows"
		}
	case Merged:
		s = fmt.Sprintf("over %s: %s", r.Merge.Base, strings.Join(r.Merge.Files, ", "))
	case Partly:
		s = fmt.Sprintf("upstream has %d of its %d changes", r.Held, r.Changes)
	case Ambiguous, Conflict, MissingFile:
		if len(r.Findings) > 0 {
			s = r.Findings[0].String()
			if n := len(r.Findings) - r.findingsHeld() - 1; n > 0 {
				s += fmt.Sprintf(", and %d more", n)
			}
			if r.Verdict == Conflict && r.Held > 0 {
				s += fmt.Sprintf("; upstream has %d of its %d changes", r.Held, r.Changes)
			}
		}
		if r.Merge != nil {
			s += "; " + r.Merge.failed()
		}
		if r.After != "" {
			s += "; mend " + r.After + " first"
		}
	default:
		s = r.Reason
	}
	return patch.Printable(s)
}

// findingsHeld counts the findings about what upstream has already.
func (r *Run) findingsHeld() (n int) {
	for i := range r.Findings {
		if r.Findings[i].Held {
			n++
		}
	}
	return n
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
