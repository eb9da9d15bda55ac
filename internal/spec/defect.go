package spec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/llpatch/llpatch/internal/tag"
)

// Defect says from which build on an upstream has what a fix mends, and what
// upstream did about it since. The zero value knows nothing: the defect counts as
// there in every build.
type Defect struct {
	Upstream string `toml:"upstream" json:"upstream"`           // whose builds these are; empty in the file: the fix's
	Since    int    `toml:"since" json:"since"`                 // the first build that has it
	Commit   string `toml:"commit" json:"commit"`               // that brought it: build Since
	Why      string `toml:"why" json:"why"`                     // what that commit did
	Partly   []Cure `toml:"partly" json:"partly,omitempty"`     // in the order of builds
	FixedIn  int    `toml:"fixed-in" json:"fixed_in,omitempty"` // the first build without it; 0: there is none
	FixedBy  string `toml:"fixed-by" json:"fixed_by,omitempty"` // the commit of FixedIn
}

// Cure is a build in which upstream cured a part of a defect.
type Cure struct {
	Build  int    `toml:"build" json:"build"`
	Commit string `toml:"commit" json:"commit"`
	What   string `toml:"what" json:"what"` // a sentence without an end: what no longer happens
}

// String returns "build 9489 (commit f8f0a47a5516): WHAT".
func (c Cure) String() string { return fmt.Sprintf("%s: %s", at(c.Build, c.Commit), c.What) }

// String returns "build 7821 (commit 81ab64f3c858): WHY", "" where nothing is known.
func (d Defect) String() string {
	if d.Since == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s", at(d.Since, d.Commit), d.Why)
}

func at(build int, commit string) string {
	return fmt.Sprintf("build %d (commit %.12s)", build, commit)
}

// Case says how a fix stands to a tag, for a target.
type Case string

// The cases.
const (
	Covered      Case = "covered"             // the defect is there, and a variant for it
	NotYet       Case = "not there yet"       // upstream had not brought the defect
	NotCovered   Case = "not covered"         // the defect is there, and no variant
	Cured        Case = "cured by upstream"   // the build no longer has it
	NotForTarget Case = "not for this target" // whatever the tag is
	OnRequest    Case = "only on request"     // a variant is for it, and nobody asked
	LeftOut      Case = "left out"            // a variant is for it, and somebody asked to do without
	NotAtHand    Case = "not at hand"         // a variant is for it, and no history that can be reached has its commit
)

// Absent returns NotYet or Cured and the reason, where build n has no such defect;
// "" where it does.
func (d Defect) Absent(n int) (Case, string) {
	switch {
	case n < d.Since:
		return NotYet, "the defect came with " + at(d.Since, d.Commit)
	case d.FixedIn > 0 && n >= d.FixedIn:
		return Cured, "upstream cured the defect in " + at(d.FixedIn, d.FixedBy)
	}
	return "", ""
}

// Beyond says of a build above all the ranges of a fix's variants that nobody has
// looked whether it still has the defect; "" of every other. It goes behind a reason.
func Beyond(n int, ranges []tag.Range) string {
	last := 0
	for _, r := range ranges {
		_, hi := r.Bounds()
		last = max(last, hi)
	}
	if n <= last {
		return ""
	}
	return fmt.Sprintf("; whether a build after %d still has the defect was not looked at", last)
}

// CuredAt returns the parts of the defect that build n no longer has.
func (d Defect) CuredAt(n int) []Cure {
	var out []Cure
	for _, c := range d.Partly {
		if n >= c.Build {
			out = append(out, c)
		}
	}
	return out
}

// Defect returns what f says of the defect in an upstream.
func (f Fix) Defect(upstream string) Defect {
	if i := slices.IndexFunc(f.Defects, func(d Defect) bool { return d.Upstream == upstream }); i >= 0 {
		return f.Defects[i]
	}
	return Defect{}
}

// defects checks the [[defect]] tables of a fix, each against its upstream's variants.
func (f *file) defects(fix *Fix) {
	for i := range fix.Defects {
		d := &fix.Defects[i]
		d.Upstream = cmp.Or(d.Upstream, fix.Upstream)
		key := func(k string) string { return fmt.Sprintf("defect[%d].%s", i, k) }
		f.oneOf(key("upstream"), d.Upstream, LlamaCpp, IkLlamaCpp)
		if slices.ContainsFunc(fix.Defects[:i], func(o Defect) bool { return o.Upstream == d.Upstream }) {
			f.fail(key("upstream"), "a [[defect]] of %s stands above; one upstream has one", d.Upstream)
		}
		f.refuse(!slices.Contains(fix.Upstreams(), d.Upstream), key("upstream"), "no [[variant]] is for %s", d.Upstream)
		unknown := fix.Group == Security && d.Since == 0 // when it came is not known: every build before FixedIn counts
		f.refuse(d.Since < 1 && !unknown, key("since"),
			"since is missing or below 1: the number of the first build that has the defect")
		f.refuse(d.Why == "" && !unknown, key("why"), "why is missing or empty: what the commit did that brought the defect")
		if !unknown {
			f.commit(key("commit"), d.Commit)
		}
		before, what := d.Since, "since"
		for k, c := range d.Partly {
			part := func(name string) string { return fmt.Sprintf("defect[%d].partly[%d].%s", i, k, name) }
			f.refuse(c.Build <= before, part("build"), "build %d does not come after %s = %d", c.Build, what, before)
			f.refuse(c.What == "", part("what"), "what is missing or empty: what no longer happens from this build on")
			f.commit(part("commit"), c.Commit)
			before, what = c.Build, "the build of the part before it"
		}
		switch {
		case d.FixedIn == 0 && d.FixedBy != "":
			f.fail(key("fixed-by"), "fixed-by needs fixed-in: the build of that commit")
		case d.FixedIn != 0:
			f.refuse(d.FixedIn <= before, key("fixed-in"),
				"fixed-in = %d does not come after %s = %d", d.FixedIn, what, before)
			f.commit(key("fixed-by"), d.FixedBy)
		}
	}
}

// commit checks a full commit id.
func (f *file) commit(key, id string) {
	f.refuse(!commitRE.MatchString(id), key, "commit %q is not a full commit id of 40 hex digits", id)
}
