package patch

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/source"
)

// Move is a place to which a file may have gone between two trees.
type Move struct {
	Path    string `json:"path"`
	Percent int    `json:"percent"` // of the larger file that is the same, 100 only for the same blob
}

// What is taken for a moved file: git's own bound, and enough candidates for
// any folder of upstream's.
const (
	leastAlike    = 50
	maxCandidates = 500
)

// moves lists where the file of the base went that is no longer in the target:
// added files with the same blob, or of the same name or folder and half alike.
// The best comes first.
func moves(base, target *source.Tree, file string) ([]Move, error) {
	entry, ok := base.Stat(file)
	if !ok {
		return nil, nil
	}
	var out []Move
	var look []source.Entry
	for _, e := range target.Files() {
		if _, old := base.Stat(e.Path); old || e.Mode&modeType != entry.Mode&modeType {
			continue
		}
		switch {
		case e.Blob == entry.Blob:
			out = append(out, Move{Path: e.Path, Percent: 100})
		case path.Base(e.Path) == path.Base(file) || path.Dir(e.Path) == path.Dir(file):
			look = append(look, e)
		}
	}
	if len(out) == 0 && len(look) > 0 && len(look) <= maxCandidates {
		from, err := base.Read(file)
		if err != nil {
			return nil, err
		}
		for _, e := range look {
			to, err := target.Read(e.Path)
			if err != nil {
				return nil, err
			}
			if n := min(similarity(from.Data, to.Data), 99); n >= leastAlike {
				out = append(out, Move{Path: e.Path, Percent: n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Move) int {
		same := func(m Move) int {
			if path.Base(m.Path) == path.Base(file) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Percent, a.Percent), cmp.Compare(same(a), same(b)), strings.Compare(a.Path, b.Path))
	})
	return out, nil
}
