package patch

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/source"
)

// Move is a place to which a file may have gone between two trees.
type Move struct {
	Path string `json:"path"`
	// Percent is how much of the larger file is the same, 100 only for the same blob.
	// It is 0 where only lines of the file are known, and those stand there.
	Percent int `json:"percent"`
}

// What is taken for a moved file: git's own bound, and enough candidates for
// any folder of upstream's.
const (
	leastAlike    = 50
	maxCandidates = 500
)

// lost is a file that a patch wants and a tree does not have.
type lost struct {
	path, blob string // blob may be shortened, or "" where it is not known
	mode       source.Mode
	// old tells of files that were there beside it: none of them is where it went.
	old func(path string) bool
	// alike tells of a file's content whether it is likely to be that of the lost one,
	// and how much of it is the same.
	alike func(data []byte) (percent int, ok bool)
}

// moves lists where the file of the base went that is no longer in the target:
// added files with the same blob, or of the same name or folder and half alike.
// The best comes first.
func moves(base, target *source.Tree, file string) ([]Move, error) {
	entry, ok := base.Stat(file)
	if !ok {
		return nil, nil
	}
	l := lost{path: file, blob: entry.Blob, mode: entry.Mode}
	l.old = func(p string) bool { _, ok := base.Stat(p); return ok }
	var unread error
	l.alike = func(data []byte) (int, bool) {
		from, err := base.Read(file)
		unread = err
		return halfAlike(from.Data)(data)
	}
	out, err := newState(target).moves(l)
	return out, errors.Join(err, unread)
}

// Alike reports whether a file is so much like another that it may be it, moved and
// edited: half of the larger is the same, as git wants it.
func Alike(from, to []byte) bool { return similarity(from, to) >= leastAlike }

// halfAlike is lost.alike for a file whose content is known.
func halfAlike(from []byte) func([]byte) (int, bool) {
	return func(to []byte) (int, bool) {
		n := min(similarity(from, to), 99)
		return n, n >= leastAlike
	}
}

// moves lists where a lost file may be, the best place first.
func (s *state) moves(l lost) ([]Move, error) {
	var out []Move
	var look []string
	consider := func(p string, mode source.Mode, blob func() string) {
		if l.old(p) || mode&modeType != l.mode&modeType {
			return
		}
		switch {
		case sameBlob(l.blob, blob()):
			out = append(out, Move{Path: p, Percent: 100})
		case path.Base(p) == path.Base(l.path) || path.Dir(p) == path.Dir(l.path):
			look = append(look, p)
		}
	}
	for _, e := range s.base.Files() {
		if _, changed := s.changes[e.Path]; !changed {
			consider(e.Path, e.Mode, func() string { return e.Blob })
		}
	}
	for p, f := range s.changes {
		if f != nil {
			consider(p, f.Mode, func() string { return s.blob(p) })
		}
	}
	if len(out) == 0 && len(look) <= maxCandidates {
		for _, p := range look {
			f, err := s.read(p)
			if err != nil {
				return nil, err
			}
			if n, ok := l.alike(f.Data); ok {
				out = append(out, Move{Path: p, Percent: n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Move) int {
		same := func(m Move) int {
			if path.Base(m.Path) == path.Base(l.path) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Percent, a.Percent), cmp.Compare(same(a), same(b)), strings.Compare(a.Path, b.Path))
	})
	return out, nil
}

// moves lists where the file may be that a change wants to delete, or to edit. Of one
// to be deleted the patch has the content. Of one to be edited it has some lines.
func (t *txn) moves(c *change) ([]Move, error) {
	if t.s.partial || t.s.quiet && c.kind != remove {
		return nil, nil
	}
	l := lost{path: c.old, blob: c.oldID, mode: orMode(c.oldMode)}
	l.old = func(p string) bool { return t.s.made[p] || t.written[p] != nil }
	switch {
	case c.kind == remove && len(c.hunks) > 0:
		l.alike = halfAlike([]byte(beforeText(c.hunks)))
	case len(c.hunks) > 0:
		l.alike = func(data []byte) (int, bool) {
			txt := newText(data)
			txt.quiet = true
			_, bad := place(txt, c.hunks, "", func() string { return "" })
			return 0, len(bad) == 0
		}
	default:
		l.alike = func([]byte) (int, bool) { return 0, false }
	}
	return t.s.moves(l)
}

// movesText names the likeliest places of a file that is gone.
func movesText(moves []Move) string {
	var places []string
	for _, m := range moves {
		is := fmt.Sprintf("%d %% the same", m.Percent)
		if m.Percent == 0 {
			is = "the patch's lines stand in it"
		}
		places = append(places, fmt.Sprintf("%s (%s)", m.Path, is))
	}
	const most = 5
	if len(places) > most {
		places = append(places[:most], "others")
	}
	return "it may be what is now " + strings.Join(places, " or ")
}
