package fork

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Want is which series becomes a branch.
type Want struct {
	Upstream string // whose tag it is; "": the target says so
	Tag      tag.Tag
	Target   string   // "": every fix that is for no one system
	With     []string // fixes that are taken only on request
	Own      bool     // no fix but those in the declarations' own folder, which is laid over llpatch's
	Branch   string   // "": llpatch/<tag>
}

// Made is the branch of a tag and a series.
type Made struct {
	Tag     string       `json:"tag"`
	Target  string       `json:"target,omitempty"`
	Branch  string       `json:"branch"`
	Base    string       `json:"base"`           // the tag's commit, or the root made for its tree
	Root    bool         `json:"root,omitempty"` // Base is such a root: upstream's commit was not to be had
	Commits []MadeCommit `json:"commits"`
	Tip     string       `json:"tip"`
	Tree    string       `json:"tree"`
	Name    string       `json:"name,omitempty"` // the tag that names the tip, such as b8833-llp3
	Written bool         `json:"written"`        // false: all of it was there
}

// MadeCommit is one commit of a branch.
type MadeCommit struct {
	ID      string `json:"id"`
	Fix     string `json:"fix"`
	Subject string `json:"subject"`
}

// Make makes the branch of a series in a repository, or finds it there. A branch that holds
// what the series does not give is left alone, with a *Refusal.
func Make(ctx context.Context, e chain.Workspace, r *Repo, w Want) (_ *Made, err error) {
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	p, err := patched(ctx, e, r, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Tree.Close()) }()
	base, err := r.base(ctx, e, p.Tree)
	if err != nil {
		return nil, err
	}
	commits, err := plan(p, base)
	if err != nil {
		return nil, err
	}
	m := &Made{
		Tag: p.Tree.Tag.String(), Target: w.Target, Branch: w.Branch, Base: base.ID, Root: base.files != nil,
		Commits: []MadeCommit{}, Tip: base.ID, Tree: p.Result.Tree.ID(),
	}
	if m.Branch == "" {
		m.Branch = Prefix + p.Tree.Tag.Short()
	}
	for _, c := range commits {
		m.Commits = append(m.Commits, MadeCommit{c.ID, c.Fix, c.Subject()})
		m.Tip = c.ID
	}
	for _, l := range p.Series.Landed {
		r.Log.Info("upstream has all of it: it gets no commit", "fix", l.Fix)
	}
	if m.Root {
		if err := fill(p.Tree, base); err != nil {
			return nil, err
		}
		r.Log.Warn("the branch starts at a root of its own, not at upstream's commit, which is not to be had here: its "+
			"ids differ from a branch's on upstream's history",
			"tag", m.Tag, "commit", p.Tree.Pin.Commit)
		commits = append([]Commit{base}, commits...)
	}
	if w.Target != "" {
		m.Name = fmt.Sprintf("%s-llp%d", p.Tree.Tag.Short(), revision(e.Repo, p))
	}
	m.Written, err = r.write(ctx, m, commits, ours(p.Tree.Pin.Time))
	if err != nil || !r.fresh || r.work == "" {
		return m, err
	}
	if _, err := r.place(ctx, "checkout", "-q", m.Branch); err != nil {
		why := said(err)
		if m.Written {
			_, err = r.git(context.WithoutCancel(ctx), "update-ref", "-d", "refs/heads/"+m.Branch, m.Tip)
		}
		return nil, errors.Join(refuse("move them away, or --repo with a folder that is not there",
			"%s cannot be checked out in %s, and was not made: %s", m.Branch, r.Dir, why), err)
	}
	return m, nil
}

// revision is the n of -llp<n> that a release of the tree has, or would get.
func revision(repo *spec.Repo, p chain.Patched) int {
	list := repo.Revisions[p.Series.Upstream][p.Series.Tag][p.Series.Target]
	for _, rev := range slices.Backward(list) {
		if rev.Tree == p.Result.Tree.ID() {
			return rev.N
		}
	}
	return len(list) + 1
}

// patched places a series in memory. Where the repository has the tag and no source was
// given, the tag comes from there.
func patched(ctx context.Context, e chain.Workspace, r *Repo, w Want) (chain.Patched, error) {
	e, err := from(ctx, e, r, w.Tag)
	if err != nil {
		return chain.Patched{}, err
	}
	o := chain.Order{Tag: e.Repo.Lock.Named(w.Upstream, w.Tag), Recipe: chain.AnyTarget(w.Upstream)}
	if w.Target != "" {
		o, err = chain.NewOrder(e, w.Tag, w.Target, chain.Flags{With: w.With})
		if of := o.Recipe.Upstream; err == nil && w.Upstream != "" && w.Upstream != of {
			err = refuse("", "%s is a target of %s, and not of %s", w.Target, of, w.Upstream)
		}
	} else {
		for _, id := range w.With {
			if !slices.ContainsFunc(e.Repo.Fixes, func(f spec.Fix) bool { return f.ID == id }) {
				return chain.Patched{}, &chain.BadOption{Flag: "--with", Err: e.Repo.Ask(&o.Recipe, []string{id})}
			}
		}
		e.Repo = only(e.Repo, func(f spec.Fix) bool {
			return (len(f.OS) == 0 && !f.OptIn || slices.Contains(w.With, f.ID)) &&
				(!w.Own || declares(e, f.ID))
		})
		err = e.CheckTag(w.Upstream, o.Tag)
	}
	if err != nil {
		return chain.Patched{}, err
	}
	return chain.Patch(ctx, e, o, nil)
}

// declares reports whether a fix lies in the declarations' own folder, and is not what that is laid over.
func declares(e chain.Workspace, fix string) bool {
	return isFile(filepath.Join(e.Records.Dir, "patches", fix, "fix.toml"))
}

// from is the environment in which the tag comes from the repository itself, if it has it.
func from(ctx context.Context, e chain.Workspace, r *Repo, t tag.Tag) (chain.Workspace, error) {
	if e.Source != "" || r == nil {
		return e, nil
	}
	id, err := r.commit(ctx, "refs/tags/"+t.String())
	if err == nil && id != "" {
		pin := e.Repo.Lock[spec.LlamaCpp][t.String()]
		if pin.Commit == "" || pin.Commit == id {
			e.Source = r.Dir
			e.Log = slog.New(slog.DiscardHandler) // that the cache has it too is nothing to tell
		}
	}
	return e, err
}

// only is the declarations with some of their fixes, each for any system and nobody's to ask for.
func only(repo *spec.Repo, keep func(spec.Fix) bool) *spec.Repo {
	n := *repo
	n.Fixes = nil
	for _, f := range repo.Fixes {
		if keep(f) {
			f.OS, f.OptIn, f.Requires = nil, false, nil
			n.Fixes = append(n.Fixes, f)
		}
	}
	return &n
}

// plan makes the commits of a series in memory: base and nothing else decides their ids.
func plan(p chain.Patched, base Commit) ([]Commit, error) {
	var commits []Commit
	parent, tree := base.ID, p.Tree
	when := ours(p.Tree.Pin.Time)
	for _, in := range p.Series.In {
		c := Commit{Fix: in.Fix, Parents: []string{parent}, Committer: when, Author: when, files: map[string]*source.File{}}
		for _, s := range p.Result.Steps {
			if s.Fix != in.Fix {
				continue
			}
			if c.Message == "" {
				c.Message = message(s.Header, in.Fix, in.Reports, in.Commit)
				if s.Header.Author != "" || s.Header.Email != "" {
					c.Author.Name, c.Author.Email = s.Header.Author, s.Header.Email
				}
				if at, err := s.Header.Time(); err == nil {
					c.Author.When = at
				}
			}
			maps.Copy(c.files, s.Files)
		}
		next, err := tree.With(present(tree, c.files))
		if err != nil {
			return nil, fmt.Errorf("commit of %s: %w", in.Fix, err)
		}
		tree, c.Tree = next, next.ID()
		c.ID = c.sum()
		parent = c.ID
		commits = append(commits, c)
	}
	if tree.ID() != p.Result.Tree.ID() {
		return nil, fmt.Errorf("the commits give tree %s, and the series %s", tree.ID(), p.Result.Tree.ID())
	}
	return commits, nil
}

// present leaves out deletions of what a tree does not have: a later patch of the same fix
// may have deleted what an earlier one made.
func present(tree *source.Tree, files map[string]*source.File) map[string]*source.File {
	maps.DeleteFunc(files, func(path string, f *source.File) bool {
		_, there := tree.Stat(path)
		return f == nil && !there
	})
	return files
}

// Where new commits lie until their branch is written.
const newRef = "refs/llpatch/new"

// write puts the commits into the repository and moves the branch, in one step. It reports
// whether anything was new.
func (r *Repo) write(ctx context.Context, m *Made, commits []Commit, tagger Ident) (_ bool, err error) {
	old, err := r.commit(ctx, "refs/heads/"+m.Branch)
	if err != nil {
		return false, err
	}
	if old == "" {
		if _, err := r.git(ctx, "check-ref-format", "--branch", m.Branch); err != nil {
			return false, refuse("", "%q is no name for a branch", m.Branch)
		}
	}
	if err := r.replaceable(ctx, m, old); err != nil {
		return false, err
	}
	var refs bytes.Buffer
	wrote := old != m.Tip
	if wrote {
		defer func() {
			_, derr := r.git(context.WithoutCancel(ctx), "update-ref", "-d", newRef)
			err = errors.Join(err, derr)
		}()
		if err := r.put(ctx, newRef, commits); err != nil {
			return false, err
		}
		fmt.Fprintf(&refs, "update refs/heads/%s %s %s\n", m.Branch, m.Tip, orZero(old))
	}
	if m.Name != "" {
		line, err := r.name(ctx, m, tagger)
		if err != nil {
			return false, err
		}
		refs.WriteString(line)
		wrote = wrote || line != ""
	}
	if refs.Len() > 0 {
		if _, err := r.feed(ctx, &refs, "update-ref", "--stdin"); err != nil {
			next := "again, when nobody else writes it"
			if strings.Contains(lastLine(err), "exists") {
				next = "--branch NAME takes another name"
			}
			return false, refuse(next, "%s cannot be written: %s", m.Branch, lastLine(err))
		}
	}
	return wrote, nil
}

func orZero(id string) string {
	if id == "" {
		return strings.Repeat("0", 40)
	}
	return id
}

// put writes commits as objects, and keeps them by a ref.
func (r *Repo) put(ctx context.Context, ref string, commits []Commit) error {
	if len(commits) == 0 {
		return nil
	}
	if _, err := r.feed(ctx, stream(ref, commits), "fast-import", "--quiet", "--force",
		"--date-format=raw-permissive"); err != nil {
		return fmt.Errorf("write commits: %s", said(err))
	}
	got, err := r.commit(ctx, ref)
	if last := commits[len(commits)-1]; err == nil && got != last.ID {
		err = fmt.Errorf("git made commit %s, and %s was computed", got, last.ID)
	}
	return err
}

// replaceable refuses to move a branch off what nothing else holds, and under a work tree.
func (r *Repo) replaceable(ctx context.Context, m *Made, old string) error {
	if old == "" || old == m.Tip {
		return nil
	}
	tree, err := r.tree(ctx, old)
	if err != nil || tree == m.Tree {
		return err
	}
	above, err := r.log(ctx, m.Base+".."+old)
	if err != nil {
		return err
	}
	for _, c := range above {
		if o := ours(c.Committer.When); c.Committer.Name != o.Name || c.Committer.Email != o.Email {
			return refuse(r.llpatch("fork", "export")+" puts it into the fixes; --branch NAME makes another branch",
				"%s holds what the fixes do not give: %s, committed by %s",
				m.Branch, c.short(), c.Committer.Name)
		}
	}
	at, err := r.where(ctx, m.Branch)
	if err == nil && at != "" {
		return refuse(run.QuoteArgv([]string{"git", "-C", at, "switch", "--detach"}),
			"%s is checked out in %s, and would change under it", m.Branch, at)
	}
	return err
}

// name is the line for update-ref that gives the tip its name; "" where it has it, or
// another commit does, which is told.
func (r *Repo) name(ctx context.Context, m *Made, tagger Ident) (string, error) {
	text := fmt.Sprintf("object %s\ntype commit\ntag %s\ntagger %s\n\n%s for %s, with the fixes of llpatch\n", m.Tip,
		m.Name, tagger, m.Tag, m.Target)
	id := objectID("tag", []byte(text))
	have, err := r.git(ctx, "rev-parse", "-q", "--verify", "refs/tags/"+m.Name)
	if have != "" || err != nil && !failed(err) {
		if at, cerr := r.commit(ctx, "refs/tags/"+m.Name); cerr == nil && at != m.Tip {
			r.Log.Warn("the tag names another commit and stays as it is; if nobody has it yet, "+r.command("tag", "-d", m.Name)+
				", and make it again",
				"tag", m.Name, "commit", at)
		}
		return "", nil
	}
	if _, err := r.feed(ctx, strings.NewReader(text), "hash-object", "-t", "tag", "-w", "--stdin"); err != nil {
		return "", err
	}
	return fmt.Sprintf("create refs/tags/%s %s\n", m.Name, id), nil
}
