package patch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/llpatch/llpatch/internal/source"
)

// ApplyThreeWay applies a series as Apply does, and tries three ways where a
// patch does not fit. bases returns the tree that a patch was made for, before
// any patch of the series; nil means that none is recorded, and then the patch
// is not merged. The merges are those of the patches that needed one, also of
// those that failed. The error is Apply's, of all patches that do not fit.
func ApplyThreeWay(ctx context.Context, target *source.Tree, series []Patch,
	bases func(context.Context, *Patch) (*source.Tree, error), o MergeOptions,
) (*Result, []*Merge, error) {
	if len(series) != 1 { // one alone is tried below
		o.Misfits = nil
		res, err := Apply(target, series)
		if err == nil {
			return res, nil, nil
		}
		if _, err := conflictsOf(err); err != nil {
			return nil, nil, err
		}
	}
	out := &Result{Tree: target}
	var merges []*Merge
	var conflicts []error
	var failures []failed
	for i := range series {
		p := &series[i]
		if err := ctx.Err(); err != nil {
			return nil, merges, err
		}
		res, merge, err := applyOrMerge(ctx, out.Tree, series[:i], p, bases, o)
		if merge != nil {
			merges = append(merges, merge)
		}
		if err != nil {
			misfits, err := conflictsOf(err)
			if err != nil {
				return nil, merges, err
			}
			for _, c := range misfits {
				for _, f := range slices.Backward(failures) {
					if _, ok := slices.BinarySearch(f.paths, c.File); ok {
						c.After = orElse(c.After, f.name)
					}
				}
				conflicts = append(conflicts, c)
			}
			failures = append(failures, failed{name: p.Fix + "/" + p.Name, paths: p.Paths()})
			continue
		}
		out.Tree = res.Tree
		out.Placements = append(out.Placements, res.Placements...)
		out.Touched = append(out.Touched, res.Touched...)
		out.Steps = append(out.Steps, res.Steps...)
		out.Notes = append(out.Notes, res.Notes...)
	}
	if len(conflicts) > 0 {
		return nil, merges, errors.Join(conflicts...)
	}
	return out, merges, nil
}

func applyOrMerge(ctx context.Context, tree *source.Tree, earlier []Patch, p *Patch,
	bases func(context.Context, *Patch) (*source.Tree, error), o MergeOptions,
) (*Result, *Merge, error) {
	misfits := o.Misfits
	if misfits == nil {
		res, err := Apply(tree, []Patch{*p})
		if err == nil {
			return res, nil, nil
		}
		if misfits, err = conflictsOf(err); err != nil {
			return nil, nil, err
		}
	}
	bare, err := bases(ctx, p)
	if err != nil {
		return nil, nil, fmt.Errorf("merge %s: the tree that it was made for: %w", orElse(p.Fix, p.Name), err)
	}
	if bare == nil {
		return nil, nil, joinConflicts(misfits)
	}
	from, err := o.Memo.start(bare, earlier, p)
	if err != nil {
		return nil, nil, err
	}
	if from.tree == nil {
		return nil, &Merge{
			Fix: p.Fix, Patch: p.Name, SHA256: p.SHA256,
			Note: "the patch does not fit the tree that it was made for",
		}, joinConflicts(misfits)
	}
	m, err := merge(ctx, p, from.tree, from.patched, tree, misfits, o)
	if err != nil {
		return nil, m, err
	}
	return m.Result, m, nil
}

func joinConflicts(conflicts []*Conflict) error {
	errs := make([]error, len(conflicts))
	for i, c := range conflicts {
		errs[i] = c
	}
	return errors.Join(errs...)
}

// Replay rebuilds the tree that p starts from: bare, which p was made for, with
// the earlier patches of its series. Those were chosen for another tree and may
// not fit this one; those are left out. If p finds no place behind them, bare
// itself is returned, and nil if p does not fit that either. A tree that holds
// some of p already is not one that it starts from.
func Replay(bare *source.Tree, earlier []Patch, p *Patch) (*source.Tree, error) {
	s, err := replay(bare, earlier, p)
	if err != nil {
		return nil, err
	}
	return s.tree, nil
}

// replay is Replay, with what p makes of the tree.
func replay(bare *source.Tree, earlier []Patch, p *Patch) (*start, error) {
	tree := bare
	for i := range earlier {
		res, err := Apply(tree, earlier[i:i+1])
		if err == nil {
			tree = res.Tree
		} else if _, err := conflictsOf(err); err != nil {
			return nil, err
		}
	}
	for _, t := range []*source.Tree{tree, bare} {
		res, err := Apply(t, []Patch{*p})
		if err == nil {
			if !slices.ContainsFunc(res.Placements, func(p Placement) bool { return p.Kind == Landed }) {
				return &start{t, res}, nil
			}
			continue
		}
		if _, err := conflictsOf(err); err != nil {
			return nil, err
		}
	}
	return new(start), nil
}
