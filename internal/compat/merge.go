package compat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// ThreeWay says how patches that have no place are merged.
type ThreeWay struct {
	Git         string            // the program that must give the same bytes; "": only kept resolutions count
	Resolutions patch.Resolutions // may be nil
}

// Merge says what merging a patch that has no place came to.
type Merge struct {
	// what the patch was replayed on: a tag, or the files that its index lines name
	Base  string   `json:"base,omitempty"`
	Files []string `json:"files,omitempty"` // that were merged
	Why   string   `json:"why,omitempty"`   // why it is not clean; "": it is

	lacks bool // a file's content is not there, which may be so no more next time
}

// failed says why there is no merge.
func (m *Merge) failed() string {
	if m.Base == "" {
		return "not merged: " + m.Why
	}
	return fmt.Sprintf("not merged over %s: %s", m.Base, m.Why)
}

// indexLines is the name of a base that a patch names itself.
const indexLines = "its index lines"

// noBase is why a patch cannot be merged at all.
func noBase(foreign bool) string {
	if foreign {
		return "no base: the files that its index lines name are not here, and it fits no tag"
	}
	return "no base: it fits no tag of its range"
}

// base is the files that a unit was made for, in the order of its paths.
type base struct {
	name    string
	build   int // of the tag; 0: it is none
	entries []entry
	key     string
}

// merging is what a judge that merges needs.
type merging struct {
	o     patch.MergeOptions
	bases map[*unit][]base // by build number
}

func newMerging(o *ThreeWay) *merging {
	return &merging{
		o:     patch.MergeOptions{Git: o.Git, NeedGit: true, Resolutions: o.Resolutions},
		bases: map[*unit][]base{},
	}
}

// name is that of the file which keeps the unit's merges: they depend on there
// being a git, and on the resolutions.
func (m *merging) name(u *unit) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "git %v\n", m.o.Git != "") // a hash takes everything
	for _, name := range slices.Sorted(maps.Keys(m.o.Resolutions)) {
		_, _ = fmt.Fprintf(h, "%s %s\n", name, m.o.Resolutions[name].Merged)
	}
	return "merge-" + u.digest + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// base returns the unit's base for a tag, the nearest; nil where there is none.
func (m *merging) base(u *unit, build int) *base {
	var best *base
	for i := range m.bases[u] {
		b := &m.bases[u][i]
		if best == nil || b.build > 0 && abs(b.build-build) < abs(best.build-build) {
			best = b
		}
	}
	return best
}

// merge tries to merge a unit that has a hunk without a place. What it returns
// is the outcome as it was, with what the merge came to, or that of the merge.
func (w *walker) merge(ctx context.Context, u *unit, build int, out *outcome) (*outcome, string, error) {
	b := w.merging.base(u, build)
	if b == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.baseless[out] == nil {
			u.baseless[out] = out.unmerged(&Merge{Why: noBase(w.stack.Foreign)})
		}
		return u.baseless[out], "", nil
	}
	w.buf = u.key(w.state, w.buf)
	w.buf = append(w.buf, b.key...)
	u.mu.Lock()
	got := u.merges[string(w.buf)]
	kept := got != nil && got.kept
	if kept {
		got.kept = false
	}
	u.mu.Unlock()
	if got != nil && !kept {
		return got, b.name, nil
	}
	entries := u.entries(w.state)
	if kept {
		for k, e := range got.After {
			if e != entries[k] && e.Mode != 0 {
				w.files.remember(e.ID, recipe{u, entries, b, w.merging})
			}
		}
		return got, b.name, nil
	}
	n, err := w.tryMerge(ctx, u, b, entries, out)
	if err != nil {
		return nil, "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.merges[string(w.buf)] = n
	u.freshMerges = true
	return n, b.name, nil
}

// unmerged is the outcome with what came of the attempt to merge.
func (o *outcome) unmerged(m *Merge) *outcome {
	n := *o
	n.Merge = m
	return &n
}

func (w *walker) tryMerge(ctx context.Context, u *unit, b *base, entries []entry, out *outcome) (*outcome, error) {
	o := w.merging.o
	o.Memo, o.Misfits = w.memo, out.misfits
	before, after, merges, err := u.merge(ctx, entries, b, w.files, o)
	if m := new(source.Missing); errors.As(err, &m) {
		return out.unmerged(&Merge{Why: fmt.Sprintf("the repository lacks the content of %s", m.Path), lacks: true}), nil
	}
	var made Merge
	for _, m := range merges {
		for _, f := range m.Files {
			if f.Merged != "" && !f.Proposed {
				made.Files = append(made.Files, f.Path)
			}
		}
	}
	if err != nil {
		conflicts, ok := patch.Conflicts(err)
		if !ok || len(conflicts) == 0 {
			return nil, err
		}
		c := conflicts[0]
		for _, o := range conflicts {
			if o.Kind != patch.NoPlace {
				c = o
				break
			}
		}
		f := newFinding(c)
		if f.Cause == patch.BothChanged || f.Cause == patch.AmongEqual {
			f.Why = "" // lines of files that nobody sees here; apply --three-way shows them
		}
		made.Why = f.String()
		return out.unmerged(&made), nil
	}
	n := &outcome{Verdict: Merged, Changes: out.Changes, Merge: &made}
	if after.ID() == before.ID() {
		n.Verdict, n.Held = Landed, out.Changes
		return n, nil
	}
	n.After = make([]entry, len(entries))
	for k, p := range u.paths {
		was, there := before.Stat(p)
		is, stays := after.Stat(p)
		switch {
		case was == is && there == stays:
			n.After[k] = entries[k]
		case stays:
			f, err := after.Read(p)
			if err != nil {
				return nil, err
			}
			id := plumbing.NewHash(is.Blob)
			n.After[k] = entry{Mode: f.Mode, ID: id}
			w.files.made(id, f.Data, recipe{u, entries, b, w.merging})
		}
	}
	return n, nil
}

// merge merges the unit over a base. The error is patch.ApplyThreeWay's, or
// *source.Missing.
func (u *unit) merge(ctx context.Context, entries []entry, b *base, c *contents,
	o patch.MergeOptions,
) (before, after *source.Tree, merges []*patch.Merge, err error) {
	if before, err = u.tree(entries, c); err != nil {
		return nil, nil, nil, err
	}
	bare, err := u.tree(b.entries, c)
	if err != nil {
		return nil, nil, nil, err
	}
	bases := func(context.Context, *patch.Patch) (*source.Tree, error) { return bare, nil }
	res, merges, err := patch.ApplyThreeWay(ctx, before, u.variant.Patches, bases, o)
	if err != nil {
		return before, nil, merges, err
	}
	return before, res.Tree, merges, nil
}

// tree makes a tree of the files that the entries name, and of no others.
func (u *unit) tree(entries []entry, c *contents) (*source.Tree, error) {
	got, err := u.files(entries, c)
	if err != nil {
		return nil, err
	}
	files, blobs := map[string]source.File{}, map[string]string{}
	for path, f := range got {
		// A tree in memory has no submodules; what matters of one is that it is no text.
		if f.Mode == source.Submodule {
			f = &source.File{Mode: source.Symlink, Data: []byte("a submodule")}
		}
		files[path] = *f
		if k, ok := slices.BinarySearch(u.paths, path); ok && entries[k].there() && entries[k].Mode != source.Submodule {
			blobs[path] = entries[k].ID.String()
		} else {
			blobs[path] = blobID(f.Data).String()
		}
	}
	return source.Known(files, blobs)
}
