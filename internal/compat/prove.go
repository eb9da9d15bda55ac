package compat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/spec"
)

// RangeProof says whether a variant serves wherever its range declares it.
type RangeProof struct {
	Fix     string `json:"fix"`
	Variant int    `json:"variant"` // index in the fix
	Patch   string `json:"patch"`
	Range   string `json:"range"`
	Tags    int    `json:"tags"` // of the range, that the patch was judged on
	// Commits counts the first and the last of the range, where they have no tag.
	Commits int `json:"commits"`
	// Faults are where it does not, in the order of the history.
	Faults []RangeFault `json:"faults,omitempty"`
	Notes  []string     `json:"notes,omitempty"` // what could not be judged, and where upstream has it
}

// RangeFault is a row of tags, or a commit, that a range declares and on which
// the patch would stop a build.
type RangeFault struct {
	Where   string  `json:"where"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"`

	build int
}

// Prove judges every variant of the stack in its place: on every tag of its
// declared range, and on the first and the last commit of the range, which need
// not be tagged.
func (h *History) Prove(ctx context.Context, o Options, s Stack) ([]RangeProof, error) {
	s, err := h.backports(ctx, o, s)
	if err != nil {
		return nil, err
	}
	var out []RangeProof
	index := map[*Variant]int{}
	for i := range s.Fixes {
		for k := range s.Fixes[i].Variants {
			v := &s.Fixes[i].Variants[k]
			index[v] = len(out)
			out = append(out, RangeProof{Fix: s.Fixes[i].ID, Variant: k, Patch: v.File, Range: v.Range.String()})
		}
	}
	j := newJudge(h, o, s)
	if err := h.proveTags(ctx, j, out, index); err != nil {
		return nil, err
	}
	if err := h.proveEnds(ctx, j, out, index); err != nil {
		return nil, err
	}
	for i := range out {
		slices.SortStableFunc(out[i].Faults, func(a, b RangeFault) int { return cmp.Compare(a.build, b.build) })
	}
	return out, nil
}

func (h *History) proveTags(ctx context.Context, j *judge, out []RangeProof, index map[*Variant]int) error {
	cells, err := j.run(ctx, h.Tags)
	if err != nil {
		return err
	}
	for i := range j.stack.Fixes {
		runs := status(&j.stack.Fixes[i], h.Tags, cells[i]).Runs
		for n := 0; n < len(runs); n++ {
			r := runs[n]
			// Runs that differ only in lines are one for who mends a range.
			for ; n+1 < len(runs) && runs[n+1].variant == r.variant && runs[n+1].Verdict == r.Verdict; n++ {
				r.To = runs[n+1].To
				r.Tags += runs[n+1].Tags
			}
			if r.variant != nil {
				p := &out[index[r.variant]]
				p.Tags += p.take(r, Span{r.From, r.To, r.Tags}.String(), h.Tags[r.first].Build)
			}
		}
	}
	return nil
}

// take adds what was found on a run of tags, or on a commit, and returns how
// many of them could be judged.
func (p *RangeProof) take(r Run, where string, build int) int {
	if r.Verdict == Unknown {
		p.Notes = append(p.Notes, fmt.Sprintf("not judged on %s: %s", where, r.why()))
		return 0
	}
	switch {
	case r.Verdict.broken():
		p.Faults = append(p.Faults, RangeFault{Where: where, Verdict: r.Verdict, Why: r.why(), build: build})
	case r.Verdict == Landed:
		p.Notes = append(p.Notes, fmt.Sprintf("upstream has it on %s: the range may end there", where))
	}
	return r.Tags
}

// proveEnds judges the commits at the ends of the ranges that are not tagged.
func (h *History) proveEnds(ctx context.Context, j *judge, out []RangeProof, index map[*Variant]int) error {
	objects, err := h.repo.Objects()
	if err != nil {
		return err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	line, err := h.mainline(ctx, objects)
	if err != nil {
		return err
	}
	tagged := map[plumbing.Hash]bool{}
	for _, t := range h.Tags {
		tagged[t.object] = true
	}
	var tags []Tag
	asks := map[int][]*Variant{} // by index of tags
	for i := range j.stack.Fixes {
		for k := range j.stack.Fixes[i].Variants {
			v := &j.stack.Fixes[i].Variants[k]
			if v.Range.IsZero() || len(v.Patches) == 0 {
				continue
			}
			for _, n := range line.ends(v, &out[index[v]], h.Path) {
				id, _ := line.commit(n)
				if tagged[id] {
					continue
				}
				at := slices.IndexFunc(tags, func(t Tag) bool { return t.Build == n })
				if at < 0 {
					at = len(tags)
					tags = append(tags, Tag{Name: fmt.Sprintf("build %d (commit %.12s)", n, id), Build: n, object: id})
				}
				asks[at] = append(asks[at], v)
			}
		}
	}
	ids := make([]plumbing.Hash, len(tags))
	for i, t := range tags {
		ids[i] = t.object
	}
	rows, err := h.readRows(ctx, j.o, j.asked, len(j.paths), ids)
	if err != nil {
		return err
	}
	cells, err := j.cells(ctx, rows, buildsOf(tags))
	if err != nil {
		return err
	}
	for i := range j.stack.Fixes {
		for e := range tags {
			r := newRun(&j.stack.Fixes[i], tags, e, &cells[i][e])
			if r.variant == nil || !slices.Contains(asks[e], r.variant) {
				continue
			}
			p := &out[index[r.variant]]
			p.Commits += p.take(r, tags[e].Name, tags[e].Build)
		}
	}
	return nil
}

// ends returns the build numbers at which a variant's range begins and ends, as
// far as the history goes, and notes how far that is.
func (m *mainline) ends(v *Variant, p *RangeProof, path string) []int {
	lo, hi := v.Range.Bounds()
	note := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case lo > m.last:
		note("it begins at build %d, behind %s, where %s ends: it is not proven", lo, m.newest.Name, path)
		return nil
	case hi < m.first:
		note("it ends at build %d, before build %d, where %s begins: it is not proven", hi, m.first, path)
		return nil
	}
	if lo < m.first {
		note("it begins at build %d, and %s at %d: it is proven from there", lo, path, m.first)
		lo = m.first
	}
	if hi > m.last {
		if v.Range.Open() {
			note("it has no end, and %s ends at %s: it is proven up to there", path, m.newest.Name)
		} else {
			note("it ends at build %d, and %s at %s: it is proven up to there", hi, path, m.newest.Name)
		}
		hi = m.last
	}
	if lo, hi = m.up(lo), m.down(hi); lo < hi {
		return []int{lo, hi}
	}
	return []int{lo}
}

// sortedPins returns the names of a lock's tags by build number.
func sortedPins(lock map[string]spec.Pin) []string {
	return slices.SortedFunc(maps.Keys(lock), func(a, b string) int {
		return cmp.Or(cmp.Compare(lock[a].Build, lock[b].Build), cmp.Compare(a, b))
	})
}
