package compat

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/spec"
)

// DefectCheck is what the history says of the commits that a fix names as those
// which brought its defect, or cured it or a part of it.
type DefectCheck struct {
	Checked int           `json:"checked"`
	Faults  []DefectFault `json:"faults,omitempty"`
	Notes   []string      `json:"notes,omitempty"` // what the history cannot answer
}

// DefectFault is a commit that is not the build that a fix says.
type DefectFault struct {
	Fix string `json:"fix"`
	Key string `json:"key"` // of the build number, in the [[defect]] table
	Msg string `json:"msg"`
}

// CheckDefects compares what the fixes say of defects in the history's upstream
// with the history: each commit must be on its first-parent way, and the build of
// that number.
func (h *History) CheckDefects(ctx context.Context, fixes []spec.Fix) (*DefectCheck, error) {
	objects, err := h.repo.Objects()
	if err != nil {
		return nil, err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	line, err := h.mainline(ctx, objects)
	if err != nil {
		return nil, err
	}
	out := &DefectCheck{}
	for _, f := range fixes {
		d := f.Defect(h.Upstream)
		check := func(key string, build int, commit string) {
			is, on := line.at[plumbing.NewHash(commit)]
			id, known := line.commit(build)
			switch {
			case build == 0:
				return
			case on && is == build:
			case on:
				out.Faults = append(out.Faults, DefectFault{f.ID, key, fmt.Sprintf("commit %s is build %d, not %d", commit, is, build)})
			case known:
				out.Faults = append(out.Faults, DefectFault{f.ID, key, fmt.Sprintf("build %d is commit %s; %s is not on the first-parent way to %s", build, id, commit, line.newest.Name)})
			case build >= line.first && build <= line.last:
				out.Faults = append(out.Faults, DefectFault{f.ID, key, fmt.Sprintf("no commit is build %d: a merge brought it in", build)})
			default:
				out.Notes = append(out.Notes, fmt.Sprintf("%s: %s = %d is not checked: %s counts builds %d to %d", f.ID, key, build, h.Path, line.first, line.last))
				return
			}
			out.Checked++
		}
		check("since", d.Since, d.Commit)
		for i, c := range d.Partly {
			check(fmt.Sprintf("partly[%d].build", i), c.Build, c.Commit)
		}
		check("fixed-in", d.FixedIn, d.FixedBy)
	}
	return out, nil
}
