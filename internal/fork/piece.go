package fork

import (
	"context"
	"path"
	"slices"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// piece is a commit on its way to another tag.
type piece struct {
	Commit
	patches []patch.Patch // that make it there
	was     []patch.Patch // that made it on the tag before
	variant string        // the declared file that patches are; "": they are the commit's own change
	done    Moved
}

// piece makes one of a commit of the old branch, and returns the tree before it. Where the commit is just what
// its fix declares, the declared patches count. One that changes nothing is Dropped.
func (m *mover) piece(ctx context.Context, c Commit) (*piece, *source.Tree, error) {
	p := &piece{Commit: c, done: Moved{Old: c.ID, Fix: c.Fix, Subject: c.Subject(), How: Placed}}
	before, err := m.treeOf(ctx, c.Parents[0])
	if err != nil {
		return nil, nil, err
	}
	own, err := m.r.patchOf(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if own == nil {
		p.done.How, p.done.Why = Dropped, "it changes nothing"
		return p, before, nil
	}
	p.patches = []patch.Patch{*own}
	if v, ok := m.variantAt(c.Fix, buildOf(m.e.Repo, m.old)); ok {
		ps, err := m.read(c.Fix, v)
		if err != nil {
			return nil, nil, err
		}
		after, err := m.treeOf(ctx, c.ID)
		if err != nil {
			return nil, nil, err
		}
		g := group{fix: c.Fix, commits: []Commit{c}, before: before, after: after}
		same, _, err := g.gives(ps)
		if err != nil {
			return nil, nil, err
		}
		if same {
			p.patches, p.variant, p.done.How = ps, v.Patch, ByFix
		}
	}
	p.was = p.patches
	return p, before, nil
}

// onto is the piece with what its fix declares for a build, where it is a fix's as that declares
// it. One whose defect that
// build does not have is Dropped.
func (m *mover) onto(p *piece, build int) (*piece, error) {
	n := *p
	n.was = p.patches
	for _, f := range m.e.Repo.Fixes {
		if f.ID != p.Fix {
			continue
		}
		if is, why := f.Defect(m.Upstream).Absent(build); is != "" {
			n.done.How, n.done.Why = Dropped, why
		}
	}
	v, ok := m.variantAt(p.Fix, build)
	switch {
	case p.variant == "" || ok && v.Patch == p.variant:
		return &n, nil
	case !ok:
		if n.variant = ""; n.done.How == ByFix {
			n.done.How = Placed
		}
		return &n, nil
	}
	var err error
	n.variant = v.Patch
	n.patches, err = m.read(p.Fix, v)
	return &n, err
}

// variantAt is the patch file that a fix declares for a build.
func (m *mover) variantAt(fix string, build int) (spec.Variant, bool) {
	at := slices.IndexFunc(m.e.Repo.Fixes, func(f spec.Fix) bool { return f.ID == fix })
	if at < 0 {
		return spec.Variant{}, false
	}
	v, ok := m.e.Repo.Fixes[at].VariantFor(m.Upstream, build)
	return v, ok && v.Patch != ""
}

// read parses a declared patch file.
func (m *mover) read(fix string, v spec.Variant) ([]patch.Patch, error) {
	return patch.ParseFile(m.e.Repo.FS, path.Join("patches", fix, v.Patch), fix, v.Patch)
}
