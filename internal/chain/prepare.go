package chain

import (
	"context"
	"errors"

	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/page"
	"github.com/llpatch/llpatch/internal/spec"
)

// Prepared is all that a build is made of: a patched tree, its web page, and the site, whose
// limits and archs are folded into the recipe.
type Prepared struct {
	Patched
	Site Site
	Web  Web
}

// Web is the web page of llama-server in a build.
type Web struct {
	Page  *page.Page // nil: it is not built in, or it lies in the tree
	Why   string     // why it is not; empty: there is none to build, or it lies in the tree
	place spec.PagePlace
}

// Prepare looks at the machine that an order is built on before anything is fetched, then patches
// as Patch does, and fetches or builds the web page. A machine that need not build (Machine.Builds)
// takes the page's hash for the page: what it prepared is for a plan, and for no Build. The caller
// closes what is returned.
func Prepare(ctx context.Context, e Workspace, o Order, m Machine, three *merge.ThreeWay) (p Prepared, err error) {
	if p.Site, err = m.Look(ctx, e, o); err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if lacks := otherTools(o, p.Site); len(lacks) > 0 {
		return p, cannot(o.As, lacks...)
	}
	patched, err := Patch(ctx, e, o, three)
	if err != nil {
		return p, err
	}
	p.Patched = patched
	if p.Site.Root != nil {
		p.Recipe.Verify.Limits = p.Recipe.Verify.Or(p.Site.Root.Verify)
	}
	p.Recipe.Verify.CUDA = p.Recipe.Verify.CUDA.For(p.Site.Facts.CUDA.Version)
	p.Web, err = e.paged(ctx, p.Patched, m.Builds)
	return p, err
}

// Close gives back the tree and the site.
func (p Prepared) Close() error {
	err := p.Site.Close()
	if p.Tree != nil {
		err = errors.Join(err, p.Tree.Close())
	}
	return err
}
