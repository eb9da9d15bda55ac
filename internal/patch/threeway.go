package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/llpatch/llpatch/internal/source"
)

// Merged is the kind of a placement that a merge found.
const Merged Kind = "merged"

// GitDisagrees is the cause of a conflict where the merge is clean, but git
// merge-file gives other bytes or a conflict.
const GitDisagrees Cause = "git disagrees"

// Unchecked is the cause of a conflict where the merge is clean, but there is no
// git to give a second opinion.
const Unchecked Cause = "not checked"

// MergeOptions say how ThreeWay decides.
type MergeOptions struct {
	// Git is the git program that must give the same bytes (see FindGit); ""
	// asks none, and FileMerge.Checked stays false.
	Git string
	// NeedGit refuses a new merge where Git is "".
	NeedGit bool
	// Resolutions are looked up before anything is merged.
	Resolutions Resolutions
	// Follow allows files of the base to be taken for moved ones of the target,
	// by path. Without it a move is only proposed.
	Follow map[string]string
	// Memo, where it is set, saves work over many merges of the same patches.
	Memo *Memo
	// Misfits are the conflicts of the only patch of the series on the target, where
	// they are known; nil finds them.
	Misfits []*Conflict
}

// Merge is one patch on a tree on which some of its hunks have no place.
type Merge struct {
	Fix    string      `json:"fix"`
	Patch  string      `json:"patch"`
	SHA256 string      `json:"sha256"`          // of the patch file
	Files  []FileMerge `json:"files,omitempty"` // those that had to be merged, in the order of the patch
	// Note says why nothing could be merged, where that was not the files' fault.
	Note string `json:"note,omitempty"`
	// Result is nil where a conflict is left.
	Result *Result `json:"-"`

	target  *source.Tree
	changes []change // the patch as it fits the target
	unique  bool     // Variant gives each hunk the context that makes its lines stand once
}

// FileMerge is how one file of a patch was merged.
type FileMerge struct {
	Path string `json:"path"`           // in the target
	From string `json:"from,omitempty"` // its path in the base, where it has moved since
	// Moves are the places where a file that is gone may be, the best first. If
	// Proposed, the merge shows what following the first would give.
	Moves    []Move   `json:"moves,omitempty"`
	Proposed bool     `json:"proposed,omitempty"`
	Base     string   `json:"base"` // blob ids
	Ours     string   `json:"ours"`
	Theirs   string   `json:"theirs"`
	Merged   string   `json:"merged,omitempty"`  // "" where a conflict is left
	Regions  []Region `json:"regions,omitempty"` // what either side changed, conflicts too; none from a resolution
	Diff     string   `json:"diff,omitempty"`    // unified, from the target's file to the merge
	Landed   bool     `json:"landed,omitempty"`  // the target has the whole change already
	Checked  bool     `json:"checked,omitempty"` // git merge-file gives the same bytes
	// Resolution is the file that the answer came from.
	Resolution string `json:"resolution,omitempty"`

	kept Resolution
}

// Resolutions returns the merges to keep, so that the same blobs need no second
// thought: all that are clean and did not come from a resolution themselves.
func (m *Merge) Resolutions() []Resolution {
	var out []Resolution
	seen := map[string]bool{} // two files may be the same three blobs
	for _, f := range m.Files {
		if f.Merged != "" && f.Resolution == "" && !f.Proposed && !seen[f.kept.Name()] {
			seen[f.kept.Name()] = true
			out = append(out, f.kept)
		}
	}
	return out
}

// Landed reports whether the merge came to nothing: the target has the whole
// change already.
func (m *Merge) Landed() bool { return m.Result != nil && m.Result.Tree.ID() == m.target.ID() }

// ThreeWay applies a patch to target and merges each file of which a hunk has no
// place: base is the tree that the patch was made for, with the earlier patches
// of its series applied; what the patch makes of base is merged with the
// target's file. Files whose hunks have places are patched as Apply does it.
//
// A merge counts only if it is clean and git agrees. If anything is left, the
// error joins a *Conflict for each region or file, and the Merge, which is not
// nil then, shows how far it came. Other errors come without a Merge.
func ThreeWay(ctx context.Context, p *Patch, base, target *source.Tree, o MergeOptions) (*Merge, error) {
	patched, err := Apply(base, []Patch{*p})
	if err != nil {
		return nil, fmt.Errorf("merge %s: the patch does not fit the tree that it was made for: %w", orElse(p.Fix, p.Name),
			err)
	}
	res, err := Apply(target, []Patch{*p})
	if err == nil {
		return &Merge{Fix: p.Fix, Patch: p.Name, SHA256: p.SHA256, target: target, Result: res, changes: p.changes}, nil
	}
	misfits, err := conflictsOf(err)
	if err != nil {
		return nil, err
	}
	return merge(ctx, p, base, patched, target, misfits, o)
}

// merge is ThreeWay for a patch that makes patched of base, and has misfits in target.
func merge(ctx context.Context, p *Patch, base *source.Tree, patched *Result, target *source.Tree, misfits []*Conflict,
	o MergeOptions,
) (*Merge, error) {
	m := &Merge{Fix: p.Fix, Patch: p.Name, SHA256: p.SHA256, target: target}
	w := threeWay{
		Merge: m, ctx: ctx, o: o, p: p, base: base, target: target, patched: patched,
		misfits: p.byFile(misfits), done: map[string]bool{},
	}
	for i := range p.changes {
		if err := w.change(&p.changes[i]); err != nil {
			return nil, fmt.Errorf("merge %s: %w", orElse(p.Fix, p.Name), err)
		}
	}
	for i := 0; i < len(w.later) && len(w.conflicts) == 0; i++ {
		if err := w.later[i](); err != nil {
			return nil, fmt.Errorf("merge %s: %w", orElse(p.Fix, p.Name), err)
		}
	}
	if len(w.conflicts) > 0 {
		return m, errors.Join(w.conflicts...)
	}
	return m, w.finish()
}

// conflictsOf takes a joined error of Apply apart. An error of another kind is
// returned as it is.
func conflictsOf(err error) ([]*Conflict, error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, err
	}
	var out []*Conflict
	for _, e := range joined.Unwrap() {
		c, ok := e.(*Conflict) //nolint:errorlint // a join of ours, member by member
		if !ok {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// byFile sorts the conflicts of one patch under the file that they are about.
func (p *Patch) byFile(conflicts []*Conflict) map[string][]*Conflict {
	out := map[string][]*Conflict{}
	for _, c := range conflicts {
		// A conflict lies behind its file's header in the patch, before the next.
		at := 0
		for i := range p.changes {
			if p.changes[i].line <= c.PatchLine {
				at = i
			}
		}
		key := p.changes[at].source()
		out[key] = append(out[key], c)
	}
	return out
}

// source returns the path that a change starts from, or creates.
func (c *change) source() string { return orElse(c.old, c.new) }

// threeWay is a Merge being made.
type threeWay struct {
	*Merge
	ctx          context.Context
	o            MergeOptions
	p            *Patch
	base, target *source.Tree
	patched      *Result
	misfits      map[string][]*Conflict // by the change's source
	done         map[string]bool        // sources dealt with
	conflicts    []error
	later        []func() error // asks git about the files, if none has a conflict
}

// change takes a change over as it is, or with what a merge made of it.
func (w *threeWay) change(c *change) error {
	key := c.source()
	misfits := w.misfits[key]
	if len(misfits) == 0 {
		w.changes = append(w.changes, *c)
		return nil
	}
	// Several parts of one patch about one file are merged as one.
	if w.done[key] {
		return nil
	}
	w.done[key] = true
	if followed, err := w.followRemoval(c); err != nil || followed {
		return err
	}
	if w.mergeable(c, misfits) {
		if ok, err := w.merge(c); err != nil || ok {
			return err
		}
	}
	for _, m := range misfits {
		w.conflicts = append(w.conflicts, m)
	}
	return nil
}

// followRemoval deletes the file that one to be deleted has moved to, if that is
// wanted; the tree must not have changed it since.
func (w *threeWay) followRemoval(c *change) (bool, error) {
	to, ok := w.o.Follow[c.old]
	if !ok || c.kind != remove {
		return false, nil
	}
	was, err := readText(w.base, c.old)
	if err != nil || was == nil {
		return false, err
	}
	is, err := readText(w.target, to)
	switch {
	case err != nil:
		return false, err
	case is == nil:
		_ = w.fail(c, c.old, MissingFile, fmt.Sprintf("it was to be followed to %s, which is not a text file of the tree",
			to))
	case !bytes.Equal(was.Data, is.Data):
		_ = w.fail(c, to, BothChanged, "the patch deletes it, and the tree has changed it since")
	default:
		n := *c
		n.old, n.oldMode = to, is.Mode
		w.changes = append(w.changes, n)
	}
	return true, nil
}

// alone reports whether no other part of the patch is about the same file.
func (w *threeWay) alone(c *change) bool {
	n := 0
	for i := range w.p.changes {
		if w.p.changes[i].source() == c.source() {
			n++
		}
	}
	return n == 1
}

// mergeable reports whether a merge may help: the lines are not where the patch
// wants them, and nothing else is wrong.
func (w *threeWay) mergeable(c *change, misfits []*Conflict) bool {
	if c.kind == create || c.kind == remove || c.binary != nil {
		return false
	}
	if c.kind != modify && !w.alone(c) {
		return false
	}
	for i := range w.p.changes {
		if o := &w.p.changes[i]; o.source() == c.source() && (o.kind != c.kind || o.binary != nil) {
			return false
		}
	}
	return !slices.ContainsFunc(misfits, func(m *Conflict) bool {
		switch m.Kind {
		case NoPlace, Ambiguous, OutOfOrder, NoContext, MissingFile:
			return false
		}
		return true
	})
}

// finish applies the patch as it now is, through the same gates as any other.
func (w *threeWay) finish() error {
	if len(w.changes) == 0 {
		w.Result = &Result{Tree: w.target}
		return nil
	}
	next := *w.p
	next.changes = w.changes
	res, err := Apply(w.target, []Patch{next})
	if err != nil {
		return err
	}
	merged := map[string]bool{}
	for _, f := range w.Files {
		merged[f.Path] = !f.Landed
	}
	for i := range w.changes {
		c := &w.changes[i]
		if merged[c.old] {
			for k := range res.Placements {
				if p := &res.Placements[k]; p.Path == c.new && p.Hunk > 0 {
					p.Kind = Merged
				}
			}
		}
	}
	w.Result = res
	return nil
}
