package fork

import (
	"context"
	"fmt"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Prefix begins the names of llpatch's branches: llpatch/b8833.
const Prefix = "llpatch/"

// Branch is what a branch holds above the tag that it stands on.
type Branch struct {
	Name     string // "": a detached HEAD
	Tip      string
	Upstream string
	Tag      tag.Tag
	Base     string // the tag's commit, or the root that llpatch made for its tree
	BaseTree string // Base's
	Root     bool   // Base is that root
	Commits  []Commit
}

// farthest is how many commits are looked through for one that is a release.
const farthest = 20000

// Read reads a branch; "" is the one that is checked out. The tag is that of the nearest
// commit, along first parents, that is a release.
func (r *Repo) Read(ctx context.Context, repo *spec.Repo, name string) (Branch, error) {
	b := Branch{Name: name}
	var err error
	if name == "" {
		b.Name, b.Tip, err = r.head(ctx)
	} else {
		b.Tip, err = r.commit(ctx, "refs/heads/"+name)
	}
	if err != nil {
		return b, err
	}
	if b.Tip == "" && b.Name == "" {
		return b, refuse(r.command("switch")+" BRANCH", "no branch is checked out in %s", r.Dir)
	}
	if b.Tip == "" {
		return b, refuse(r.llpatch("fork", "make", "TAG")+" makes one", "%s has no branch %q", r.Dir, b.Name)
	}
	return b, r.stand(ctx, repo, &b)
}

// stand finds what a branch stands on, given its tip.
func (r *Repo) stand(ctx context.Context, repo *spec.Repo, b *Branch) error {
	known, err := r.releases(ctx, repo)
	if err != nil {
		return err
	}
	out, err := r.git(ctx, "rev-list", "--first-parent", fmt.Sprintf("--max-count=%d", farthest), b.Tip)
	if err != nil {
		return err
	}
	ids := strings.Fields(out)
	for _, id := range ids {
		if rel, ok := known[id]; ok {
			b.Upstream, b.Tag, b.Base = rel.upstream, rel.tag, id
			break
		}
	}
	if b.Base == "" && len(ids) < farthest {
		if err := r.root(ctx, b, ids[len(ids)-1]); err != nil {
			return err
		}
	}
	if err := r.named(ctx, repo, b); err != nil {
		return err
	}
	if b.Base == "" {
		return &Refusal{
			Msg: fmt.Sprintf("%s stands on no release: none of its commits is one of a tag such as b8833, nor in %s",
				b.label(), spec.LockFile),
			Next: r.command("fetch", "--tags"), Code: exit.Source,
		}
	}
	if b.BaseTree, err = r.tree(ctx, b.Base); err == nil {
		b.Commits, err = r.log(ctx, b.Base+".."+b.Tip)
	}
	return err
}

// named takes the tag that the branch is called after, and refuses one that it does not
// stand on.
func (r *Repo) named(ctx context.Context, repo *spec.Repo, b *Branch) error {
	name, ok := strings.CutPrefix(b.Name, Prefix)
	t, err := tag.Parse(name)
	if !ok || err != nil || t == b.Tag {
		return nil //nolint:nilerr // it is called after no tag
	}
	at, err := r.commit(ctx, "refs/tags/"+name)
	if at == "" {
		at = repo.Lock[b.Upstream][name].Commit
	}
	if err != nil || at != "" && at == b.Base {
		b.Tag = t // its commit has two tags
		return err
	}
	return &Refusal{
		Msg: fmt.Sprintf("%s does not stand on %s: no commit of it is that tag's, the nearest release below it is %q",
			b.Name, t, b.Tag),
		Next: "where the tag is gone, " + r.command("fetch", "--tags") + " gets it back", Code: exit.Source,
	}
}

// label names the branch in messages.
func (b Branch) label() string {
	if b.Name == "" {
		return fmt.Sprintf("HEAD (%.12s)", b.Tip)
	}
	return b.Name
}

type release struct {
	upstream string
	tag      tag.Tag
}

// releases are the commits that are a tag's: those of the repository's own tags and those
// that are pinned, which win.
func (r *Repo) releases(ctx context.Context, repo *spec.Repo) (map[string]release, error) {
	out, err := r.git(ctx, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname) %(*objectname)", "refs/tags")
	if err != nil {
		return nil, err
	}
	known := map[string]release{}
	put := func(id, upstream string, t tag.Tag) {
		if have, ok := known[id]; !ok || t.Kind() < have.tag.Kind() {
			known[id] = release{upstream, t}
		}
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		t, err := tag.Parse(words[0])
		id := words[len(words)-1]
		if pin := repo.Lock[spec.LlamaCpp][words[0]]; err != nil || t.Kind() == tag.Commit || pin.Commit != "" &&
			pin.Commit != id {
			continue
		}
		put(id, spec.LlamaCpp, t)
	}
	for upstream, pins := range repo.Lock {
		for name, pin := range pins {
			if t, err := tag.Parse(name); err == nil && pin.Commit != "" {
				put(pin.Commit, upstream, t)
			}
		}
	}
	return known, nil
}

// root takes the first commit for the branch's base if llpatch made it.
func (r *Repo) root(ctx context.Context, b *Branch, id string) error {
	first, err := r.log(ctx, "--max-count=1", id)
	if err != nil || len(first) != 1 || len(first[0].Parents) > 0 {
		return err
	}
	upstream, name, _ := strings.Cut(trailer(first[0].Message, trailerRoot), " ")
	if t, err := tag.Parse(name); err == nil {
		b.Upstream, b.Tag, b.Base, b.Root = upstream, t, id, true
	}
	return nil
}

// flat refuses merges among the commits.
func (b Branch) flat() error {
	for _, c := range b.Commits {
		if len(c.Parents) > 1 {
			return refuse("git rebase onto "+b.Tag.String()+" makes it flat", "%s is a merge: a series has one change a commit",
				c.short())
		}
	}
	return nil
}

// buildOf is the build number of a branch's tag, the lowest that it can be; 0: not known.
func buildOf(repo *spec.Repo, b Branch) int {
	if n, ok := b.Tag.Build(); ok {
		return n
	}
	return repo.Lock[b.Upstream][b.Tag.String()].Build
}
