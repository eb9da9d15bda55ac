package patch

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Proposal is the place that git apply takes for a hunk that may stand in several,
// and what tells whether that is the right one.
type Proposal struct {
	Line    int      `json:"line"`              // 1-based, of the file before the patch
	Offset  int      `json:"offset"`            // from the line that the hunk states
	For     []string `json:"for,omitempty"`     // what speaks for it, beside that git takes it
	Against []string `json:"against,omitempty"` // what speaks for another place
}

// Sound reports whether something speaks for the place, and nothing against it.
func (p *Proposal) Sound() bool { return len(p.For) > 0 && len(p.Against) == 0 }

// String returns the line and the reasons, on one line.
func (p *Proposal) String() string {
	s := fmt.Sprintf("git apply takes line %d, %+d from the stated one", p.Line, p.Offset)
	if len(p.For) > 0 {
		s += "; for it: " + strings.Join(p.For, ", ")
	}
	if len(p.Against) > 0 {
		s += "; against it: " + strings.Join(p.Against, ", ")
	}
	return s
}

// slot is a hunk with the lines at which it may stand, in rising order.
type slot struct {
	hunk, n int // index; lines of the preimage
	at      []int
}

// settleOrder takes from each slot the places that no ordered assignment of all
// hunks has. What keeps one is settled, if git apply puts the hunks so, too;
// the others are returned as ambiguous. whole says that every hunk has a slot.
func settleOrder(t *text, hunks []hunk, slots []slot, whole bool) []misfit {
	all := make([][]int, len(slots))
	for i := range slots {
		all[i] = slots[i].at
	}
	var bad []misfit
	ambiguous := func(i int, at []int, why string) {
		bad = append(bad, misfit{
			hunk: slots[i].hunk, kind: Ambiguous, line: at[0], places: at[:min(len(at), maxPlaces)],
			why: why,
		})
	}
	// refuse is for hunks of which the order does not leave several places each.
	refuse := func(why string) []misfit {
		for i := range slots {
			if len(all[i]) > 1 {
				ambiguous(i, all[i], why)
				slots[i].at = all[i]
			}
		}
		return bad
	}
	ordered(slots)
	if slices.ContainsFunc(slots, func(s slot) bool { return len(s.at) == 0 }) {
		for i := range slots {
			slots[i].at = all[i]
		}
		return refuse("with none of them are the hunks of the file in order")
	}
	for i := range slots {
		if len(slots[i].at) > 1 {
			ambiguous(i, slots[i].at, "")
		}
	}
	if !whole {
		return bad
	}
	git := gitPlaces(t, hunks, all)
	if len(bad) == 0 {
		if git != nil && sameResult(t, hunks, slots, git) {
			return nil
		}
		return refuse("the order of the hunks leaves one of them, but git apply puts the hunks elsewhere")
	}
	for i := range slots {
		if git == nil || !slices.Contains(slots[i].at, git[i]) || i > 0 && git[i] < git[i-1]+slots[i-1].n {
			return bad // git puts the hunks in another order, or some nowhere
		}
	}
	for k := range bad {
		i := slices.IndexFunc(slots, func(s slot) bool { return s.hunk == bad[k].hunk })
		bad[k].git = propose(t, hunks, slots, git, i)
	}
	return bad
}

// ordered leaves in each slot the places that an assignment of all slots in order
// and apart has. Where there is none, a slot is left without a place.
func ordered(slots []slot) {
	next := 0
	for i := range slots {
		s := &slots[i]
		k, _ := slices.BinarySearch(s.at, next)
		if s.at = s.at[k:]; len(s.at) > 0 {
			next = s.at[0] + s.n
		}
	}
	end := math.MaxInt
	for i := len(slots) - 1; i >= 0; i-- {
		s := &slots[i]
		k, _ := slices.BinarySearch(s.at, end-s.n+1)
		if s.at = s.at[:k]; len(s.at) > 0 {
			end = s.at[len(s.at)-1]
		}
	}
}

// gitPlaces returns where git apply puts each hunk, whose places are given: one
// after the other, on the file as those before it have made it, and each at the
// free place that is nearest to the line of its new side; of two the lower one. It
// returns nil where git places not all of them, or by rules that are not ours.
func gitPlaces(t *text, hunks []hunk, places [][]int) []int {
	var done []spot   // in rising order and apart
	grown := []int{0} // by how many lines those before each of them, and all of them, made the file longer
	out := make([]int, len(hunks))
	for i := range hunks {
		h := &hunks[i]
		if h.lead == 0 && h.trail == 0 {
			return nil
		}
		at := places[i]
		// A hunk that stands as stated has one place here, and maybe others in the file.
		fixed, rule := h.fixed(t)
		if rule != "" {
			at = []int{fixed}
		} else if len(at) == 1 {
			at = t.find(h)
		}
		want := min(max(0, h.newLine-1), t.count()+grown[len(done)])
		// look returns the line that c has become, and whether a place there is free.
		look := func(c int) (int, bool) {
			k, _ := slices.BinarySearchFunc(done, c, func(s spot, c int) int { return cmp.Compare(s.at, c) })
			if k > 0 && c < done[k-1].end() {
				return done[k-1].at + grown[k-1], false
			}
			return c + grown[k], k == len(done) || c+len(h.old) <= done[k].at
		}
		// Nearer places come first on both sides of the wanted line, so few are looked at.
		k, _ := slices.BinarySearchFunc(at, want, func(c, want int) int {
			pos, _ := look(c)
			return cmp.Compare(pos, want)
		})
		best, far := -1, math.MaxInt
		try := func(c int) (more bool) {
			pos, free := look(c)
			// Twice the distance, and one more upwards.
			d := 2 * (pos - want)
			if d < 0 {
				d = 1 - d
			}
			if free && d < far {
				best, far = c, d
			}
			return d < far
		}
		for j := k; j < len(at) && try(at[j]); j++ {
		}
		for j := k - 1; j >= 0 && try(at[j]); j-- {
		}
		if best < 0 {
			return nil
		}
		out[i] = best
		s := spot{at: best, n: len(h.old)}
		k, _ = slices.BinarySearchFunc(done, s, func(a, b spot) int { return cmp.Compare(a.at, b.at) })
		done = slices.Insert(done, k, s)
		grown = slices.Insert(grown, k+1, grown[k])
		for j := k + 1; j < len(grown); j++ {
			grown[j] += h.newLines - len(h.old)
		}
	}
	return out
}

// sameResult reports whether git's places give the same bytes as those settled.
func sameResult(t *text, hunks []hunk, slots []slot, git []int) bool {
	ours, theirs := make([]spot, len(slots)), make([]spot, len(slots))
	order := make([]int, len(slots))
	for i := range slots {
		order[i] = i
		ours[i] = spot{at: slots[i].at[0]}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(git[a], git[b]) })
	moved := make([]hunk, len(hunks))
	for k, i := range order {
		theirs[k], moved[k] = spot{at: git[i]}, hunks[i]
	}
	return bytes.Equal(splice(t, hunks, ours), splice(t, moved, theirs))
}

// propose says what speaks for git's place of the hunk of one slot, and against it.
func propose(t *text, hunks []hunk, slots []slot, git []int, i int) *Proposal {
	h := &hunks[slots[i].hunk]
	shift := func(k, at int) int { return at - hunks[slots[k].hunk].start() }
	p := &Proposal{Line: git[i] + 1, Offset: shift(i, git[i])}
	// The hunks that have one place, if they all moved by as much.
	common, settled, apart := 0, 0, false
	for k := range slots {
		if len(slots[k].at) == 1 {
			d := shift(k, slots[k].at[0])
			apart = apart || settled > 0 && d != common
			common = d
			settled++
		}
	}
	if settled > 0 && !apart {
		other := slices.IndexFunc(slots[i].at, func(at int) bool { return at != git[i] && shift(i, at) == common })
		switch {
		case common == p.Offset && settled == 1:
			p.For = append(p.For, fmt.Sprintf("the other hunk of the file that has one place moved by %+d too", common))
		case common == p.Offset:
			p.For = append(p.For, fmt.Sprintf("the %d other hunks of the file that have one place moved by %+d too", settled,
				common))
		case other >= 0:
			p.Against = append(p.Against, fmt.Sprintf("the hunks of the file that have one place moved by %+d, as at line %d",
				common, slots[i].at[other]+1))
		}
	}
	if h.section == "" {
		return p
	}
	named := slices.DeleteFunc(slices.Clone(slots[i].at), func(at int) bool { return heading(t.line, at) != h.section })
	switch {
	case len(named) == 1 && named[0] == git[i]:
		p.For = append(p.For, "it alone lies in what @@ names: "+shorten(h.section))
	case len(named) > 0 && !slices.Contains(named, git[i]):
		p.Against = append(p.Against, fmt.Sprintf("line %d lies in what @@ names, and this does not: %s", named[0]+1,
			shorten(h.section)))
	}
	return p
}
