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
}

// place finds the spot of every hunk, in order, or says why it has none. blob
// returns the id of the file's blob; it is asked only for hunks that have no
// line to go by.
//
// A hunk must stand whole, with git's rules for the ends of a file: one that
// starts at line 1 stands at the beginning, one without trailing context at the
// end. Elsewhere its stated line counts first, as long as no earlier hunk was
// off its line; then the only place there is.
func place(t *text, hunks []hunk, oldID string, blob func() string) ([]spot, []misfit) {
	p := placer{t: t, lone: len(hunks) == 1, oldID: oldID, blob: blob, trusted: true}
	spots := make([]spot, 0, len(hunks))
	var bad []misfit
	grown := 0 // lines that the hunks so far add, by their headers
	for i := range hunks {
		h := &hunks[i]
		at, m := p.place(h, h.consistent(grown))
		grown += h.newLines - len(h.old)
		if m != nil {
			m.hunk = i
			if bad = append(bad, *m); len(bad) == maxMisfits {
				break
			}
			continue
		}
		s := spot{want: h.start(), at: at, n: len(h.old)}
		p.done = append(p.done, s)
		p.trusted = p.trusted && s.at == s.want
		spots = append(spots, s)
	}
	return spots, bad
}

// maxMisfits bounds what is said about one file.
const maxMisfits = 100

// placer places the hunks of one file one by one.
type placer struct {
	t       *text
	lone    bool // there is only one hunk
	oldID   string
	blob    func() string
	done    []spot // of the hunks so far, in rising order and apart
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

// overlaps reports whether n lines at that line meet a placed hunk.
func (p *placer) overlaps(at, n int) bool {
	i, _ := slices.BinarySearchFunc(p.done, at, func(s spot, at int) int { return cmp.Compare(s.end(), at+1) })
	return i < len(p.done) && p.done[i].at < at+n
}

func (p *placer) place(h *hunk, consistent bool) (int, *misfit) {
	t, want, n := p.t, h.start()+p.shift, len(h.old)
	fits := func(at int) bool { return at >= p.next() && t.at(h, at) && !h.joins(t, at) }
	if h.lead == 0 && h.trail == 0 {
		return p.placeBare(h, consistent, fits)
	}
	fixed, rule := 0, ""
	switch {
	case h.oldLine <= 1 && h.trail == 0 && n != t.count():
		fixed, rule = -1, "it spans a whole file, and this one has other lines too"
	case h.oldLine <= 1:
		rule = "it starts at line 1, so it fits at the beginning of the file only"
	case h.trail == 0:
		fixed, rule = t.count()-n, "it has no context below, so it fits at the end of the file only"
	}
	if rule != "" {
		if fits(fixed) {
			return fixed, nil
		}
		return 0, h.misfit(t, want, rule)
	}
	if p.trusted && consistent && fits(want) {
		return want, nil
	}
	all := t.find(h)
	stands := len(all) > 0
	all = slices.DeleteFunc(all, func(at int) bool { return p.overlaps(at, n) || h.joins(t, at) })
	switch {
	case len(all) == 0 && stands:
		return 0, h.misfit(t, want, "its only place is taken by an earlier hunk")
	case len(all) == 0:
		return 0, h.misfit(t, want, "")
	case len(all) > 1:
		return 0, &misfit{kind: Ambiguous, line: all[0], places: all}
	case all[0] < p.next():
		return 0, &misfit{kind: OutOfOrder, line: all[0], places: all}
	}
	return all[0], nil
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
		return 0, &misfit{kind: NoContext, line: want, why: "it has no context, and the file is not the one that it was made from"}
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
