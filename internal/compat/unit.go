package compat

import (
	"crypto/sha1" //nolint:gosec // git's blob ids are SHA-1
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// unit is a variant made ready for judging, and all that was judged of it.
type unit struct {
	variant *Variant
	digest  string // of the patch file
	paths   []string
	made    map[string]bool // paths that it may create
	removes map[int]string  // files that it deletes, by the line of the patch file
	at      []int           // of each path, its index in the rows

	mu    sync.Mutex
	known map[string]*outcome // by the entries at paths
	fresh bool                // known has what the cache folder lacks
	// merges are the outcomes where a merge was tried, by the entries at paths and at the base.
	merges      map[string]*outcome
	freshMerges bool
	baseless    map[*outcome]*outcome // outcomes of which there is no base, told so
}

func newUnit(v *Variant) *unit {
	u := &unit{
		variant: v, made: map[string]bool{}, removes: map[int]string{}, known: map[string]*outcome{},
		merges: map[string]*outcome{}, baseless: map[*outcome]*outcome{},
	}
	for i := range v.Patches {
		u.digest = v.Patches[i].SHA256
		u.paths = append(u.paths, v.Patches[i].Paths()...)
		for _, p := range v.Patches[i].Creates() {
			u.made[p] = true
		}
		maps.Copy(u.removes, v.Patches[i].Removes())
	}
	slices.Sort(u.paths)
	u.paths = slices.Compact(u.paths)
	return u
}

// key writes the entries at the unit's paths, to look them up.
func (u *unit) key(r row, buf []byte) []byte {
	buf = buf[:0]
	for _, i := range u.at {
		buf = r[i].key(buf)
	}
	return buf
}

func (e *entry) key(buf []byte) []byte {
	buf = append(buf, byte(e.Mode), byte(e.Mode>>8), byte(len(e.Other)), byte(len(e.Other)>>8))
	if e.Mode != 0 {
		buf = append(buf, e.ID[:]...)
		buf = append(buf, e.Other...)
	}
	return buf
}

// entries copies the entries at the unit's paths.
func (u *unit) entries(r row) []entry {
	entries := make([]entry, len(u.at))
	for k, i := range u.at {
		entries[k] = r[i]
	}
	return entries
}

// judge returns the verdict on the files at the unit's paths. Two goroutines
// that ask for the same one at once may both work it out; that is rare and
// cheaper than waiting.
func (u *unit) judge(r row, buf []byte, c *contents) (*outcome, []byte, error) {
	buf = u.key(r, buf)
	u.mu.Lock()
	got := u.known[string(buf)]
	// What came from the cache folder was made by an earlier run.
	kept := got != nil && got.kept
	if kept {
		got.kept = false
	}
	u.mu.Unlock()
	if got != nil && !kept {
		return got, buf, nil
	}
	entries := u.entries(r)
	if kept {
		got.in = entries
		for k, e := range got.After {
			if e != entries[k] && e.Mode != 0 {
				c.remember(e.ID, recipe{u: u, entries: entries})
			}
		}
		return got, buf, nil
	}
	out, err := u.work(entries, c)
	if err != nil {
		return nil, buf, err
	}
	out.in = entries
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known[string(buf)] = out
	// A lacking blob may be there next time.
	u.fresh = u.fresh || out.Verdict != Unknown
	return out, buf, nil
}

// work judges the files themselves.
func (u *unit) work(entries []entry, c *contents) (*outcome, error) {
	j, err := u.apply(entries, c)
	if m := new(source.Missing); errors.As(err, &m) {
		return &outcome{Verdict: Unknown, Why: fmt.Sprintf("the repository lacks the content of %s", m.Path)}, nil
	}
	if err != nil {
		return nil, err
	}
	out := judged(j)
	if !out.Verdict.changes() {
		return out, nil
	}
	out.After = make([]entry, len(entries))
	for k, p := range u.paths {
		f, changed := j.Files[p]
		switch {
		case !changed:
			out.After[k] = entries[k]
		case f != nil:
			id := blobID(f.Data)
			out.After[k] = entry{Mode: f.Mode, ID: id}
			c.made(id, f.Data, recipe{u: u, entries: entries})
		}
	}
	return out, nil
}

// apply applies the unit to the files that the entries name.
func (u *unit) apply(entries []entry, c *contents) (*patch.Judgement, error) {
	files, err := u.files(entries, c)
	if err != nil {
		return nil, err
	}
	return patch.Judge(u.variant.Patches, files)
}

// files reads the files that the entries name. What stands in the way of one is
// there without its content.
func (u *unit) files(entries []entry, c *contents) (map[string]*source.File, error) {
	files := map[string]*source.File{}
	for k, e := range entries {
		if e.Mode == 0 {
			continue
		}
		f := &source.File{Mode: e.Mode}
		path := u.paths[k]
		if e.Other != "" {
			if files[e.Other] == nil {
				files[e.Other] = f // that it is there is enough
			}
			continue
		}
		if e.Mode != source.Submodule {
			var err error
			if f.Data, err = c.get(e.ID); err != nil {
				if m := new(source.Missing); errors.As(err, &m) {
					err = &source.Missing{Where: m.Where, Path: path, Blob: m.Blob}
				}
				return nil, err
			}
		}
		files[path] = f
	}
	return files, nil
}

// blobID returns git's id of a file's content.
func blobID(data []byte) plumbing.Hash {
	h := sha1.New()                                 //nolint:gosec // git's blob ids are SHA-1
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(data)) // a hash takes everything
	h.Write(data)
	return plumbing.Hash(h.Sum(nil))
}

// pathsOf returns every path of the units, sorted, and those that one of them
// may create; it notes in each unit where its paths are.
func pathsOf(units []*unit) (paths []string, made map[string]bool) {
	made = map[string]bool{}
	for _, u := range units {
		paths = append(paths, u.paths...)
		maps.Copy(made, u.made)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	for _, u := range units {
		u.at = make([]int, len(u.paths))
		for k, p := range u.paths {
			u.at[k], _ = slices.BinarySearch(paths, p)
		}
	}
	return paths, made
}
