package patch

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/source"
)

// Judgement is what a patch file does to the files that it touches.
type Judgement struct {
	Placements []Placement
	Conflicts  []*Conflict // none: it fits

	// Files holds what the patch made of each file that it changed; nil: deleted.
	// It is nil where there are conflicts, unless all of them have a Proposal and the
	// patch fits with those: then it holds what that makes.
	Files map[string]*source.File

	// Changes counts the hunks and the changes of whole files, Held those that the
	// files hold already, and Rest the others that have a place.
	Changes, Held, Rest int
	// HeldAt has the lines of the patch file at which a held hunk or change begins.
	HeldAt map[int]bool
}

// Judge applies the patches of one file to the given files and to no others,
// without hashing or copying what they hold. files has an entry for each of the
// patches' Paths that the tree has, and for what stands in the way of one that
// it lacks: a file where a folder is needed, a name that differs in case only.
// Neither files nor its contents are changed. What the patch deletes and is not there
// has landed here, and a missing file has no Moves: both are seen in a whole tree only.
func Judge(unit []Patch, files map[string]*source.File) (*Judgement, error) {
	return JudgeUnder(unit, nil, files)
}

// JudgeUnder is Judge for a patch file over which later ones of a series may lie:
// where the files hold it together with some of those, it has landed, although
// what it makes stands there no more. Nothing is done of the later ones.
func JudgeUnder(unit, later []Patch, files map[string]*source.File) (*Judgement, error) {
	s := &state{
		base: new(source.Tree), changes: maps.Clone(files), ids: map[string]string{}, texts: map[*byte]*text{},
		partial: true,
	}
	if s.changes == nil {
		s.changes = map[string]*source.File{}
	}
	j := &Judgement{Files: map[string]*source.File{}, HeldAt: map[int]bool{}}
	series := slices.Concat(unit, later)
	txns, err := s.apply(series, len(unit), func(t *txn) { t.settle(j.Files) })
	if err != nil {
		return nil, err
	}
	rest := 0
	for i, t := range txns {
		p := &unit[i]
		j.Changes += p.count()
		if len(t.conflicts) > 0 {
			j.Conflicts = append(j.Conflicts, t.conflicts...)
			rest += s.holds(p, j.HeldAt)
			continue
		}
		j.Held += t.held()
		for n := range t.placements {
			if t.placements[n].Kind == Landed {
				j.HeldAt[t.placements[n].PatchLine] = true
			}
		}
		rest += p.count()
		j.Placements = append(j.Placements, t.placements...)
	}
	if len(j.Conflicts) > 0 {
		j.Files, j.Placements = nil, nil
		if !slices.ContainsFunc(j.Conflicts, func(c *Conflict) bool { return c.Proposal == nil }) {
			if j.Files, err = guess(unit, files); err != nil {
				return nil, err
			}
		}
		j.Held, j.Rest = min(len(j.HeldAt), j.Changes), rest
	} else {
		j.Rest = j.Changes - j.Held
	}
	return j, nil
}

// guess applies the patches with what is proposed for ambiguous hunks, and returns
// the files that they change; nil if something else does not fit then.
func guess(unit []Patch, files map[string]*source.File) (map[string]*source.File, error) {
	s := &state{base: new(source.Tree), changes: maps.Clone(files), ids: map[string]string{}, guess: true, partial: true}
	out := map[string]*source.File{}
	txns, err := s.apply(unit, len(unit), func(t *txn) { t.settle(out) })
	if err != nil || slices.ContainsFunc(txns, func(t *txn) bool { return len(t.conflicts) > 0 }) {
		return nil, err
	}
	return out, nil
}

// Preimage returns the lines that the hunk at a line of the patch file wants to
// find, and those that it leaves; nil where no hunk begins at that line.
func Preimage(unit []Patch, patchLine int) (before, after []string) {
	for i := range unit {
		for k := range unit[i].changes {
			for n := range unit[i].changes[k].hunks {
				if h := &unit[i].changes[k].hunks[n]; h.line == patchLine {
					return slices.Clone(h.old), slices.Collect(strings.Lines(h.newText))
				}
			}
		}
	}
	return nil, nil
}

// At returns the file and the number of the hunk (1-based; 0: the whole file)
// that begin at a line of the patch file; "" where none does.
func At(unit []Patch, patchLine int) (path string, hunk int) {
	for i := range unit {
		for k := range unit[i].changes {
			c := &unit[i].changes[k]
			if c.line == patchLine {
				return c.target(), 0
			}
			for n := range c.hunks {
				if c.hunks[n].line == patchLine {
					return c.target(), n + 1
				}
			}
		}
	}
	return "", 0
}

// Creates returns the paths that the patch makes, sorted: whether it fits
// depends on what stands beside and above them, too.
func (p *Patch) Creates() []string {
	var out []string
	for i := range p.changes {
		switch c := &p.changes[i]; {
		case c.kind == create || c.kind == rename || c.kind == copied:
			out = append(out, c.new)
		case c.maybeNew:
			out = append(out, c.old)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Removes returns the files that the patch deletes, by the line of the patch file
// at which that begins.
func (p *Patch) Removes() map[int]string {
	out := map[int]string{}
	for i := range p.changes {
		if c := &p.changes[i]; c.kind == remove {
			out[c.line] = c.old
		}
	}
	return out
}

// text returns the content cut into lines. Where texts are kept, the same content
// is cut, and its lines indexed, once.
func (s *state) text(data []byte) *text {
	var t *text
	if s.texts != nil && len(data) > 0 {
		t = s.texts[&data[0]]
	}
	if t == nil || len(t.data) != len(data) {
		t = newText(data)
		if s.texts != nil && len(data) > 0 {
			s.texts[&data[0]] = t
		}
	}
	t.quiet = s.quiet
	return t
}

// settle is commit for a state that holds every file in memory: it needs no
// blob ids. What changed also goes into files.
func (t *txn) settle(files map[string]*source.File) {
	there := func(p string) bool { _, ok := t.s.stat(p); return ok }
	var fresh, gone []string
	for _, p := range slices.Sorted(maps.Keys(t.written)) {
		if !there(p) || t.removed[p] {
			fresh = append(fresh, p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(t.removed)) {
		if there(p) {
			gone = append(gone, p)
		}
	}
	if len(fresh) > 0 {
		t.s.names = nil // made anew: patches before this one may have changed it
		if t.checkNames(fresh, gone); len(t.conflicts) > 0 {
			return
		}
	}
	for _, p := range gone {
		delete(t.s.changes, p)
		files[p] = nil
	}
	maps.Copy(t.s.changes, t.written)
	maps.Copy(files, t.written)
}

// count returns the number of hunks and of changes of whole files.
func (p *Patch) count() int {
	n := 0
	for i := range p.changes {
		n += p.changes[i].count()
	}
	return n
}

func (c *change) count() int {
	if c.kind == modify && len(c.hunks) > 0 {
		return len(c.hunks)
	}
	if c.kind == rename || c.kind == copied {
		return 1 + len(c.hunks)
	}
	return 1
}

// holds counts what of the patch still has a place in the state, and notes
// where in the patch file that begins which the state holds already.
func (s *state) holds(p *Patch, heldAt map[int]bool) (rest int) {
	for i := range p.changes {
		c := &p.changes[i]
		whole, r := s.holdsFile(p, c, heldAt)
		if whole {
			heldAt[c.line] = true
		}
		rest += r
	}
	return rest
}

// holdsFile is holds for one file. whole tells of what is done to the file as
// such; hunks that are held go into heldAt.
func (s *state) holdsFile(p *Patch, c *change, heldAt map[int]bool) (whole bool, rest int) {
	from, to := s.changes[c.old], s.changes[c.new]
	hunks := func(f *source.File) []hunk {
		if p.crlf && !bytes.Contains(f.Data, []byte("\r\n")) {
			return c.lf
		}
		return c.hunks
	}
	switch c.kind {
	case create:
		if to == nil {
			return false, 1
		}
		return c.binary != nil && blobID(to.Data) == c.newID || c.binary == nil && string(to.Data) == afterText(hunks(to)), 0
	case remove:
		if from == nil {
			_, mode, blocked := s.blocker(c.old)
			return !blocked || mode&modeType == modeFile, 0
		}
		return false, count(c.binary != nil && blobID(from.Data) == c.oldID || c.binary == nil &&
			string(from.Data) == beforeText(hunks(from)))
	case rename, copied:
		switch {
		case to != nil && (from == nil || c.kind == copied):
			s.holdsHunks(c, to, hunks(to), heldAt)
			return true, 0
		case from != nil && to == nil:
			return false, 1 + s.holdsHunks(c, from, hunks(from), map[int]bool{})
		}
		return false, 0
	}
	switch {
	case from == nil:
		return false, 0
	case c.binary != nil:
		return blobID(from.Data) == c.newID, count(blobID(from.Data) == c.oldID)
	case len(c.hunks) == 0:
		return from.Mode == c.newMode, count(from.Mode != c.newMode)
	}
	return false, s.holdsHunks(c, from, hunks(from), heldAt)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func beforeText(hunks []hunk) (s string) {
	for i := range hunks {
		s += hunks[i].oldText
	}
	return s
}

func afterText(hunks []hunk) (s string) {
	for i := range hunks {
		s += hunks[i].newText
	}
	return s
}

// holdsHunks notes the hunks whose postimage stands in the file where their
// preimage does not, and counts those whose preimage does.
func (s *state) holdsHunks(c *change, f *source.File, hunks []hunk, heldAt map[int]bool) (rest int) {
	txt := s.text(f.Data)
	txt.quiet = true
	defer func() { txt.quiet = false }()
	blob := func() string { return blobID(f.Data) }
	_, bad := place(txt, hunks, c.oldID, blob)
	misplaced := make([]bool, len(hunks))
	for i := range bad {
		misplaced[bad[i].hunk] = true
	}
	known := len(hunks)
	if len(bad) == maxMisfits {
		known = bad[len(bad)-1].hunk + 1
	}
	for i := range hunks[:known] {
		if !misplaced[i] {
			rest++
			continue
		}
		back := hunks[i].reverse()
		if _, none := place(txt, []hunk{back}, c.newID, blob); len(none) == 0 {
			heldAt[hunks[i].line] = true
		}
	}
	return rest
}

// reverse returns the hunk that takes h back.
func (h *hunk) reverse() hunk {
	r := *h
	r.oldLine, r.newLine = h.newLine, h.oldLine
	r.newLines = len(h.old)
	r.oldText, r.newText = h.newText, h.oldText
	r.old = slices.Collect(strings.Lines(h.newText))
	r.hash = make([]uint64, len(r.old))
	for i, l := range r.old {
		r.hash[i] = hashString(l)
	}
	return r
}
