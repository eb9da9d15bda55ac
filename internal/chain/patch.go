package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
	"github.com/llpatch/llpatch/internal/tag"
)

// Patched is the tree of a tag with the series for a target in it, in memory.
type Patched struct {
	Order
	Tree     *source.Tree  // the tag's, which need not be the one that was asked for
	Series   *spec.Series  // without what upstream has whole
	Result   *patch.Result // Tree with it
	Variants []merge.Variant
	Dir      string   // Out/<tag>/<target>
	Lacks    []string // paths that the source does not have and the build can do without
	patches  []patch.Patch
}

// Patch fetches the tag of an order, chooses its series and places every patch in memory; with
// three, patches that do not fit are merged. Nothing is written to Out yet. The caller closes
// the tree.
func Patch(ctx context.Context, e Workspace, o Order, three *merge.ThreeWay) (p Patched, err error) {
	var pins pending
	tree, err := e.fetch(ctx, o.Recipe.Upstream, o.Tag, &pins)
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tree.Close())
		}
	}()
	choose := e.Repo.Choose
	if three != nil {
		choose = e.Repo.ChooseNearest
	}
	s, patches, err := e.atHand(ctx, o, tree, choose)
	if err != nil {
		return p, err
	}
	var result *patch.Result
	var variants []merge.Variant
	if three == nil {
		result, err = merge.Apply(ctx, e.Repo.FS, e.Sources(), s, tree, patches)
	} else {
		exact := e
		exact.Nearest = false
		result, variants, err = three.Apply(ctx, merge.Series{
			Series: s, Repo: e.Repo, Records: e.Records, Tree: tree, Patches: patches, Log: e.Log,
			Fetch: func(ctx context.Context, t tag.Tag) (*source.Tree, error) {
				return exact.Fetch(ctx, o.Recipe.Upstream, t)
			},
		})
	}
	if err != nil {
		return p, err
	}
	if p, err = Place(o, tree, s, result); err != nil {
		return p, err
	}
	p.Variants, p.patches = variants, patches
	for _, note := range result.Notes {
		e.Log.Info(note)
	}
	if err := pins.record(ctx, e); err != nil {
		return p, err
	}
	p.Dir, err = filepath.Abs(filepath.Join(e.Out, tree.Tag.Short(), o.folder()))
	return p, err
}

// atHand chooses the series of a tree and reads its patches. Cures whose commits cannot be had
// are left out, with what needs them, unless the order requires them.
func (e Workspace) atHand(
	ctx context.Context, o Order, tree *source.Tree, choose func(spec.Recipe, string, spec.Pin) (*spec.Series, error),
) (*spec.Series, []patch.Patch, error) {
	rec := o.Recipe
	rec.Lacks = spec.Reasons{}
	for {
		s, err := choose(rec, tree.Tag.String(), tree.Pin)
		if err != nil {
			return nil, nil, err
		}
		if err := s.Asked(rec); err != nil {
			return nil, nil, &BadOption{"--with", err}
		}
		patches, lacks, err := merge.Patches(ctx, e.Repo.FS, e.Sources(), s)
		if err != nil {
			return nil, nil, err
		}
		if len(lacks) > 0 {
			maps.Copy(rec.Lacks, lacks)
			continue
		}
		lack := e.Repo.Advisories.Of(rec.Upstream, tree.Pin.Build, s, o.contents()).Lacks
		switch {
		case len(lack) == 0:
		case o.RequireCures:
			return nil, nil, &NoCures{tree.Tag.String(), lack}
		default:
			e.Log.Warn("cures of security defects are left out: upstream's history is not at hand", "tag", tree.Tag, "cures",
				len(lack))
		}
		return s, patches, nil
	}
}

// NoCures says that cures which the order requires cannot be had.
type NoCures struct {
	Tag   string
	Lacks []spec.Lacking
}

// Error names each and the reason.
func (e *NoCures) Error() string {
	text := fmt.Sprintf("%s: cures of security defects are not at hand, and --require-cures asks for all", e.Tag)
	for _, l := range e.Lacks {
		text += fmt.Sprintf("\n  %s: %s", l.Fix, l.Why)
	}
	return text
}

// ExitCode is exit.Source.
func (e *NoCures) ExitCode() int { return exit.Source }

// Hint says what to do.
func (e *NoCures) Hint() string {
	return "llpatch fetch --history fetches upstream's history; or give a clone of it by --source"
}

// Known is what is known of the tag's security defects, and what the series cures of them.
func (p Patched) Known(e Workspace) spec.Known {
	return e.Repo.Advisories.Of(p.Recipe.Upstream, p.Tree.Pin.Build, p.Series, p.contents())
}

// Place makes an order's value of a tag's tree and of what its series made of it: what
// upstream has whole is taken out of the series, and of the rest is said what it has. A tree
// without the recipe's licence files is a *spec.Error: no bundle could be made of it.
func Place(o Order, tree *source.Tree, s *spec.Series, result *patch.Result) (Patched, error) {
	p := Patched{Order: o, Tree: tree, Series: s, Result: result}
	p.Tag = tree.Tag
	names, err := stage.Licenses(result.Tree, o.Recipe.Bundle.Licenses)
	if err == nil && len(names) == 0 && o.Recipe.Name != "" { // a fork for no target
		err = &spec.Error{
			File: recipeFile(o.Recipe),
			Msg: fmt.Sprintf("bundle.licenses %q matches no file of %s; a bundle needs upstream's licence",
				o.Recipe.Bundle.Licenses, tree.Tag),
		}
	}
	if err != nil {
		return p, err
	}
	landed(s, result)
	lacks, err := result.Tree.Lacks()
	for _, name := range lacks {
		if build.Dispensable(name) {
			p.Lacks = append(p.Lacks, name)
		}
	}
	return p, err
}

// landed takes out of the series what upstream has whole, and says of the rest
// what it has of that.
func landed(s *spec.Series, result *patch.Result) {
	in := []spec.Chosen{}
	for _, f := range s.In {
		switch held, all := result.Held(f.Fix); {
		case held == all:
			s.Landed = append(s.Landed, spec.Excluded{
				Fix: f.Fix, Summary: f.Summary, Case: spec.Cured,
				Reason: fmt.Sprintf("%s; upstream has all of %s already", f.Reason, f.Patch+f.Commit),
			})
			continue
		case held > 0:
			f.Reason += fmt.Sprintf("; upstream has %d of its %d changes already", held, all)
		}
		in = append(in, f)
	}
	s.In = in
}

// Checkout writes the patched tree to dir, without the paths that the recipe
// excludes. What is there already and right is left alone.
func (p Patched) Checkout(ctx context.Context, dir string) (source.Stats, error) {
	return p.Result.Tree.Checkout(ctx, dir, p.excluded())
}

// Export writes the patches of the series to a folder, for git am and quilt.
func (p Patched) Export(ctx context.Context, e Workspace, dir string) (*merge.Exported, error) {
	return merge.Export(ctx, p.applied(e), dir, filepath.Join(e.Cache, "series.lock"), e.Log)
}

func (p Patched) applied(e Workspace) merge.Applied {
	return merge.Applied{FS: e.Repo.FS, Series: p.Series, Tree: p.Tree, Result: p.Result}
}

// excluded are the paths that are not written.
func (p Patched) excluded() []string { return slices.Concat(p.Recipe.Exclude, p.Lacks) }

// file is one in the folder of the tag and target.
func (p Patched) file(name string) string { return filepath.Join(p.Dir, name) }

// own is where the stages after the build write: the drop-in, of the same build
// folder as the whole target, has a folder of its own.
func (p Patched) own(name string) string {
	if p.DropIn == "" {
		return p.file(name)
	}
	return p.file(filepath.Join("backend", name))
}

// fixes are the ids of the series.
func (p Patched) fixes() []string {
	var ids []string
	for _, in := range p.Series.In {
		ids = append(ids, in.Fix)
	}
	return ids
}

// treeOf is the tree with some of the series' fixes; name is for an error.
func (p Patched) treeOf(name string, keep func(id string) bool) (*source.Tree, error) {
	in := p.fixes()
	res, err := patch.Apply(p.Tree, slices.DeleteFunc(slices.Clone(p.patches), func(one patch.Patch) bool {
		return !slices.Contains(in, one.Fix) || !keep(one.Fix)
	}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return res.Tree, nil
}

// noVersion reports whether a tree's build asks git alone for its version, as
// ik_llama.cpp's does without the fix ik-build-info.
func noVersion(upstream string, t *source.Tree) (bool, error) {
	const asks = "common/CMakeLists.txt"
	if _, there := t.Stat(asks); upstream == spec.LlamaCpp || !there {
		return false, nil
	}
	f, err := t.Read(asks)
	return !bytes.Contains(f.Data, []byte("LLAMA_BUILD_NUMBER")), err
}
