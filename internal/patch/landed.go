package patch

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/llpatch/llpatch/internal/source"
)

// place finds the spot of every hunk as the function place does, and the spots
// of those that the file holds already.
//
// The preimage counts first, as in git. Where some hunks have no place, the file
// holds them if their postimages stand there, by the same rules, in the order of
// the patch and beside the places of the others. A postimage at its very line
// beside a preimage further off is a case that only the blob ids can decide.
func (t *txn) place(c *change, txt *text, hunks []hunk) ([]spot, []misfit) {
	blob := once(func() string { return blobID(txt.data) })
	spots, bad := place(txt, hunks, c.oldID, blob)
	if t.s.guess {
		spots, bad = guessed(hunks, spots, bad)
	}
	if t.strict || c.kind == create || c.kind == copied {
		return spots, bad
	}
	there := madeAsStated(txt, hunks)
	if len(bad) == 0 {
		if !there {
			return spots, nil
		}
		if sameBlob(c.newID, blob()) && !sameBlob(c.oldID, blob()) {
			return landedSpots(reversed(hunks), nil), nil
		}
		i := slices.IndexFunc(spots, func(s spot) bool { return s.at != s.want })
		if i < 0 {
			return spots, nil
		}
		return spots, []misfit{{
			hunk: i, kind: Ambiguous, line: spots[i].at, places: []int{spots[i].at},
			why: fmt.Sprintf("it stands at line %d, but line %d has what it makes", spots[i].at+1, hunks[i].newStart()+1),
		}}
	}
	back := reversed(hunks)
	if there && sameBlob(c.newID, blob()) {
		return landedSpots(back, nil), nil
	}
	// A preimage that stands in a wrong place, or in two, is not gone.
	if slices.ContainsFunc(bad, func(m misfit) bool { return m.kind != NoPlace && m.kind != NoContext }) {
		return spots, bad
	}
	if there {
		return landedSpots(back, nil), nil
	}
	quiet := txt.quiet
	txt.quiet = true // a postimage that is not there needs no message
	defer func() { txt.quiet = quiet }()
	if at, none := place(txt, back, c.newID, blob); len(none) == 0 {
		// A preimage at its very line speaks against postimages that were searched for.
		exact := slices.ContainsFunc(spots, func(s spot) bool { return s.at == s.want })
		bare := slices.ContainsFunc(back, func(h hunk) bool {
			return h.lead == 0 && h.trail == 0 && len(h.old) != txt.count()
		})
		if exact || bare && !sameBlob(c.newID, blob()) {
			return spots, bad
		}
		return landedSpots(back, at), nil
	}
	if mixed, ok := placeMixed(txt, hunks, back, c, blob); ok {
		return mixed, nil
	}
	return spots, bad
}

// guessed returns the spots with those that git apply has for the ambiguous hunks,
// unless there are hunks that it does not place.
func guessed(hunks []hunk, spots []spot, bad []misfit) ([]spot, []misfit) {
	if len(bad) == 0 || slices.ContainsFunc(bad, func(m misfit) bool { return m.git == nil }) {
		return spots, bad
	}
	for _, m := range bad {
		h := &hunks[m.hunk]
		spots = slices.Insert(spots, m.hunk, spot{want: h.start(), at: m.git.Line - 1, n: len(h.old)})
	}
	return spots, nil
}

// once returns f, called once at the most.
func once(f func() string) func() string {
	var known string
	return func() string {
		if known == "" {
			known = f()
		}
		return known
	}
}

func reversed(hunks []hunk) []hunk {
	back := make([]hunk, len(hunks))
	for i := range hunks {
		back[i] = hunks[i].reverse()
	}
	return back
}

// madeAsStated reports whether what every hunk makes stands at its line, with
// its context or as the whole file, by the rules for the ends of a file.
func madeAsStated(t *text, hunks []hunk) bool {
	next, grown := 0, 0 // lines that the hunks so far add, by their headers
	for i := range hunks {
		h := &hunks[i]
		at, n := h.newStart(), h.newLines
		switch {
		case !h.consistent(grown) || at < next || !t.stands(h.newText, n, at):
			return false
		case h.lead == 0 && h.trail == 0 && n != t.count():
			return false
		case h.newLine <= 1 && at != 0 || h.trail == 0 && at+n != t.count():
			return false
		}
		grown += n - len(h.old)
		next = at + n
	}
	return true
}

// landedSpots are the spots of postimages: those found, or without any those
// that their headers state.
func landedSpots(back []hunk, found []spot) []spot {
	out := make([]spot, len(back))
	for i := range back {
		out[i] = spot{want: back[i].start(), at: back[i].start(), n: len(back[i].old), landed: true}
		if found != nil {
			out[i].at = found[i].at
		}
	}
	return out
}

// placeMixed places the hunks one by one, by their preimage or else by their
// postimage. It reports false where one has neither, or where both stand.
func placeMixed(t *text, hunks, back []hunk, c *change, blob func() string) ([]spot, bool) {
	p := placer{t: t, lone: len(hunks) == 1, oldID: c.oldID, blob: blob, trusted: true}
	spots := make([]spot, 0, len(hunks))
	grown, landed := 0, 0 // lines that the hunks so far add, by their headers; those of landed ones
	for i := range hunks {
		h := &hunks[i]
		consistent := h.consistent(grown)
		p.shift = landed
		s := spot{want: h.start(), n: len(h.old)}
		at, m := p.place(h, consistent)
		if m != nil {
			// What has no context would be found by its line number alone.
			if m.kind != NoPlace || h.lead == 0 && h.trail == 0 {
				return nil, false
			}
			h = &back[i]
			p.shift = landed - grown
			s = spot{want: h.start(), n: len(h.old), landed: true}
			if at, m = p.place(h, consistent); m != nil {
				return nil, false
			}
			landed += len(h.old) - h.newLines
		} else if slices.ContainsFunc(t.find(&back[i]), func(at int) bool { return at >= p.next() }) {
			return nil, false // what it makes stands there, too
		}
		s.at = at
		p.trusted = p.trusted && at == h.start()+p.shift
		p.done = append(p.done, s)
		spots = append(spots, s)
		grown += hunks[i].newLines - len(hunks[i].old)
	}
	return spots, true
}

// landedFile reports, with a placement, that the tree holds what a change does
// to a file as such. A rename that is done leaves its edits, as of the new path.
func (t *txn) landedFile(c *change) (bool, error) {
	if t.strict {
		return false, nil
	}
	gone := func(path string) bool {
		_, there := t.s.stat(path)
		return !there && t.written[path] == nil && t.from[path] == nil && t.s.blockedBy(path) == ""
	}
	switch c.kind {
	case remove:
		if _, mode, blocked := t.s.blocker(c.old); !gone(c.old) || blocked && mode&modeType != modeFile {
			return false, nil
		}
		moves, err := t.moves(c)
		if err != nil {
			return false, err
		}
		if len(moves) > 0 {
			t.conflict(c, MissingFile, "deletes a file that is not there; %s", movesText(moves)).Moves = moves
		} else {
			t.placed(c, Landed)
		}
		return true, nil
	case rename:
		mode, there := t.s.stat(c.new)
		if !there || !gone(c.old) || t.leaving[c.new] || t.written[c.new] != nil || mode == source.Submodule {
			return false, nil
		}
		if c.oldMode != 0 && c.oldMode&modeType != mode&modeType {
			return false, nil
		}
		t.placed(c, Landed)
		c.kind, c.old = modify, c.new
		return len(c.hunks) == 0 && c.binary == nil && (c.newMode == 0 || c.newMode == mode), nil
	case modify:
		if c.old != c.new || len(c.hunks) > 0 || c.binary == nil && c.newMode == 0 || t.written[c.old] != nil ||
			t.removed[c.old] {
			return false, nil
		}
		f, err := t.s.read(c.old)
		if err != nil || f == nil {
			return false, err
		}
		if c.newMode != 0 && c.newMode != f.Mode || c.binary != nil && blobID(f.Data) != c.newID {
			return false, nil
		}
		t.placed(c, Landed)
		return true, nil
	}
	return false, nil
}

// made reports, with a placement, that the file which a change creates is there
// with just that content and mode.
func (t *txn) made(c *change, src *source.File, mode source.Mode) (bool, error) {
	if t.strict || c.kind == rename || t.leaving[c.new] || t.written[c.new] != nil {
		return false, nil
	}
	there, err := t.s.read(c.new)
	if err != nil || there == nil || there.Mode != mode {
		return false, err
	}
	// What does not fit the source of a copy is told by the real attempt.
	trial := &txn{s: t.s, p: t.p}
	data, ok := trial.content(c, src)
	if !ok || !bytes.Equal(data, there.Data) {
		return false, nil
	}
	t.placed(c, Landed)
	if c.kind == copied {
		for i := range c.hunks {
			t.placements = append(t.placements, Placement{
				Fix: t.p.Fix, Patch: t.p.Name, Path: c.new, Hunk: i + 1, Kind: Landed,
				PatchLine: c.hunks[i].line,
			})
		}
	}
	return true, nil
}

// noteLanded says of a patch that fits how much of it the tree holds.
func (t *txn) noteLanded() {
	held := t.held()
	name, file := Printable(orElse(t.p.Fix, t.p.Name)), Printable(t.p.Name)
	switch {
	case held == 0:
	case len(t.written) == 0 && len(t.removed) == 0 || t.unchanged():
		t.notes = append(t.notes, fmt.Sprintf("%s: landed: the tree has all of %s already", name, file))
	default:
		t.notes = append(t.notes, fmt.Sprintf("%s: partly landed: the tree has %d of the %d changes of %s already", name,
			held, t.p.count(), file))
	}
}

// held counts the hunks and changes of whole files that the tree holds.
func (t *txn) held() int {
	n := 0
	for _, p := range t.placements {
		n += count(p.Kind == Landed)
	}
	// A change of mode beside hunks is told, and not counted.
	return min(n, t.p.count())
}

// unchanged reports whether every placement is of something that landed.
func (t *txn) unchanged() bool {
	return !slices.ContainsFunc(t.placements, func(p Placement) bool { return p.Kind != Landed })
}
