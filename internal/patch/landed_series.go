package patch

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

// holdsAll reports whether the state has just the blobs that the series ends
// with, by the ids of its index lines: then nothing needs to be searched for.
// One that also starts with one of them is told apart from its result by nothing.
func (s *state) holdsAll(series []Patch) (bool, error) {
	type ends struct {
		first, last string // blob ids; "-": no file
	}
	paths := map[string]ends{}
	put := func(path, before, after string) bool {
		e, ok := paths[path]
		if !ok {
			e.first = before
		}
		e.last = after
		paths[path] = e
		return before != "" && after != ""
	}
	for i := range series {
		for k := range series[i].changes {
			c := &series[i].changes[k]
			ok := true
			switch c.kind {
			case create:
				ok = put(c.new, "-", c.newID)
			case remove:
				ok = put(c.old, c.oldID, "-")
			case modify:
				ok = !c.maybeNew && put(c.old, c.oldID, c.newID)
			case rename, copied:
				ok = put(c.new, "-", c.newID) && (c.kind == copied || put(c.old, c.oldID, "-"))
			}
			if !ok {
				return false, nil
			}
		}
	}
	for path, e := range paths {
		blob := orElse(s.blob(path), "-")
		is := func(id string) bool { return id == blob || sameBlob(id, blob) }
		if !is(e.last) || is(e.first) {
			return false, nil
		}
	}
	// What is deleted may only have moved.
	for i := range series {
		for k := range series[i].changes {
			c := &series[i].changes[k]
			if c.kind != remove || paths[c.old].last != "-" {
				continue
			}
			if moves, err := s.begin(&series[i]).moves(c); err != nil || len(moves) > 0 {
				return false, err
			}
		}
	}
	return len(paths) > 0, nil
}

// allLanded is what became of a patch whose every change the tree holds.
func (s *state) allLanded(p *Patch) *txn {
	t := s.begin(p)
	for i := range p.changes {
		c := &p.changes[i]
		if c.kind != modify || len(c.hunks) == 0 {
			t.placed(c, Landed)
		}
		if c.kind == modify || c.kind == rename || c.kind == copied {
			t.hunks(c, landedSpots(reversed(c.hunks), nil))
		}
	}
	t.noteLanded()
	return t
}

// buried looks for what a patch that does not fit made, below what later ones of
// the series made of it: they are taken back, the last first, and applied again.
// If that gives the tree as it is, all of them have landed, and what became of
// each is returned by its index. Otherwise it returns nil. Patches between them
// that the tree does not have are left aside.
func (s *state) buried(series []Patch, i int) (map[int]*txn, error) {
	group := []int{i}
	paths := series[i].Paths()
	// Alone it may be only a patch that changes one file twice.
	if series[i].repeats() {
		if got, err := s.unwind(series, group); err != nil || got != nil {
			return got, err
		}
	}
	for k := i + 1; k < len(series); k++ {
		more := series[k].Paths()
		if !slices.ContainsFunc(more, func(p string) bool { return slices.Contains(paths, p) }) {
			continue
		}
		group = append(group, k)
		paths = append(paths, more...)
		// One that cannot be taken back from the tree as it is changes nothing.
		if top, err := s.top(&series[k]); err != nil {
			return nil, err
		} else if !top {
			continue
		}
		if got, err := s.unwind(series, group); err != nil || got != nil {
			return got, err
		}
	}
	return nil, nil
}

// repeats reports whether two changes of the patch are about one file.
func (p *Patch) repeats() bool {
	seen := map[string]bool{}
	for i := range p.changes {
		if seen[p.changes[i].target()] {
			return true
		}
		seen[p.changes[i].target()] = true
	}
	return false
}

// trial returns a copy of the state, to try things on of which nobody reads why
// they do not fit.
func (s *state) trial() *state {
	return &state{
		base: s.base, changes: maps.Clone(s.changes), ids: map[string]string{}, texts: s.texts,
		partial: s.partial, quiet: true,
	}
}

// step applies a patch of which nothing may have landed; nil where it does not fit.
func (s *state) step(p *Patch) (*txn, error) {
	t := s.begin(p)
	t.strict = true
	for k := range p.changes {
		if err := t.apply(&p.changes[k]); err != nil || len(t.conflicts) > 0 {
			return nil, err
		}
	}
	t.commit()
	if len(t.conflicts) > 0 {
		return nil, nil
	}
	return t, nil
}

// top reports whether a patch can be taken back from the tree as it is.
func (s *state) top(p *Patch) (bool, error) {
	back, ok := p.reverse()
	if !ok {
		return false, nil
	}
	t, err := s.trial().step(back)
	return t != nil, err
}

// unwind is buried for the patches of one group, of which the first is looked for.
func (s *state) unwind(series []Patch, group []int) (map[int]*txn, error) {
	trial := s.trial()
	out := map[int]*txn{}
	for _, k := range slices.Backward(group) {
		back, ok := series[k].reverse()
		var t *txn
		if ok {
			var err error
			if t, err = trial.step(back); err != nil {
				return nil, err
			}
		}
		if t == nil {
			if k == group[0] {
				return nil, nil
			}
			continue
		}
		for n := range t.placements {
			t.placements[n].Kind, t.placements[n].Patch = Landed, series[k].Name
		}
		t.touched = nil
		t.notes = []string{fmt.Sprintf("%s: landed: the tree has all of %s already",
			Printable(orElse(series[k].Fix, series[k].Name)), Printable(series[k].Name))}
		out[k] = t
	}
	for _, k := range group {
		if out[k] == nil {
			continue
		}
		if t, err := trial.step(&series[k]); err != nil || t == nil {
			return nil, err
		}
	}
	for k := range out {
		for _, path := range series[k].Paths() {
			was, err := s.read(path)
			if err != nil {
				return nil, err
			}
			now, err := trial.read(path)
			if err != nil {
				return nil, err
			}
			if (was == nil) != (now == nil) || was != nil && (was.Mode != now.Mode || !bytes.Equal(was.Data, now.Data)) {
				return nil, nil
			}
		}
	}
	return out, nil
}

// reverse returns the patch that takes p back; false where it has a part that
// does not say how: a binary change, a copy, a file that is maybe new.
func (p *Patch) reverse() (*Patch, bool) {
	back := *p
	back.changes = nil
	for _, c := range slices.Backward(p.changes) {
		if c.binary != nil || c.kind == copied || c.maybeNew {
			return nil, false
		}
		switch c.kind {
		case create:
			c.kind = remove
		case remove:
			c.kind = create
		}
		c.old, c.new = c.new, c.old
		c.oldMode, c.newMode = c.newMode, c.oldMode
		c.oldID, c.newID = c.newID, c.oldID
		c.hunks, c.lf = reversed(c.hunks), reversed(c.lf)
		back.changes = append(back.changes, c)
	}
	return &back, true
}
