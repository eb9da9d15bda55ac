package fork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// walker moves the pieces of a branch from tag to tag, in memory.
type walker struct {
	*mover
	pieces []*piece
	tree   *source.Tree  // the tag's where they are
	res    *patch.Result // with them
	gone   []Moved
	next   string // the commit of the tag that they go to
}

// stop at the pieces' own tag: the next one needs somebody.
var errNeeded = errors.New("a commit conflicts")

// between are the releases behind a branch's own up to another, in their order.
func (r *Repo) between(ctx context.Context, repo *spec.Repo, b Branch,
	to tag.Tag,
) ([]release, map[release]string, error) {
	known, err := r.releases(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	build := func(t tag.Tag) int { return buildOf(repo, Branch{Upstream: b.Upstream, Tag: t}) }
	ids := map[release]string{}
	var way []release
	for id, rel := range known {
		if n := build(rel.tag); rel.upstream == b.Upstream && n > build(b.Tag) && n <= build(to) {
			way, ids[rel] = append(way, rel), id
		}
	}
	slices.SortFunc(way, func(a, b release) int { return cmp.Compare(build(a.tag), build(b.tag)) })
	if len(way) == 0 || build(way[len(way)-1].tag) != build(to) {
		return nil, nil, refuse(r.command("fetch", "--tags"), "%s has no way from %s to %s: it lacks the tag", r.Dir, b.Tag,
			to)
	}
	return way, ids, nil
}

// walk moves the branch over every tag up to its aim and returns the last that it got to
// with nobody's help; with Drop that is the aim.
func (m *mover) walk(ctx context.Context, way []release, ids map[release]string) (tag.Tag, *walker, error) {
	w := &walker{mover: m}
	var err error
	if m.repo, err = source.OpenRepository(m.r.common); err != nil {
		return tag.Tag{}, nil, err
	}
	if err := w.enter(ctx); err != nil {
		return tag.Tag{}, nil, errors.Join(err, m.repo.Close())
	}
	at := m.old.Tag
	m.Base = m.old.Base
	for _, rel := range way {
		if err := ctx.Err(); err != nil {
			return at, w, errors.Join(err, m.repo.Close())
		}
		tree, err := m.repo.Tree(ctx, ids[rel])
		if w.next = ids[rel]; err == nil {
			err = w.step(ctx, tree, rel.tag)
		}
		if errors.Is(err, errNeeded) {
			break
		}
		if err != nil {
			return at, w, errors.Join(err, m.repo.Close())
		}
		at, m.Base = rel.tag, ids[rel]
	}
	return at, w, m.repo.Close()
}

// enter makes pieces of the branch's commits.
func (w *walker) enter(ctx context.Context) (err error) {
	if w.tree, err = w.repo.Tree(ctx, w.old.Base); err != nil {
		return err
	}
	for _, c := range w.old.Commits {
		p, _, err := w.piece(ctx, c)
		if err != nil {
			return err
		}
		if p.done.How == Dropped {
			w.gone = append(w.gone, p.done)
			continue
		}
		w.pieces = append(w.pieces, p)
	}
	w.res, err = patch.Apply(w.tree, series(w.pieces))
	return err
}

func series(pieces []*piece) []patch.Patch {
	var all []patch.Patch
	for _, p := range pieces {
		all = append(all, p.patches...)
	}
	return all
}

// made is what each piece makes of the files, in the order of the pieces.
func made(res *patch.Result, pieces []*piece) []map[string]*source.File {
	out := make([]map[string]*source.File, len(pieces))
	at := 0
	for i, p := range pieces {
		out[i] = map[string]*source.File{}
		for range p.patches {
			maps.Copy(out[i], res.Steps[at].Files)
			at++
		}
	}
	return out
}

// step moves the pieces to the next tag.
func (w *walker) step(ctx context.Context, tree *source.Tree, t tag.Tag) error {
	var next []*piece
	var gone []Moved
	for _, p := range w.pieces {
		n, err := w.onto(p, buildOf(w.e.Repo, Branch{Upstream: w.Upstream, Tag: t}))
		if err != nil {
			return err
		}
		if n.done.How == Dropped {
			gone = append(gone, n.done)
			continue
		}
		next = append(next, n)
	}
	res, err := patch.Apply(tree, series(next))
	if len(conflictsIn(err)) > 0 {
		var left []Moved
		next, left, err = w.merge(ctx, next, tree, t)
		if gone = append(gone, left...); err == nil {
			res, err = patch.Apply(tree, series(next))
		}
	}
	if err != nil {
		return err
	}
	var left []*piece
	for i, files := range made(res, next) {
		if len(files) > 0 {
			left = append(left, next[i])
			continue
		}
		d := next[i].done
		d.How, d.Why = Dropped, fmt.Sprintf("upstream has all of it from %s on", t)
		gone = append(gone, d)
	}
	if len(left) != len(next) {
		if res, err = patch.Apply(tree, series(left)); err != nil {
			return err
		}
	}
	w.pieces, w.tree, w.res, w.gone = left, tree, res, append(w.gone, gone...)
	return nil
}

// merge moves the pieces one by one, and merges what has no place.
func (w *walker) merge(ctx context.Context, next []*piece, tree *source.Tree,
	t tag.Tag,
) (kept []*piece, gone []Moved, err error) {
	now, before := tree, w.tree
	files := made(w.res, w.pieces)
	at := 0 // of the piece in those that there were
	for _, p := range next {
		for ; w.pieces[at].ID != p.ID; at++ { // it is gone
			if before, err = before.With(present(before, files[at])); err != nil {
				return nil, nil, err
			}
		}
		res, err := patch.Apply(now, p.patches)
		if len(conflictsIn(err)) > 0 && len(p.was) == 1 {
			res, err = w.mergeOne(ctx, p, before, now)
		}
		if bad := conflictsIn(err); len(bad) > 0 {
			if !w.Drop {
				return nil, nil, errNeeded
			}
			d := p.done
			d.How, d.Why = Dropped, fmt.Sprintf("it does not fit %s: %s", t, strings.ReplaceAll(bad[0].Error(), "\n", " "))
			gone = append(gone, d)
		} else if err != nil {
			return nil, nil, err
		} else {
			now, kept = res.Tree, append(kept, p)
		}
		if before, err = before.With(present(before, files[at])); err != nil {
			return nil, nil, err
		}
		at++
	}
	return kept, gone, nil
}

// mergeOne merges one piece three ways, and makes its patch anew.
func (w *walker) mergeOne(ctx context.Context, p *piece, before, now *source.Tree) (*patch.Result, error) {
	m, err := w.threeWay(ctx, &p.was[0], before, now, w.Base, w.next)
	if err != nil {
		return nil, err
	}
	var merged Moved
	if is := how(m, &merged); p.done.How != Resolved {
		p.done.How = is
	}
	for _, f := range merged.Files {
		if !slices.Contains(p.done.Files, f) {
			p.done.Files = append(p.done.Files, f)
		}
	}
	p.variant = ""
	if m.Result.Tree.ID() == now.ID() {
		return m.Result, nil // its old patch says so, too, or it conflicts and is looked at again
	}
	change := source.Change{ID: p.ID, Author: "a", Email: "a", Message: p.Subject()}
	changes, err := changedFiles(now, m.Result.Tree)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		c := source.Changed{Path: name, After: changes[name]}
		if _, there := now.Stat(name); there {
			f, err := now.Read(name)
			if err != nil {
				return nil, err
			}
			c.Before = &f
		}
		change.Files = append(change.Files, c)
	}
	_, p.patches, err = patch.FromCommit(&change, p.was[0].Fix, p.was[0].Name)
	return m.Result, err
}

// commit makes commits of the pieces on the tag where they are.
func (w *walker) commit(pin spec.Pin) error {
	w.now, w.Tip, w.Done = w.tree, w.Base, append([]Moved{}, w.gone...)
	for i, files := range made(w.res, w.pieces) {
		if err := w.add(w.pieces[i], w.now, files, pin); err != nil {
			return err
		}
	}
	return nil
}
