package compat

import (
	"context"
	"slices"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// backports returns the stack with the patches of the variants that are upstream
// commits, made from this history. One that it does not hold, or that is no
// patch, stays without, which is said: it is not judged.
func (h *History) backports(ctx context.Context, o Options, s Stack) (Stack, error) {
	s.Fixes = slices.Clone(s.Fixes)
	for i := range s.Fixes {
		f := &s.Fixes[i]
		f.Variants = slices.Clone(f.Variants)
		for k := range f.Variants {
			v := &f.Variants[k]
			if v.Commit == "" || len(v.Patches) > 0 {
				continue
			}
			ps, err := h.backport(ctx, f.ID, v)
			if ctx.Err() != nil {
				return s, ctx.Err()
			}
			if err != nil {
				o.log().Warn("a variant is not judged", "fix", f.ID, "commit", v.Commit, "error", err)
				continue
			}
			v.Patches = ps
		}
	}
	return s, nil
}

func (h *History) backport(ctx context.Context, fix string, v *Variant) ([]patch.Patch, error) {
	c, err := source.Commit(ctx, h.Path, v.Commit)
	if err != nil {
		return nil, err
	}
	_, ps, err := patch.FromCommit(c.Without(v.Except), fix, v.File)
	return ps, err
}
