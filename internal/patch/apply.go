package patch

import (
	"errors"
	"slices"

	"github.com/llpatch/llpatch/internal/source"
)

// Kind says how a change found its place.
type Kind string

// The kinds of a placement. Hunks are exact or offset, or landed: the tree holds
// what they make, and they are left out. The others are about a whole file, and
// come once for it; that may have landed, too.
const (
	Exact   Kind = "exact"
	Offset  Kind = "offset"
	Created Kind = "created"
	Deleted Kind = "deleted"
	Renamed Kind = "renamed"
	Copied  Kind = "copied"
	Moded   Kind = "mode"
	Binary  Kind = "binary"
	Landed  Kind = "landed"
)

// Placement is where one hunk, or one change of a whole file, was applied.
type Placement struct {
	Fix   string `json:"fix"`
	Patch string `json:"patch"`
	Path  string `json:"path"`
	Hunk  int    `json:"hunk,omitempty"` // 1-based within the file's part of the patch; 0: the whole file
	// Want is the line that the hunk's header states, Got the one where its
	// preimage stands, both 1-based lines of the file as it was before this patch.
	// Of a landed hunk both are about the new side and its postimage.
	Want   int  `json:"want,omitempty"`
	Got    int  `json:"got,omitempty"`
	Offset int  `json:"offset,omitempty"` // Got - Want
	Kind   Kind `json:"kind"`
	// PatchLine is the line of the patch file at which the hunk begins, or what is
	// about the whole file.
	PatchLine int `json:"patch_line"`
}

// Touched is a file before and after one patch, by git blob id. An id is empty
// where there is no file.
type Touched struct {
	Fix    string `json:"fix"`
	Patch  string `json:"patch"`
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Result is a patched tree and how it came about.
type Result struct {
	Tree       *source.Tree
	Placements []Placement // in the order of the series
	Touched    []Touched
	Steps      []Step
	Notes      []string // what is odd but did no harm
}

// Step is what one patch of a series made of the tree before it.
type Step struct {
	Fix    string
	Header Header
	Files  map[string]*source.File // by path; nil: deleted. Empty: all of it had landed
}

// Held counts the changes of a fix, and those of them that the tree held already.
func (r *Result) Held(fix string) (held, all int) {
	for _, p := range r.Placements {
		if p.Fix != fix {
			continue
		}
		all++
		if p.Kind == Landed {
			held++
		}
	}
	return held, all
}

// Changed maps each path that the series changed to the fixes that did so, in order.
func (r *Result) Changed() map[string][]string {
	m := map[string][]string{}
	for _, p := range r.Placements {
		if p.Kind == Landed {
			continue // upstream wrote that
		}
		if fixes := m[p.Path]; len(fixes) == 0 || fixes[len(fixes)-1] != p.Fix {
			m[p.Path] = append(fixes, p.Fix)
		}
	}
	return m
}

// Apply applies the series, in order, to a tree and returns the patched tree.
// What the tree holds of it already is left out and noted as landed, so that a
// series applied to its own result changes nothing. Nothing is applied unless
// everything fits: the error then joins a *Conflict for each hunk and file that
// does not, of all patches, so that one broken patch does not hide another. A
// patch that does not fit is left out while the later ones are judged; a later
// conflict in a file that it changes says so. Errors of reading the tree come as
// they are.
func Apply(base *source.Tree, series []Patch) (*Result, error) {
	return newState(base).result(series)
}

// Settle rewrites a patch of which hunks are ambiguous on a tree: they go where git
// apply puts them, and get so much context that their lines stand nowhere else in
// the file. It returns the new patch file, whose message is that of original, the
// bytes that p was read from; and the conflicts that are settled by it, each with
// its Proposal, for the caller to show, or to refuse where one is not sound. A
// patch that fits as it is comes back as it was. The error is Apply's where
// something else does not fit or git would not apply it either, and Merge.Variant's.
func Settle(tree *source.Tree, p *Patch, original []byte) ([]byte, []*Conflict, error) {
	series := []Patch{*p}
	_, misfit := Apply(tree, series)
	if misfit == nil {
		return original, nil, nil
	}
	settled, err := conflictsOf(misfit)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(settled, func(c *Conflict) bool { return c.Proposal == nil }) {
		return nil, nil, misfit
	}
	s := newState(tree)
	s.guess = true
	res, err := s.result(series)
	if err != nil {
		return nil, nil, err
	}
	m := Merge{Fix: p.Fix, Patch: p.Name, SHA256: p.SHA256, Result: res, target: tree, changes: p.changes, unique: true}
	out, err := m.Variant(original)
	return out, settled, err
}

// result applies the series and returns what Apply does.
func (s *state) result(series []Patch) (*Result, error) {
	base := s.base
	txns, err := s.apply(series, len(series), (*txn).commit)
	if err != nil {
		return nil, err
	}
	var res Result
	var conflicts []error
	for _, t := range txns {
		for _, c := range t.conflicts {
			conflicts = append(conflicts, c)
		}
		res.Placements = append(res.Placements, t.placements...)
		res.Touched = append(res.Touched, t.touched...)
		res.Steps = append(res.Steps, t.step())
		res.Notes = append(res.Notes, t.notes...)
	}
	if len(conflicts) > 0 {
		return nil, errors.Join(conflicts...)
	}
	tree, err := base.With(s.changes)
	if err != nil {
		return nil, err
	}
	res.Tree = tree
	return &res, nil
}

// step says what the patch made, once it is in the state.
func (t *txn) step() Step {
	s := Step{Fix: t.p.Fix, Header: t.p.Header, Files: map[string]*source.File{}}
	for _, f := range t.touched {
		if f.Before != f.After || t.written[f.Path] != nil {
			s.Files[f.Path] = t.written[f.Path]
		}
	}
	return s
}

// apply works the first n patches out one after the other; settle puts the files of one
// that fits into the state, unless it finds a conflict. It returns what became of
// each patch; one that does not fit has conflicts and left no files. The patches
// behind them are only looked at for what may lie over one of them.
func (s *state) apply(series []Patch, n int, settle func(*txn)) ([]*txn, error) {
	txns := make([]*txn, n)
	s.made = map[string]bool{}
	for i := range series {
		for _, p := range series[i].Creates() {
			s.made[p] = true
		}
	}
	all := false
	if len(series) > 1 {
		var err error
		if all, err = s.holdsAll(series); err != nil {
			return nil, err
		}
	}
	if all {
		for i := range txns {
			txns[i] = s.allLanded(&series[i])
		}
		return txns, nil
	}
	for i := range txns {
		if txns[i] != nil {
			continue // landed, together with an earlier one
		}
		t, err := s.try(&series[i], settle)
		if err != nil {
			return nil, err
		}
		txns[i] = t
		if len(t.conflicts) == 0 {
			continue
		}
		buried, err := s.buried(series, i)
		if err != nil {
			return nil, err
		}
		for k, t := range buried {
			if k < n {
				txns[k] = t
			}
		}
		if buried == nil {
			s.failed = append(s.failed, failed{name: series[i].Fix + "/" + series[i].Name, paths: series[i].Paths()})
		}
	}
	return txns, nil
}

// try applies one patch to the state, if it fits.
func (s *state) try(p *Patch, settle func(*txn)) (*txn, error) {
	t := s.begin(p)
	for k := range p.changes {
		if err := t.apply(&p.changes[k]); err != nil {
			return nil, err
		}
	}
	if len(t.conflicts) == 0 {
		settle(t)
	}
	if len(t.conflicts) == 0 {
		t.noteLanded()
	}
	return t, nil
}
