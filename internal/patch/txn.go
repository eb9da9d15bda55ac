package patch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/source"
)

// txn is one patch being applied. As in git, renames and copies start from the
// tree before the patch, edits from what the patch has made of the file so far,
// and everything that is removed goes before anything is added, so that two
// files can change places.
type txn struct {
	s          *state
	p          *Patch
	leaving    map[string]bool // paths that the patch deletes or renames away
	written    map[string]*source.File
	removed    map[string]bool
	from       map[string]*change // the change that wrote or removed a path
	placements []Placement
	touched    []Touched
	conflicts  []*Conflict
	notes      []string
	strict     bool // nothing may have landed
}

func (s *state) begin(p *Patch) *txn {
	t := &txn{
		s: s, p: p, leaving: map[string]bool{}, written: map[string]*source.File{},
		removed: map[string]bool{}, from: map[string]*change{},
	}
	for i := range p.changes {
		if c := &p.changes[i]; c.kind == remove || c.kind == rename {
			t.leaving[c.old] = true
		}
	}
	return t
}

// conflict records why a change does not fit.
func (t *txn) conflict(c *change, kind Cause, format string, args ...any) *Conflict {
	file := c.target()
	if kind == MissingFile {
		file = c.old
	}
	out := &Conflict{
		Fix: t.p.Fix, Patch: t.p.Name, File: file, PatchLine: c.line, Kind: kind,
		Detail: fmt.Sprintf(format, args...), After: t.s.blockedBy(c.old, c.new),
	}
	t.conflicts = append(t.conflicts, out)
	return out
}

func (t *txn) placed(c *change, kind Kind) {
	t.placements = append(t.placements, Placement{
		Fix: t.p.Fix, Patch: t.p.Name, Path: c.target(), Kind: kind,
		PatchLine: c.line,
	})
}

// apply works out one change. The error is one of reading the tree.
func (t *txn) apply(shared *change) error {
	// A patch is applied to many trees; what this one makes of it stays here.
	own := *shared
	c := &own
	if landed, err := t.landedFile(c); err != nil || landed {
		return err
	}
	src, err := t.preimage(c)
	if err != nil || src == nil {
		return err
	}
	mode := src.Mode
	if c.newMode != 0 {
		mode = c.newMode
	}
	if c.kind == create || c.kind == rename || c.kind == copied {
		if landed, err := t.made(c, src, mode); err != nil || landed {
			return err
		}
		if t.taken(c) {
			return nil
		}
	}
	data, ok := t.content(c, src)
	if !ok {
		return nil
	}
	if c.kind == modify && mode == src.Mode && bytes.Equal(data, src.Data) {
		return nil // all of it has landed
	}
	if mode == source.Symlink && c.kind != remove {
		if err := checkLink(c.new, string(data)); err != nil {
			_ = t.conflict(c, Unsafe, "%v", err)
			return nil
		}
	}
	if len(data) > maxResult || t.s.written+int64(len(data)) > maxSeries {
		_ = t.conflict(c, TooLarge, "it makes more than %d MiB of one file or %d MiB in all", maxResult>>20, maxSeries>>20)
		return nil
	}
	if c.kind == remove {
		if len(data) > 0 {
			_ = t.conflict(c, NotEmpty, "")
			return nil
		}
		delete(t.written, c.old)
	}
	if c.kind == remove || c.kind == rename {
		t.removed[c.old] = true
		t.from[c.old] = c
	}
	if c.kind == remove {
		return nil
	}
	// Copies count in full: a tree that holds them a thousand times is a bomb too.
	t.s.written += int64(len(data))
	t.written[c.new] = &source.File{Mode: mode, Data: data}
	t.from[c.new] = c
	return nil
}

// preimage returns the file that a change starts from, or nil after recording
// why there is none.
func (t *txn) preimage(c *change) (*source.File, error) {
	if c.kind == create {
		mode := source.Regular
		if c.newMode != 0 {
			mode = c.newMode
		}
		return &source.File{Mode: mode}, nil
	}
	// A rename or a copy is of the file as it was before the patch, wherever it stands.
	if c.kind == modify || c.kind == remove {
		by := t.from[c.old]
		f := t.written[c.old]
		if t.removed[c.old] && (f == nil || by.kind == rename && by.old == c.old) {
			_ = t.conflict(c, MissingFile, "changes a file that it removed before")
			return nil, nil
		}
		if f != nil {
			return t.checkType(c, f), nil
		}
	}
	if mode, ok := t.s.stat(c.old); ok && mode == source.Submodule {
		_ = t.conflict(c, Unsafe, "%s is a submodule", c.old)
		return nil, nil
	}
	f, err := t.s.read(c.old)
	if err != nil {
		return nil, err
	}
	if f != nil {
		return t.checkType(c, f), nil
	}
	if c.maybeNew {
		c.kind, c.old, c.maybeNew = create, "", false
		return &source.File{Mode: source.Regular}, nil
	}
	if folder, mode, ok := t.s.blocker(c.old); ok {
		_ = t.conflict(c, Unsafe, "%s leads through %s, which is %s", c.old, folder, describe(mode))
		return nil, nil
	}
	moves, err := t.moves(c)
	if err != nil {
		return nil, err
	}
	out := t.conflict(c, MissingFile, "")
	if len(moves) > 0 {
		out.Moves, out.Detail = moves, "changes a file that is not there; "+movesText(moves)
	}
	return nil, nil
}

// checkType refuses to edit a link as if it were a file: a patch that means a
// link says so by its mode.
func (t *txn) checkType(c *change, f *source.File) *source.File {
	if len(c.hunks) == 0 && c.binary == nil && c.oldMode == 0 {
		return f // renamed or copied as it is, whatever it is
	}
	stated := c.oldMode
	if stated == 0 {
		stated = source.Regular
	}
	if stated&modeType != f.Mode&modeType {
		_ = t.conflict(c, WrongType, "%s is %s, and the patch is for %s", c.old, describe(f.Mode), describe(stated))
		return nil
	}
	if c.oldMode != 0 && c.oldMode != f.Mode {
		t.notes = append(t.notes, Printable(fmt.Sprintf("%s/%s: %s has mode %s, the patch was made for %s", t.p.Fix,
			t.p.Name, c.old, f.Mode, c.oldMode)))
	}
	return f
}

func describe(m source.Mode) string {
	switch m & modeType {
	case source.Symlink:
		return "a symbolic link"
	case source.Submodule:
		return "a submodule"
	}
	return "a file"
}

// taken reports, with a conflict, that a path which the patch creates is there
// already and does not go away in the same patch.
func (t *txn) taken(c *change) bool {
	if t.written[c.new] != nil {
		_ = t.conflict(c, Exists, "creates %s twice", c.new)
		return true
	}
	if _, ok := t.s.stat(c.new); ok && !t.leaving[c.new] {
		_ = t.conflict(c, Exists, "")
		return true
	}
	return false
}

// content returns what the change makes of the file.
func (t *txn) content(c *change, src *source.File) ([]byte, bool) {
	hunks := c.hunks
	if t.p.crlf && !bytes.Contains(src.Data, []byte("\r\n")) {
		hunks = c.lf
	}
	data := src.Data
	switch {
	case c.binary != nil:
		out, err := c.binary.apply(src.Data)
		if err != nil {
			_ = t.conflict(c, WrongBlob, "%v", err)
			return nil, false
		}
		data = out
		if c.kind == modify {
			t.placed(c, Binary)
		}
	case c.kind == remove && len(hunks) > 0:
		h := &hunks[0]
		rest, ok := bytes.CutPrefix(src.Data, []byte(h.oldText))
		if !ok || len(rest) > 0 && !strings.HasSuffix(h.oldText, "\n") {
			txt := t.s.text(src.Data)
			t.misfit(c, txt, h, h.misfit(txt, 0, "the file is not what the patch deletes"))
			return nil, false
		}
		data = rest
	case len(hunks) > 0:
		txt := t.s.text(src.Data)
		spots, bad := t.place(c, txt, hunks)
		for i := range bad {
			t.misfit(c, txt, &hunks[bad[i].hunk], &bad[i])
		}
		if len(bad) > 0 {
			return nil, false
		}
		data = splice(txt, hunks, spots)
		if c.kind != create && c.kind != remove {
			t.hunks(c, spots)
		}
	}
	switch c.kind {
	case create:
		t.placed(c, Created)
	case remove:
		t.placed(c, Deleted)
	case rename:
		t.placed(c, Renamed)
	case copied:
		t.placed(c, Copied)
	}
	if c.newMode != 0 && c.kind != create && c.newMode != src.Mode {
		t.placed(c, Moded)
	}
	return data, true
}

func (t *txn) hunks(c *change, spots []spot) {
	for i, s := range spots {
		kind := Exact
		switch {
		case s.landed:
			kind = Landed
		case s.at != s.want:
			kind = Offset
		}
		t.placements = append(t.placements, Placement{
			Fix: t.p.Fix, Patch: t.p.Name, Path: c.new, Hunk: i + 1,
			Want: s.want + 1, Got: s.at + 1, Offset: s.at - s.want, Kind: kind, PatchLine: c.hunks[i].line,
		})
	}
}

func (t *txn) misfit(c *change, txt *text, h *hunk, m *misfit) {
	// Lines around those that belong there, for what upstream put in between.
	const around = 3
	out := t.conflict(c, m.kind, "%s", m.why)
	out.File = orElse(c.old, c.new)
	out.Hunk, out.PatchLine, out.Line = m.hunk+1, h.line, m.line+1
	out.Want = slices.Clone(h.old)
	if m.kind == NoPlace && len(m.places) == 0 && !t.s.quiet {
		from := max(0, m.line-around)
		got := txt.lines(from, min(len(h.old), maxCompare)+2*around)
		first, last := window(h.old, got, min(m.line-from, len(got)))
		out.Got = got[first:last]
		out.Line = min(from+first+1, max(txt.count(), 1))
	}
	out.Proposal = m.git
	for _, at := range m.places {
		out.Places = append(out.Places, at+1)
	}
}
