package source

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// minPrefix is git's least for an abbreviated id: fewer digits say nothing.
const minPrefix = 7

// Abbreviated returns the ids of all objects that begin with the given hex
// digits, sorted; none where there are fewer than 7 digits, or other characters.
// What the repository borrows from others counts, too.
func (r *Repository) Abbreviated(prefix string) (ids []string, err error) {
	// An odd digit at the end is half a byte.
	raw, err := hex.DecodeString(prefix[:len(prefix)/2*2])
	last, odd := byte(0), len(prefix)%2 == 1
	if odd && err == nil {
		var half []byte
		half, err = hex.DecodeString(prefix[len(prefix)-1:] + "0")
		if err == nil {
			last = half[0]
		}
	}
	if err != nil || len(prefix) < minPrefix || len(prefix) > 2*len(plumbing.ZeroHash) {
		return nil, nil
	}
	// A damaged index can send the search out of a slice's bounds.
	defer func() {
		if p := recover(); p != nil {
			ids, err = nil, fmt.Errorf("objects %s… of %s: %v", prefix, r.st.where, p)
		}
	}()
	matches := func(id []byte) bool {
		return bytes.HasPrefix(id, raw) && (!odd || id[len(raw)]&0xf0 == last)
	}
	take := func(h plumbing.Hash) {
		if id := h.String(); matches(h[:]) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, p := range r.packs {
		idx, err := p.index()
		if err != nil {
			return nil, fmt.Errorf("pack %s of %s: %w", p.id, r.st.where, err)
		}
		inIndex(idx, raw, matches, take)
	}
	loose, err := dotgit.New(r.g.fs()).ObjectsWithPrefix(raw)
	if err != nil {
		return nil, fmt.Errorf("objects of %s: %w", r.st.where, err)
	}
	lent, err := r.borrowed(raw)
	if err != nil {
		return nil, err
	}
	for _, h := range append(loose, lent...) {
		take(h)
	}
	slices.Sort(ids)
	return ids, nil
}

// borrowed is Abbreviated for whole bytes, of the repositories that this one
// borrows from.
func (r *Repository) borrowed(raw []byte) (out []plumbing.Hash, err error) {
	dirs, err := alternates(r.g.objects(), 0)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		s := newStorage(gitDir{dir: dir})
		found, err := s.HashesWithPrefix(raw)
		if err = errors.Join(err, s.Close()); err != nil {
			return nil, fmt.Errorf("objects of %s: %w", dir, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// inIndex gives the ids of a pack that match; raw has at least one byte.
func inIndex(idx *idxfile.MemoryIndex, raw []byte, matches func([]byte) bool, take func(plumbing.Hash)) {
	k := idx.FanoutMapping[raw[0]]
	if k < 0 || k >= len(idx.Names) {
		return
	}
	names := idx.Names[k]
	const size = len(plumbing.ZeroHash)
	n := len(names) / size
	from := sort.Search(n, func(i int) bool { return bytes.Compare(names[i*size:(i+1)*size], raw) >= 0 })
	for i := from; i < n && bytes.HasPrefix(names[i*size:], raw); i++ {
		if id := names[i*size : (i+1)*size]; matches(id) {
			take(plumbing.Hash(id))
		}
	}
}
