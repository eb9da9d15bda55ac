package fork

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// BackportOptions say what is taken from upstream's history.
type BackportOptions struct {
	Commits  []string // of upstream's, in the order in which they are applied
	Upstream string
	To       tag.Tag
	Branch   string // that they are put on; "": llpatch/<tag>, which is made where there is none
	New      string // the fix that they become by reference; of several NEW-1, NEW-2 and so on; "": none
	History  string // a repository with upstream's tags, for the range; "": there is none
}

// Backported says what was taken.
type Backported struct {
	Tag     string  `json:"tag"`
	Branch  string  `json:"branch"`
	Tip     string  `json:"tip"`
	Commits []Moved `json:"commits"`
	// commits that the tag does not have, and that made the lines which had to be merged
	Needs []Cause  `json:"needs,omitempty"`
	Dir   string   `json:"dir,omitempty"`
	Files []string `json:"files,omitempty"` // of the new fixes
}

// Backport puts commits of upstream's onto a tag's branch, each placed or merged three ways, and with
// New declares them as fixes by reference: the declarations name the commit, and hold a
// resolution where it had to be merged.
func Backport(ctx context.Context, e chain.Workspace, r *Repo, o BackportOptions) (_ *Backported, err error) {
	if o.New != "" && e.Records.Dir == e.Records.Cache {
		return nil, refuse("-C DIR: a new folder is laid over llpatch's own fixes",
			"the fixes are those inside llpatch, which cannot be written")
	}
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	b := &backport{e: e, r: r, o: o, out: Backported{Tag: o.To.String(), Branch: o.Branch}}
	if b.out.Branch == "" {
		b.out.Branch = Prefix + o.To.Short()
	}
	in, err := from(ctx, e, r, o.To)
	if err != nil {
		return nil, err
	}
	if b.tree, err = in.Fetch(ctx, o.Upstream, o.To); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.tree.Close()) }()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.repo.Close()) }()
	for i, name := range o.Commits {
		if err := b.take(ctx, name, b.id(i)); err != nil {
			return nil, err
		}
	}
	if o.New != "" && len(b.taken) > 0 {
		if err := b.declare(ctx); err != nil {
			return nil, err
		}
	}
	b.out.Tip = b.tip
	return &b.out, b.write(ctx)
}

// backport is one under way.
type backport struct {
	e       chain.Workspace
	r       *Repo
	o       BackportOptions
	out     Backported
	tree    *source.Tree // the tag's
	repo    *source.Repository
	on      Branch // what it begins on
	old     string // the branch's commit; "": there is none
	base    string
	tip     string
	now     *source.Tree
	earlier []patch.Patch // of the fixes below
	kept    patch.Resolutions
	pending []Commit
	taken   []taking
}

// taking is one commit that was taken.
type taking struct {
	fix    newFix
	commit Commit
	p      patch.Patch
	merge  *patch.Merge
}

// id is the name of the i-th commit's fix.
func (b *backport) id(i int) string {
	if b.o.New == "" || len(b.o.Commits) == 1 {
		return b.o.New
	}
	return fmt.Sprintf("%s-%d", b.o.New, i+1)
}

// begin finds what the commits are put on.
func (b *backport) begin(ctx context.Context) error {
	base, err := b.r.base(ctx, b.e, b.tree)
	if err != nil {
		return err
	}
	b.base, b.tip, b.now = base.ID, base.ID, b.tree
	if base.files != nil {
		if err := fill(b.tree, base); err != nil {
			return err
		}
		b.pending = append(b.pending, base)
	}
	if b.old, err = b.r.commit(ctx, "refs/heads/"+b.out.Branch); err != nil {
		return err
	}
	b.on = Branch{Name: b.out.Branch, Upstream: b.o.Upstream, Tag: b.o.To}
	if b.old != "" {
		if b.on, err = b.r.Read(ctx, b.e.Repo, b.out.Branch); err != nil {
			return err
		}
		if b.on.Base != b.base {
			return refuse("--branch NAME", "%s does not stand on %s", b.out.Branch, b.o.To)
		}
		b.tip, b.pending = b.old, nil
	}
	if b.repo, err = source.OpenRepository(b.r.common); err != nil {
		return err
	}
	if b.old != "" {
		if b.now, err = b.repo.Tree(ctx, b.old); err != nil {
			return err
		}
	}
	if b.kept, err = patch.LoadResolutions(b.e.Repo.FS); err != nil {
		return err
	}
	return b.below(ctx)
}

// below reads the patches of the fixes that the branch holds.
func (b *backport) below(ctx context.Context) error {
	if len(b.on.Commits) == 0 {
		return nil
	}
	_, in, _, err := expected(ctx, b.e, b.r, b.on, nil)
	if err != nil {
		return err
	}
	e, err := from(ctx, b.e, b.r, b.o.To)
	if err != nil {
		return err
	}
	var lacks spec.Reasons
	b.earlier, lacks, err = merge.Patches(ctx, e.Repo.FS, e.Sources(), &spec.Series{Upstream: b.o.Upstream, In: in})
	for fix, why := range lacks { // the branch has it: without its patch nothing can be put behind
		err = errors.Join(err, fmt.Errorf("%s: %s", fix, why))
	}
	return err
}

// take puts one commit onto what there is.
func (b *backport) take(ctx context.Context, name, fix string) error {
	id, err := b.r.commit(ctx, name)
	if err != nil {
		return err
	}
	if id == "" {
		id = name // what the repository lacks another history may have
	}
	if _, err := b.r.git(ctx, "merge-base", "--is-ancestor", id, b.base); err == nil {
		return refuse("", "%s has %s already", b.o.To, name)
	}
	e, err := from(ctx, b.e, b.r, b.o.To)
	if err != nil {
		return err
	}
	change, err := source.UpstreamCommit(ctx, e.Sources(), b.o.Upstream, id)
	if err != nil {
		return fmt.Errorf("backport %s: %w", name, err)
	}
	_, ps, err := patch.FromCommit(change, fix, id[:12]+".patch")
	if err != nil {
		return refuse("", "backport: %v", err)
	}
	c := Commit{
		ID: id, Parents: change.Parents, Author: Ident{change.Author, change.Email, change.When},
		Committer: ours(b.tree.Pin.Time),
		Message:   change.Message, Fix: fix,
	}
	done := Moved{Old: id, Fix: fix, Subject: c.Subject(), How: Placed}
	start, err := merge.Before(change)
	if err != nil {
		return err
	}
	if start, err = patch.Replay(start, b.earlier, &ps[0]); err != nil || start == nil {
		return errors.Join(err, fmt.Errorf("backport %s: the commit does not fit its own parent", name))
	}
	m, err := patch.ThreeWay(ctx, &ps[0], start, b.now, patch.MergeOptions{
		Git: b.r.program, NeedGit: true,
		Resolutions: b.kept,
	})
	if conflicts := conflictsIn(err); len(conflicts) > 0 {
		return b.r.notAlone(&NotAlone{
			Commit: c, Tag: b.o.To.String(), Conflicts: conflicts,
			Needs: b.r.needs(ctx, c, b.base, conflicts),
		})
	}
	if err != nil {
		return err
	}
	if done.How = how(m, &done); done.How != Placed {
		if _, err := patch.Apply(b.now, ps); len(conflictsIn(err)) > 0 {
			b.out.Needs = append(b.out.Needs, b.r.needs(ctx, c, b.base, conflictsIn(err))...)
		}
	}
	if m.Result.Tree.ID() == b.now.ID() {
		done.How, done.Why = Dropped, "the branch has all of it"
		b.out.Commits = append(b.out.Commits, done)
		return nil
	}
	fresh := newFix{id: fix, subject: c.Subject(), message: c.Message, status: "upstream"}
	if pull := pullRequest.FindStringSubmatch(c.Subject()); pull != nil && b.o.Upstream == spec.LlamaCpp {
		fresh.reports = []string{"https://github.com/ggml-org/llama.cpp/pull/" + pull[1]}
	}
	next := c
	next.Parents, next.Tree = []string{b.tip}, m.Result.Tree.ID()
	if fix != "" {
		next.Message = message(ps[0].Header, fix, fresh.addresses(), id)
	} else {
		next.Message = strings.TrimRight(next.Message, "\n") + "\n\n(cherry picked from commit " + id + ")\n"
	}
	if next.files, err = changedFiles(b.now, m.Result.Tree); err != nil {
		return err
	}
	next.ID = next.sum()
	b.pending = append(b.pending, next)
	b.taken = append(b.taken, taking{fresh, c, ps[0], m})
	b.earlier = append(b.earlier, ps[0])
	b.now, b.tip, done.New = m.Result.Tree, next.ID, next.ID
	b.out.Commits = append(b.out.Commits, done)
	return nil
}

// write moves the branch, and the work tree with it where it is checked out there.
func (b *backport) write(ctx context.Context) error {
	if b.tip == b.old {
		return nil
	}
	if b.old == "" {
		m := &Made{Branch: b.out.Branch, Base: b.base, Tip: b.tip, Tree: b.now.ID()}
		_, err := b.r.write(ctx, m, b.pending, Ident{})
		return err
	}
	at, err := b.r.where(ctx, b.out.Branch)
	if err != nil {
		return err
	}
	if err := b.r.put(ctx, newRef, b.pending); err != nil {
		return err
	}
	if at != "" {
		if at != b.r.work {
			return refuse("--repo "+run.Quote(at), "%s is checked out in %s", b.out.Branch, at)
		}
		_, err = b.r.place(ctx, "merge", "-q", "--ff-only", b.tip)
	} else {
		_, err = b.r.git(ctx, "update-ref", "refs/heads/"+b.out.Branch, b.tip, b.old)
	}
	if err != nil {
		return fmt.Errorf("%s: %s", b.out.Branch, said(err))
	}
	_, err = b.r.git(ctx, "update-ref", "-d", newRef)
	return err
}

// declare makes fixes of the commits, by reference.
func (b *backport) declare(ctx context.Context) error {
	d, err := newDeclaring(ctx, b.e, b.r, b.on)
	if err != nil {
		return err
	}
	var all []*foreign
	for _, t := range b.taken {
		all = append(all, &foreign{from: t.commit.ID, id: t.fix.id, ps: []patch.Patch{t.p}, about: about{lo: d.lo, hi: d.hi}})
	}
	if b.o.History != "" {
		h, err := compat.Open(b.o.History, b.o.Upstream, b.e.Repo.Lock[b.o.Upstream])
		if err != nil {
			return err
		}
		err = reach(ctx, b.e, h, d, all)
		if err := errors.Join(err, h.Close()); err != nil {
			return err
		}
	}
	var ids []string
	for _, c := range b.on.Commits {
		if c.Fix != "" && !slices.Contains(ids, c.Fix) {
			ids = append(ids, c.Fix)
		}
	}
	for i, t := range b.taken {
		if slices.ContainsFunc(b.e.Repo.Fixes, func(f spec.Fix) bool {
			return f.ID == t.fix.id
		}) || !fixID.MatchString(t.fix.id) {
			return refuse("another name", "--new %s: there is such a fix, or it is no name of lower-case words "+
				"joined by hyphens", t.fix.id)
		}
		for _, res := range t.merge.Resolutions() {
			d.files[path.Join(patch.ResolutionDir, res.Name())] = res.Encode()
		}
		block := fmt.Sprintf("\n[[variant]]\nrange  = %s\ncommit = %s\nwhy    = %s\n",
			quote(span(all[i].lo, all[i].hi, false)), quote(t.commit.ID),
			quote(fmt.Sprintf("It is upstream's commit, tried on %s.", b.o.To)))
		if err := d.fix(t.fix, nil, []byte(block)); err != nil {
			return err
		}
		ids = append(ids, t.fix.id)
	}
	b.out.Dir = filepath.Clean(b.e.Records.Dir)
	b.out.Files, err = d.write(ctx, ids, b.now)
	return err
}
