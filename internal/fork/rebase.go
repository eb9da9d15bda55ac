package fork

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// How a commit came onto another tag.
const (
	ByFix    = "declared" // by the patch that its fix declares for the tag
	Placed   = "placed"   // its own change has its places there
	Merged   = "merged"   // three ways, and git agrees
	Resolved = "resolved" // by hand, now or before
	Dropped  = "dropped"  // nothing of it is left to do, or it was left out
)

// Moved is what became of one commit.
type Moved struct {
	Old     string   `json:"old"`
	New     string   `json:"new,omitempty"` // "": it was dropped
	Fix     string   `json:"fix,omitempty"` // "": it is the user's own
	Subject string   `json:"subject"`
	How     string   `json:"how"`
	Why     string   `json:"why,omitempty"`
	Files   []string `json:"files,omitempty"` // that were merged, or taken from a resolution
}

// Rebased is a branch on another tag.
type Rebased struct {
	From    string  `json:"from"` // the branch that was moved; it is left as it was
	Branch  string  `json:"branch"`
	Tag     string  `json:"tag"`
	Base    string  `json:"base"`
	Tip     string  `json:"tip"`
	Commits []Moved `json:"commits"`
}

// RebaseOptions say what is moved.
type RebaseOptions struct {
	Branch string // "": the one that is checked out
	To     tag.Tag
	Name   string // of the branch that is made; "": llpatch/<tag>
	Drop   bool   // leave out what conflicts, instead of stopping
	Each   bool   // over every tag between, as far as that goes with nobody's help
	Follow map[string]string
}

// mover moves commits onto a tag.
type mover struct {
	*rebasing
	e       chain.Workspace
	r       *Repo
	old     Branch
	tree    *source.Tree // the tag's
	now     *source.Tree // as far as it is done
	repo    *source.Repository
	kept    patch.Resolutions
	last    *source.Tree
	lastOf  string   // the commit that last is the tree of: the next one's parent, most often
	pending []Commit // made, and not in the repository yet
}

// Rebase makes the branch of another tag of a branch's commits. It stops with a *Stopped
// where one needs somebody.
func Rebase(ctx context.Context, e chain.Workspace, r *Repo, o RebaseOptions) (_ *Rebased, err error) {
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	if s, err := r.load(); err != nil || s != nil {
		return nil, errors.Join(err, refuse(r.llpatch("fork", "rebase", "--continue")+", or --skip, or --abort",
			"a rebase is under way in %s", r.Dir))
	}
	b, err := r.Read(ctx, e.Repo, o.Branch)
	if err == nil {
		err = b.flat()
	}
	if err != nil {
		return nil, err
	}
	s := &rebasing{
		Branch: b.Name, From: b.Tip, Upstream: b.Upstream, To: o.To, Name: o.Name, Drop: o.Drop,
		Follow: o.Follow, Done: []Moved{},
	}
	if s.Name == "" {
		s.Name = Prefix + o.To.Short()
	}
	head, at, err := r.head(ctx)
	if err != nil {
		return nil, err
	}
	if s.Head = head; head == "" {
		s.Head = at
	}
	if o.Each {
		return r.each(ctx, e, s, b)
	}
	return r.move(ctx, e, s, b)
}

// each moves a branch over every tag between, makes the branch of the last one that needs nobody, and goes on
// from there as if the next one had been asked for.
func (r *Repo) each(ctx context.Context, e chain.Workspace, s *rebasing, b Branch) (_ *Rebased, err error) {
	way, ids, err := r.between(ctx, e.Repo, b, s.To)
	if err != nil {
		return nil, err
	}
	m := &mover{rebasing: s, e: e, r: r, old: b}
	if m.kept, err = patch.LoadResolutions(os.DirFS(e.Records.Dir)); err != nil {
		return nil, err
	}
	at, w, err := m.walk(ctx, way, ids)
	if err != nil {
		return nil, err
	}
	var done *Rebased
	if at != b.Tag {
		in, err := from(ctx, e, r, at)
		if err != nil {
			return nil, err
		}
		t, err := in.Fetch(ctx, s.Upstream, at) // verified, as every tag that a branch is made for
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		if t.ID() != w.tree.ID() {
			return nil, fmt.Errorf("%s has tree %s in %s, and %s is pinned", at, w.tree.ID(), r.Dir, t.ID())
		}
		if err := w.commit(t.Pin); err != nil {
			return nil, err
		}
		last := s.To
		if s.To = at; at != last {
			s.Name = Prefix + at.Short()
		}
		if done, err = m.finish(ctx); err != nil || at == last {
			return done, err
		}
		r.Log.Info("as far as it goes by itself", "branch", s.Name, "tag", at)
		if b, err = r.Read(ctx, e.Repo, s.Name); err != nil {
			return nil, err
		}
		s = &rebasing{
			Branch: b.Name, From: b.Tip, Head: s.Head, Upstream: s.Upstream, To: last, Follow: s.Follow,
			Done: []Moved{},
		}
	}
	i := slices.IndexFunc(way, func(rel release) bool { return rel.tag == at }) + 1
	s.To, s.Name, s.Base = way[i].tag, Prefix+way[i].tag.Short(), ""
	return r.move(ctx, e, s, b)
}

// move does what is left of a rebase.
func (r *Repo) move(ctx context.Context, e chain.Workspace, s *rebasing, b Branch) (_ *Rebased, err error) {
	m := &mover{rebasing: s, e: e, r: r, old: b}
	if m.kept, err = patch.LoadResolutions(os.DirFS(e.Records.Dir)); err != nil {
		return nil, err
	}
	in, err := from(ctx, e, r, s.To)
	if err != nil {
		return nil, err
	}
	if m.tree, err = in.Fetch(ctx, s.Upstream, s.To); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.tree.Close()) }()
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.repo.Close()) }()
	for _, c := range b.Commits[len(s.Done):] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.one(ctx, c); err != nil {
			return nil, err
		}
	}
	return m.finish(ctx)
}

// start finds the base and the tree that is gone on from.
func (m *mover) start(ctx context.Context) error {
	base, err := m.r.base(ctx, m.e, m.tree)
	if err != nil {
		return err
	}
	if m.Base == "" {
		m.Base, m.Tip, m.When = base.ID, base.ID, m.tree.Pin.Time
		if base.files != nil {
			if err := fill(m.tree, base); err != nil {
				return err
			}
			if err := m.r.put(ctx, rebaseRef, []Commit{base}); err != nil {
				return err
			}
			m.r.Log.Warn("the branch starts at a root of its own: upstream's commit is not to be had here", "tag", m.To)
		}
	}
	if m.repo, err = source.OpenRepository(m.r.common); err != nil {
		return err
	}
	m.now, err = m.repo.Tree(ctx, m.Tip)
	if err != nil {
		return err
	}
	if m.Clear {
		return m.clear(ctx)
	}
	return nil
}

// clear puts the work tree on what is done.
func (m *mover) clear(ctx context.Context) error {
	if _, err := m.r.git(ctx, "cherry-pick", "--quit"); err != nil {
		return err
	}
	args := []string{"checkout", "-q", "--detach", m.Tip}
	if m.Force {
		args = append(args, "-f")
	}
	if _, err := m.r.place(ctx, args...); err != nil {
		return fmt.Errorf("check out what is done: %s", said(err))
	}
	m.Clear, m.Force = false, false
	return m.r.save(m.rebasing)
}

// one moves the next commit.
func (m *mover) one(ctx context.Context, c Commit) error {
	p, before, err := m.piece(ctx, c)
	if err == nil && p.done.How != Dropped {
		p, err = m.onto(p, m.tree.Pin.Build)
	}
	if err != nil {
		return err
	}
	if p.done.How == Dropped {
		m.Done = append(m.Done, p.done)
		return nil
	}
	res, err := patch.Apply(m.now, p.patches)
	if len(conflictsIn(err)) > 0 && len(p.was) == 1 {
		var merge *patch.Merge
		if merge, err = m.threeWay(ctx, &p.was[0], before, m.now, m.old.Base, m.Base); err == nil {
			res, p.variant, p.done.How = merge.Result, "", how(merge, &p.done)
		}
	}
	if conflicts := conflictsIn(err); len(conflicts) > 0 {
		return m.stop(ctx, c, p.done, conflicts)
	}
	if err != nil {
		return err
	}
	if res.Tree.ID() == m.now.ID() {
		p.done.How, p.done.Why = Dropped, "upstream has all of it"
		m.Done = append(m.Done, p.done)
		return nil
	}
	files, err := changedFiles(m.now, res.Tree)
	if err != nil {
		return err
	}
	return m.add(p, m.now, files, m.tree.Pin)
}

// add makes the commit of a piece on what is done.
func (m *mover) add(p *piece, on *source.Tree, files map[string]*source.File, pin spec.Pin) (err error) {
	next := Commit{
		Author: p.Author, Committer: p.Committer, Message: p.Message, Parents: []string{m.Tip},
		files: present(on, files),
	}
	if p.Fix != "" {
		next.Committer = ours(pin.Time)
	}
	if p.variant != "" {
		at := slices.IndexFunc(m.e.Repo.Fixes, func(f spec.Fix) bool { return f.ID == p.Fix })
		next.Message = message(p.patches[0].Header, p.Fix, m.e.Repo.Fixes[at].Reports, "")
	}
	if m.now, err = on.With(next.files); err != nil {
		return err
	}
	next.Tree = m.now.ID()
	next.ID = next.sum()
	p.done.New, m.Tip = next.ID, next.ID
	m.Done, m.pending = append(m.Done, p.done), append(m.pending, next)
	return nil
}

// treeOf is the tree of a commit of the old branch.
func (m *mover) treeOf(ctx context.Context, commit string) (*source.Tree, error) {
	if m.lastOf == commit {
		return m.last, nil
	}
	t, err := m.repo.Tree(ctx, commit)
	if err == nil {
		m.last, m.lastOf = t, commit
	}
	return t, err
}

// how says how a merge came about, and notes its files.
func how(merge *patch.Merge, done *Moved) string {
	is := Placed
	for _, f := range merge.Files {
		if f.Landed {
			continue
		}
		done.Files = append(done.Files, f.Path)
		if f.From != "" {
			done.Files[len(done.Files)-1] += " (" + f.From + " before)"
		}
		if f.Resolution != "" {
			is = Resolved
			done.Files[len(done.Files)-1] += " (" + f.Resolution + ")"
		} else if is == Placed {
			is = Merged
		}
	}
	return is
}

// conflictsIn takes the conflicts out of an error of package patch.
func conflictsIn(err error) []*patch.Conflict {
	var out []*patch.Conflict
	if c := new(patch.Conflict); errors.As(err, &c) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				if c := new(patch.Conflict); errors.As(e, &c) {
					out = append(out, c)
				}
			}
			return out
		}
		out = append(out, c)
	}
	return out
}

// finish writes the branch and forgets the rebase.
func (m *mover) finish(ctx context.Context) (*Rebased, error) {
	out := &Rebased{From: m.old.label(), Branch: m.Name, Tag: m.To.String(), Base: m.Base, Tip: m.Tip, Commits: m.Done}
	if m.old.Name != "" {
		if at, err := m.r.commit(ctx, "refs/heads/"+m.old.Name); err != nil || at != m.From {
			return nil, errors.Join(err, refuse(m.r.llpatch("fork", "rebase", "--abort")+
				", and again: what was solved by hand is remembered",
				"%s has moved since the rebase began, to %.12s", m.old.Name, at))
		}
	}
	made := &Made{Branch: m.Name, Base: m.Base, Tip: m.Tip, Tree: m.now.ID()}
	if _, err := m.r.write(ctx, made, m.pending, Ident{}); err != nil {
		return nil, err
	}
	if m.Left {
		if _, err := m.r.git(ctx, "cherry-pick", "--quit"); err != nil {
			return nil, err
		}
		if _, err := m.r.place(ctx, "checkout", "-q", m.Name); err != nil {
			return nil, fmt.Errorf("%s is made; check it out: %s", m.Name, said(err))
		}
	}
	return out, m.r.forget(ctx)
}
