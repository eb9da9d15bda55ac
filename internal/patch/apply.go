package patch

import (
	"errors"

	"github.com/llpatch/llpatch/internal/source"
)

// Kind says how a change found its place.
type Kind string

// The kinds of a placement. Hunks are exact or offset; the others are about a
// whole file, and come once for it.
const (
	Exact   Kind = "exact"
	Offset  Kind = "offset"
	Created Kind = "created"
	Deleted Kind = "deleted"
	Renamed Kind = "renamed"
	Copied  Kind = "copied"
	Moded   Kind = "mode"
	Binary  Kind = "binary"
)

// Placement is where one hunk, or one change of a whole file, was applied.
type Placement struct {
	Fix   string `json:"fix"`
	Patch string `json:"patch"`
	Path  string `json:"path"`
	Hunk  int    `json:"hunk,omitempty"` // 1-based within the file's part of the patch; 0: the whole file
	// Want is the line that the hunk's header states, Got the one where its
	// preimage stands, both 1-based lines of the file as it was before this patch.
	Want   int  `json:"want,omitempty"`
	Got    int  `json:"got,omitempty"`
	Offset int  `json:"offset,omitempty"` // Got - Want
	Kind   Kind `json:"kind"`
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
	Notes      []string // what is odd but did no harm
}

// Apply applies the series, in order, to a tree that carries none of it, and
// returns the patched tree. Nothing is applied unless everything fits: the error
// then joins a *Conflict for each hunk and file that does not, of all patches,
// so that one broken patch does not hide another. A patch that does not fit is
// left out while the later ones are judged; a later conflict in a file that it
// changes says so. Errors of reading the tree come as they are.
func Apply(base *source.Tree, series []Patch) (*Result, error) {
	s := &state{base: base, changes: map[string]*source.File{}, ids: map[string]string{}}
	var res Result
	var conflicts []error
	for i := range series {
		t := s.begin(&series[i])
		for k := range series[i].changes {
			if err := t.apply(&series[i].changes[k]); err != nil {
				return nil, err
			}
		}
		if len(t.conflicts) == 0 {
			t.commit()
		}
		if len(t.conflicts) > 0 {
			s.failed = append(s.failed, failed{name: series[i].Fix + "/" + series[i].Name, paths: series[i].Paths()})
			for _, c := range t.conflicts {
				conflicts = append(conflicts, c)
			}
			continue
		}
		res.Placements = append(res.Placements, t.placements...)
		res.Touched = append(res.Touched, t.touched...)
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
