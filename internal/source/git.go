package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// errNoTag says that a source works but does not have the tag.
var errNoTag = errors.New("it has no such tag")

// fromRepository takes the tree from a repository on this machine, in place.
func (f *fetcher) fromRepository(ctx context.Context, path string, t tag.Tag, want want) (*Tree, error) {
	g, err := findGitDir(path)
	if err != nil {
		return nil, err
	}
	st := &store{where: path, open: g.storages}
	tree, err := f.fromStore(ctx, st, t, want)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	tree.InPlace = true
	return tree, nil
}

func (f *fetcher) fromStore(ctx context.Context, st *store, t tag.Tag, want want) (*Tree, error) {
	r, err := st.acquire()
	if err != nil {
		return nil, err
	}
	defer st.release(r)
	commit, err := r.resolve(t, want)
	if err != nil {
		return nil, err
	}
	pin := pinOf(commit)
	if err := f.judge(t, st.where, want, pin); err != nil {
		return nil, err
	}
	if want.known {
		pin = want.pin
	} else if pin, err = r.counted(ctx, t, want, commit); err != nil {
		return nil, err
	}
	entries, err := loadTree(ctx, st, pin.Tree)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errNoFile
	}
	return &Tree{Tag: t, Upstream: f.upstream, Pin: pin, id: pin.Tree, entries: entries, store: st}, nil
}

// pinOf returns what a commit says of itself.
func pinOf(c *object.Commit) spec.Pin {
	return spec.Pin{Commit: c.Hash.String(), Tree: c.TreeHash.String(), Time: c.Committer.When.UTC()}
}

// resolve finds a tag's commit. It looks only where the tag must be, under
// refs/tags: a name like b2034 is also the beginning of commit ids, and
// searching finds the wrong one. A repository that lost the tag still has the
// pinned commit.
func (r *reader) resolve(t tag.Tag, want want) (*object.Commit, error) {
	if t.Kind() == tag.Commit {
		c, err := r.peel(t.String())
		if m := new(Missing); errors.As(err, &m) {
			return nil, errNoTag
		}
		return c, err
	}
	ref, err := r.dirs[len(r.dirs)-1].Reference(plumbing.NewTagReferenceName(t.String()))
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		if want.pin.Commit != "" && r.has(want.pin.Commit) {
			return r.peel(want.pin.Commit)
		}
		return nil, errNoTag
	}
	if err != nil {
		return nil, fmt.Errorf("refs/tags/%s: %w", t, err)
	}
	return r.peel(ref.Hash().String())
}

// peel returns the commit that an id means, through annotated tags.
func (r *reader) peel(id string) (*object.Commit, error) {
	for range 8 {
		typ, content, err := r.any(id)
		if err != nil {
			return nil, err
		}
		o := &plumbing.MemoryObject{}
		o.SetType(typ)
		_, _ = o.Write(content) // into memory
		switch typ {
		case plumbing.CommitObject:
			c := new(object.Commit)
			if err := c.Decode(o); err != nil {
				return nil, fmt.Errorf("commit %s: %w", id, err)
			}
			return c, nil
		case plumbing.TagObject:
			a := new(object.Tag)
			if err := a.Decode(o); err != nil {
				return nil, fmt.Errorf("tag object %s: %w", id, err)
			}
			id = a.Target.String()
		default:
			return nil, fmt.Errorf("object %s is a %s, not a commit", id, typ)
		}
	}
	return nil, fmt.Errorf("object %s: too many tags of tags", id)
}

// counted returns the pin of a commit that none is known of. A number that the lock
// has must be what the repository counts, where it can be counted.
func (r *reader) counted(ctx context.Context, t tag.Tag, want want, c *object.Commit) (spec.Pin, error) {
	pin := pinOf(c)
	n, err := r.build(ctx, t, c)
	switch known := want.pin; {
	case err != nil && known.Build == 0:
		return pin, err
	case err != nil: // the history is not there
		want.number(t, &pin)
	case known.Build > 0 && (n < known.Build || n > max(known.Build, known.Max)):
		return pin, fmt.Errorf("%s is build %d here, and recipes/tags.lock says %s; correct the line there", t, n,
			known.Number())
	default:
		pin.Build = n
	}
	return pin, checkPin(t, pin)
}

// build returns the build number: a build tag names it, else it is the number of
// commits that can be reached, as `git rev-list --count` has it. That is more than
// the first-parent way where branches were merged: ik_llama.cpp's 4840 is 4803 there.
func (r *reader) build(ctx context.Context, t tag.Tag, c *object.Commit) (int, error) {
	if n, ok := t.Build(); ok {
		return n, nil
	}
	shallow, err := r.dirs[len(r.dirs)-1].Shallow()
	if err != nil {
		return 0, err
	}
	seen := map[plumbing.Hash]bool{c.Hash: true}
	for todo := []*object.Commit{c}; len(todo) > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at.NumParents() > 0 && slices.Contains(shallow, at.Hash) {
			return 0, errNoBuild(t, r.where)
		}
		for _, id := range at.ParentHashes {
			if seen[id] {
				continue
			}
			if !r.has(id.String()) {
				return 0, errNoBuild(t, r.where)
			}
			parent, err := r.peel(id.String())
			if err != nil {
				return 0, err
			}
			seen[id] = true
			todo = append(todo, parent)
		}
	}
	return len(seen), nil
}

// errNoBuild says how to get at a build number that the source cannot count.
func errNoBuild(t tag.Tag, where string) error {
	return fmt.Errorf("the build number of %s cannot be counted: %s lacks the history before it; "+
		"give a repository with the whole history by --source, or add the tag with its build number to recipes/tags.lock", t,
		where)
}

// repositoryTags lists the tags of a repository on this machine.
func repositoryTags(path string) ([]tag.Tag, error) {
	g, err := findGitDir(path)
	if err != nil {
		return nil, err
	}
	st := newStorage(g)
	defer func() { _ = st.Close() }()
	refs, err := st.IterReferences()
	if err != nil {
		return nil, err
	}
	var out []tag.Tag
	err = refs.ForEach(func(r *plumbing.Reference) error {
		if name, ok := strings.CutPrefix(r.Name().String(), "refs/tags/"); ok {
			if t, err := tag.Parse(name); err == nil {
				out = append(out, t)
			}
		}
		return nil
	})
	return out, err
}
