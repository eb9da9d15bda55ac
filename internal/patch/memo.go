package patch

import (
	"github.com/llpatch/llpatch/internal/source"
)

// Memo keeps what merges of one patch on many trees have in common. It is for one
// goroutine, and for a caller that only wants to know what a merge comes to: with
// one, files have no Diff, there is nothing to keep as a resolution, and git is
// not asked about a patch of which another file has a conflict.
type Memo struct {
	lines   lineTable
	size    int // bytes of the texts, roughly
	texts   map[string]*numbered
	edits   map[[2]string][]lineEdit
	checked map[[3]string]bool
	starts  map[startKey]*start
}

// maxMemo bounds the texts that a Memo keeps, and maxNumbers their different lines.
const (
	maxMemo    = 96 << 20
	maxNumbers = 1 << 19
)

// NewMemo returns an empty Memo.
func NewMemo() *Memo {
	m := &Memo{checked: map[[3]string]bool{}}
	m.forget()
	return m
}

// forget lets go of everything that takes room.
func (m *Memo) forget() {
	m.lines, m.size = lineTable{ids: map[string]int32{}}, 0
	m.texts, m.edits, m.starts = map[string]*numbered{}, map[[2]string][]lineEdit{}, map[startKey]*start{}
}

// number returns a file cut into lines.
func (m *Memo) number(id string, data []byte) *numbered {
	f := m.texts[id]
	if f == nil {
		f = m.lines.number(data)
		m.texts[id] = f
		m.size += 2*len(data) + 12*f.count()
	}
	return f
}

// diff returns the edits from one file to another.
func (m *Memo) diff(fromID, toID string, from, to *numbered) []lineEdit {
	key := [2]string{fromID, toID}
	es, ok := m.edits[key]
	if !ok {
		es = diffLines(from.id, to.id)
		m.edits[key] = es
		m.size += 32 * len(es)
	}
	return es
}

// merge is newMerge for files with those blob ids.
func (m *Memo) merge(f *FileMerge, base, ours, theirs []byte) *merge3 {
	if m == nil {
		return newMerge(base, ours, theirs)
	}
	if m.size > maxMemo || len(m.lines.ids) > maxNumbers {
		m.forget()
	}
	b, o, t := m.number(f.Base, base), m.number(f.Ours, ours), m.number(f.Theirs, theirs)
	return mergeScripts(b, o, t, m.diff(f.Base, f.Ours, b, o), m.diff(f.Base, f.Theirs, b, t))
}

// startKey is a patch, by where it stands in which file, and the tree that it is
// replayed on.
type startKey struct {
	tree, file string
	line       int
}

// start is where a patch starts from, and what it makes of that; both are nil
// where it does not fit.
type start struct {
	tree    *source.Tree
	patched *Result
}

// start is replay.
func (m *Memo) start(bare *source.Tree, earlier []Patch, p *Patch) (*start, error) {
	if m == nil || len(p.changes) == 0 {
		return replay(bare, earlier, p)
	}
	key := startKey{bare.ID(), p.SHA256, p.changes[0].line}
	if s := m.starts[key]; s != nil {
		return s, nil
	}
	s, err := replay(bare, earlier, p)
	if err != nil {
		return nil, err
	}
	m.starts[key] = s
	for _, e := range bare.Files() {
		if f, err := bare.Read(e.Path); err == nil {
			m.size += len(f.Data)
		}
	}
	return s, nil
}
