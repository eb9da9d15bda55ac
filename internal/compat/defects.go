package compat

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/spec"
)

// DefectCheck is what the history says of the commits that a declaration names as those
// which brought a defect, or cured it or a part of it.
type DefectCheck struct {
	Checked int           `json:"checked"`
	Faults  []DefectFault `json:"faults,omitempty"`
	Notes   []string      `json:"notes,omitempty"` // what the history cannot answer
}

// DefectFault is a commit that is not the build that a declaration says.
type DefectFault struct {
	Fix   string `json:"fix,omitempty"` // whose [[defect]] table it is; empty: an advisory's
	Index int    `json:"index"`         // of the advisory
	Key   string `json:"key"`           // of the build number, in that table
	Msg   string `json:"msg"`
}

// CheckDefects compares what the fixes and the advisories say of defects in the history's
// upstream with the history: each commit must be on its first-parent way, and the build of
// that number. A commit that cured an advisory must not have been taken back since. What a fix
// has from an advisory is checked there.
func (h *History) CheckDefects(ctx context.Context, fixes []spec.Fix,
	advisories []spec.Advisory,
) (*DefectCheck, error) {
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
		if len(f.Cures) > 0 {
			continue
		}
		c := checker{out, line, h.Path, DefectFault{Fix: f.ID}, f.ID}
		c.check("since", d.Since, d.Commit)
		for i, p := range d.Partly {
			c.check(fmt.Sprintf("partly[%d].build", i), p.Build, p.Commit)
		}
		c.check("fixed-in", d.FixedIn, d.FixedBy)
	}
	for i, a := range advisories {
		if a.Upstream != h.Upstream {
			continue
		}
		c := checker{out, line, h.Path, DefectFault{Index: i}, a.ID}
		if a.SinceBy != "" {
			c.check("since", a.Since, a.SinceBy)
		}
		for n, id := range a.FixedBy {
			build := a.FixedIn
			if is, on := line.at[plumbing.NewHash(id)]; on && n < len(a.FixedBy)-1 {
				build = min(is, a.FixedIn-1) // a part of the cure: it comes before the last one
			}
			c.check("fixed-in", build, id)
			if by := line.reverts[plumbing.NewHash(id)]; !by.IsZero() {
				c.fault("fixed-by", "commit %s is taken back by commit %s, which is build %d", id, by, line.at[by])
			}
		}
	}
	return out, nil
}

// checker compares the commits of one table.
type checker struct {
	out  *DefectCheck
	line *mainline
	path string
	in   DefectFault
	name string // for notes
}

func (c checker) fault(key, format string, args ...any) {
	f := c.in
	f.Key, f.Msg = key, fmt.Sprintf(format, args...)
	c.out.Faults = append(c.out.Faults, f)
}

// check compares a build number, 0 where none is said, with its commit.
func (c checker) check(key string, build int, commit string) {
	is, on := c.line.at[plumbing.NewHash(commit)]
	id, known := c.line.commit(build)
	switch {
	case build == 0:
		return
	case on && is == build:
	case on:
		c.fault(key, "commit %s is build %d, not %d", commit, is, build)
	case known:
		c.fault(key, "build %d is commit %s; %s is not on the first-parent way to %s", build, id, commit, c.line.newest.Name)
	case build >= c.line.first && build <= c.line.last:
		c.fault(key, "no commit is build %d: a merge brought it in", build)
	default:
		c.out.Notes = append(c.out.Notes, fmt.Sprintf("%s: %s = %d is not checked: %s counts builds %d to %d", c.name, key,
			build, c.path, c.line.first, c.line.last))
		return
	}
	c.out.Checked++
}
