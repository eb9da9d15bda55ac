package compat

import (
	"errors"
	"maps"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// under judges a unit that does not fit once more, together with the fixes behind
// it that are chosen for the tag. Upstream may have taken several fixes that
// build on each other: what the first of them made is then under the last, and
// seen neither as it was before nor as it left it. The answer is the outcome as
// it was, or that it has landed.
func (w *walker) under(u *unit, behind []int, build int, out *outcome) (*outcome, error) {
	var later []*unit
	for _, i := range behind {
		if k, _, _ := w.stack.Fixes[i].chosen(build); k >= 0 && w.units[i][k] != nil {
			later = append(later, w.units[i][k])
		}
	}
	// The name of what is judged: no key of files begins like this.
	key := []byte("under ")
	for _, o := range append([]*unit{u}, later...) {
		key = append(key, o.digest...)
		key = append(key, o.key(w.state, w.buf)...)
	}
	u.mu.Lock()
	got := u.known[string(key)]
	u.mu.Unlock()
	if got != nil {
		return got, nil
	}
	files, err := u.files(u.entries(w.state), w.files)
	if err != nil {
		return nil, err
	}
	var patches []patch.Patch
	for _, o := range later {
		more, err := o.files(o.entries(w.state), w.files)
		if m := new(source.Missing); errors.As(err, &m) {
			continue // it cannot be taken back
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(files, more)
		patches = append(patches, o.variant.Patches...)
	}
	j, err := patch.JudgeUnder(u.variant.Patches, patches, files)
	if err != nil {
		return nil, err
	}
	// A copy: the outcome itself is kept under the key of its own files.
	n := *out
	if all := judged(j); all.Verdict == Landed {
		n = *all
	}
	n.kept = false
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known[string(key)] = &n
	u.fresh = true
	return &n, nil
}
