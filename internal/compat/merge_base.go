package compat

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/patch"
)

// keyOf writes entries as a unit's key does.
func keyOf(entries []entry) string {
	var buf []byte
	for i := range entries {
		buf = entries[i].key(buf)
	}
	return string(buf)
}

// findBases finds what each unit may be merged over. A declared variant was made
// for the tags of its range: those of recipes/tags.lock count first, as they do
// for llpatch apply. A foreign patch says by its index lines what it was made
// for; where that is not here, the tags that it fits serve as well.
func (j *judge) findBases(ctx context.Context) error {
	m := j.merging
	if j.stack.Foreign {
		if err := j.indexBases(); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(j.all, func(u *unit) bool { return m.bases[u] == nil }) {
		return nil
	}
	rows, err := j.rows(ctx, j.h.Tags)
	if err != nil {
		return err
	}
	j.merging = nil // where it fits by itself is what is asked for
	cells, err := j.cells(ctx, rows, buildsOf(j.h.Tags))
	j.merging = m
	if err != nil {
		return err
	}
	for i := range j.units {
		for k, u := range j.units[i] {
			if u == nil || m.bases[u] != nil {
				continue
			}
			var pinned, others []base
			for n, t := range j.h.Tags {
				out := cells[i][n].each[k]
				if out.Verdict != Exact && out.Verdict != Offset || !u.variant.declared(t.Build) {
					continue
				}
				b := base{name: t.Name, build: t.Build, entries: out.in}
				if _, ok := j.h.lock[t.Name]; ok {
					pinned = append(pinned, b)
				} else {
					others = append(others, b)
				}
			}
			if len(pinned) == 0 {
				pinned = others
			}
			for n := range pinned {
				pinned[n].key = keyOf(pinned[n].entries)
			}
			slices.SortStableFunc(pinned, func(a, b base) int { return cmp.Compare(a.build, b.build) })
			m.bases[u] = pinned
		}
	}
	return nil
}

// indexBases makes bases of the index lines. A patch of a stack names blobs that
// only the patches before it make, so those are made on the way.
func (j *judge) indexBases() error {
	objects, err := j.h.repo.Objects()
	if err != nil {
		return err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	c := &contents{sharedContents: j.files, objects: objects}
	made := map[string]bool{} // blobs that no repository needs to have
	for _, units := range j.units {
		for _, u := range units {
			if u == nil {
				continue
			}
			entries, ok, err := j.indexEntries(u, made, c)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			out, err := u.work(entries, c)
			if err != nil {
				return err
			}
			if out.Verdict != Exact && out.Verdict != Offset {
				continue // its index lines are not of these files
			}
			for k, e := range out.After {
				if e != entries[k] && e.Mode != 0 {
					made[e.ID.String()] = true
				}
			}
			j.merging.bases[u] = []base{{name: indexLines, entries: entries, key: keyOf(entries)}}
		}
	}
	return nil
}

// indexEntries returns the files that the unit's index lines name; false where
// one of them is not said, or not here, or could be several.
func (j *judge) indexEntries(u *unit, made map[string]bool, c *contents) ([]entry, bool, error) {
	pre, ok := patch.Origins(u.variant.Patches)
	if !ok {
		return nil, false, nil
	}
	entries := make([]entry, len(u.paths))
	for _, p := range pre {
		if p.Blob == "" {
			continue
		}
		id, err := j.blob(p.Blob, made, c)
		if err != nil {
			return nil, false, err
		}
		at, ok := slices.BinarySearch(u.paths, p.Path)
		if id.IsZero() || !ok {
			return nil, false, nil
		}
		entries[at] = entry{Mode: p.Mode, ID: id}
	}
	return entries, true, nil
}

// blob finds a file's content by its id, maybe shortened; zero where there is
// none, or more than one.
func (j *judge) blob(short string, made map[string]bool, c *contents) (plumbing.Hash, error) {
	var found []string
	for id := range made {
		if strings.HasPrefix(id, short) {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		ids, err := j.h.repo.Abbreviated(short)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		for _, id := range ids {
			kind, _, err := c.objects.Read(id)
			if err != nil {
				return plumbing.ZeroHash, err
			}
			if kind == "blob" {
				found = append(found, id)
			}
		}
	}
	if len(found) != 1 {
		return plumbing.ZeroHash, nil
	}
	return plumbing.NewHash(found[0]), nil
}
