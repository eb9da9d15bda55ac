package patch

import (
	"bytes"
	"cmp"
	"slices"
)

// spot is where one hunk of a file stands: replaced are the lines from at on
// for as many as its preimage has. One that is landed stands there with its
// postimage, and nothing is replaced.
type spot struct {
	want, at int // 0-based lines of the file before the patch; want as the header states it
	n        int // lines
	landed   bool
}

func (s spot) end() int { return s.at + s.n }

// misfit is a hunk without a spot.
type misfit struct {
	hunk   int // index
	kind   Cause
	line   int // 0-based line that a message names
	equal  int // preimage lines that stand there
	places []int
	why    string
	git    *Proposal
}

// place finds the spot of every hunk, or says why it has none. blob returns the
// id of the file's blob; it is asked only for hunks that have no line to go by.
//
// A hunk must stand whole, with git's rules for the ends of a file: one that
// starts at line 1 stands at the beginning, one without trailing context at the
// end. Elsewhere its stated line counts first, as long as no earlier hunk was
// off its line; then the only place there is. Hunks with several places are
// settled together (settleOrder).
func place(t *text, hunks []hunk, oldID string, blob func() string) ([]spot, []misfit) {
	p := placer{t: t, lone: len(hunks) == 1, oldID: oldID, blob: blob, trusted: true}
	slots := make([]slot, 0, len(hunks))
	var bad []misfit
	grown := 0 // lines that the hunks so far add, by their headers
	open := false
	for i := range hunks {
		h := &hunks[i]
		at, m := p.places(h, h.consistent(grown))
		grown += h.newLines - len(h.old)
		if m == nil && len(at) == 1 {
			m = p.inOrder(h, at[0])
		}
		if m != nil {
			m.hunk = i
			if bad = append(bad, *m); len(bad) == maxMisfits {
				break
			}
			continue
		}
		slots = append(slots, slot{hunk: i, n: len(h.old), at: at})
		p.trusted = p.trusted && len(at) == 1 && at[0] == h.start()
		if len(at) > 1 {
			open = true
			continue
		}
		p.done = append(p.done, spot{want: h.start(), at: at[0], n: len(h.old)})
	}
	if open {
		bad = append(bad, settleOrder(t, hunks, slots, len(bad) == 0)...)
		slices.SortStableFunc(bad, func(a, b misfit) int { return cmp.Compare(a.hunk, b.hunk) })
	}
	spots := make([]spot, 0, len(hunks))
	for _, s := range slots {
		if !slices.ContainsFunc(bad, func(m misfit) bool { return m.hunk == s.hunk }) {
			spots = append(spots, spot{want: hunks[s.hunk].start(), at: s.at[0], n: s.n})
		}
	}
	return spots, bad
}

// maxMisfits bounds what is said about one file.
const maxMisfits = 100

// placer finds where the hunks of one file may stand, one by one.
type placer struct {
	t       *text
	lone    bool // there is only one hunk
	oldID   string
	blob    func() string
	done    []spot // of the hunks so far that have one place, in rising order and apart
	trusted bool   // none of them was off its line
	// shift is what to add to a hunk's stated line, because of earlier hunks that
	// the file holds already.
	shift int
}

// next is the first line behind the last placed hunk.
func (p *placer) next() int {
	if len(p.done) == 0 {
		return 0
	}
	return p.done[len(p.done)-1].end()
}

// inOrder says why a hunk's only place is none: it does not lie behind the
// placed hunks.
func (p *placer) inOrder(h *hunk, at int) *misfit {
	if at >= p.next() {
		return nil
	}
	i, _ := slices.BinarySearchFunc(p.done, at, func(s spot, at int) int { return cmp.Compare(s.end(), at+1) })
	if i < len(p.done) && p.done[i].at < at+len(h.old) {
		return h.misfit(p.t, h.start()+p.shift, "its only place is taken by an earlier hunk")
	}
	return &misfit{kind: OutOfOrder, line: at, places: []int{at}}
}

// place finds the one place of a hunk behind the placed ones.
func (p *placer) place(h *hunk, consistent bool) (int, *misfit) {
	all, m := p.places(h, consistent)
	if m == nil && len(all) > 1 {
		m = &misfit{kind: Ambiguous, line: all[0], places: all}
	}
	if m == nil {
		m = p.inOrder(h, all[0])
	}
	if m != nil {
		return 0, m
	}
	return all[0], nil
}

// places returns the lines at which a hunk may stand, in rising order: one where
// a rule or its stated line decides, else all of them, whatever the other hunks do.
func (p *placer) places(h *hunk, consistent bool) ([]int, *misfit) {
	t, want := p.t, h.start()+p.shift
	fits := func(at int) bool { return at >= p.next() && t.at(h, at) && !h.joins(t, at) }
	if h.lead == 0 && h.trail == 0 {
		at, m := p.placeBare(h, consistent, fits)
		return []int{at}, m
	}
	if fixed, rule := h.fixed(t); rule != "" {
		if fits(fixed) {
			return []int{fixed}, nil
		}
		return nil, h.misfit(t, want, rule)
	}
	if p.trusted && consistent && fits(want) {
		return []int{want}, nil
	}
	all := t.find(h)
	joins := func(at int) bool { return h.joins(t, at) }
	if slices.ContainsFunc(all, joins) {
		all = slices.DeleteFunc(slices.Clone(all), joins)
	}
	if len(all) == 0 {
		return nil, h.misfit(t, want, "")
	}
	return all, nil
}

// fixed returns the only line at which git's rules for the ends of a file let the
// hunk stand, -1 where it cannot, and the rule; "" where none is about it.
func (h *hunk) fixed(t *text) (at int, rule string) {
	switch {
	case h.oldLine <= 1 && h.trail == 0 && len(h.old) != t.count():
		return -1, "it spans a whole file, and this one has other lines too"
	case h.oldLine <= 1:
		return 0, "it starts at line 1, so it fits at the beginning of the file only"
	case h.trail == 0:
		return t.count() - len(h.old), "it has no context below, so it fits at the end of the file only"
	}
	return 0, ""
}

// placeBare places a hunk without context. Either it replaces the whole file, or
// it comes from a diff without context, which says nothing about its place but
// the line number. A lone one at line 1 may be either, and one that only adds
// lines fits anywhere: then the blob must decide.
func (p *placer) placeBare(h *hunk, consistent bool, fits func(int) bool) (int, *misfit) {
	want, whole := h.start()+p.shift, len(h.old) == p.t.count()
	if !fits(want) || !whole && !(p.trusted && consistent) {
		return 0, h.misfit(p.t, want, "it has no context, so it fits at its stated line only")
	}
	if !whole && (len(h.old) == 0 || p.lone && h.oldLine <= 1) && !sameBlob(p.oldID, p.blob()) {
		return 0, &misfit{
			kind: NoContext, line: want,
			why: "it has no context, and the file is not the one that it was made from",
		}
	}
	return want, nil
}

// joins reports whether applying h at that line would glue a line without a
// newline to the one behind it.
func (h *hunk) joins(t *text, at int) bool {
	open := h.newText != "" && h.newText[len(h.newText)-1] != '\n'
	if open && at+len(h.old) != t.count() {
		return true
	}
	before := t.offset(at)
	return h.newText != "" && before > 0 && t.data[before-1] != '\n'
}

// misfit describes a hunk that stands nowhere it may.
func (h *hunk) misfit(t *text, want int, why string) *misfit {
	m := &misfit{kind: NoPlace, places: t.find(h), why: why}
	m.places = m.places[:min(len(m.places), maxPlaces)]
	if len(m.places) > 0 {
		m.line, m.equal = m.places[0], len(h.old)
		return m
	}
	m.line, m.equal = t.nearest(h, want)
	return m
}

// splice returns the file with every hunk replaced at its spot.
func splice(t *text, hunks []hunk, spots []spot) []byte {
	size := len(t.data)
	for i := range hunks {
		if spots[i].landed {
			continue
		}
		size += len(hunks[i].newText) - len(hunks[i].oldText)
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	done := 0
	for i := range hunks {
		if spots[i].landed {
			continue
		}
		start := t.offset(spots[i].at)
		out.Write(t.data[done:start])
		out.WriteString(hunks[i].newText)
		done = start + len(hunks[i].oldText)
	}
	out.Write(t.data[done:])
	return out.Bytes()
}
