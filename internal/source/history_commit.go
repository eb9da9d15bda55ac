package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// Change is what a commit says of itself and does to its first parent's tree.
type Change struct {
	ID      string
	Parents []string
	Author  string
	Email   string
	When    time.Time // the author's, in the author's zone
	Message string
	// Files are those that differ, sorted by path; all of them for a commit
	// without a parent, none for a merge, which is no one change.
	Files []Changed

	tree string // its own
}

// Changed is one path of a change. A side is nil where there is no such file. A
// submodule has its mode and no content.
type Changed struct {
	Path          string
	Before, After *File
}

// Without returns the change as far as it is about no path of except: files, or folders that
// end in a slash.
func (c *Change) Without(except []string) *Change {
	out := *c
	out.Files = slices.DeleteFunc(slices.Clone(c.Files), func(f Changed) bool {
		return slices.ContainsFunc(except, func(e string) bool {
			return f.Path == e || strings.HasSuffix(e, "/") && strings.HasPrefix(f.Path, e)
		})
	})
	return &out
}

// Commit reads a commit, by its full id, and its change from the repository at
// path. Renames are a deletion and a creation. The error wraps *Missing where the
// repository has the commit and lacks something of it, as a shallow or partial
// clone does.
func Commit(ctx context.Context, path, id string) (_ *Change, err error) {
	g, err := findGitDir(path)
	if err != nil {
		return nil, err
	}
	st := &store{where: path, open: g.storages}
	defer func() { err = errors.Join(err, st.close()) }()
	return changeOf(ctx, st, id)
}

func changeOf(ctx context.Context, st *store, id string) (*Change, error) {
	r, err := st.acquire()
	if err != nil {
		return nil, err
	}
	defer st.release(r)
	c, err := r.peel(id)
	if m := new(Missing); errors.As(err, &m) {
		return nil, fmt.Errorf("%s has no such commit", st.where)
	}
	if err != nil {
		return nil, err
	}
	if c.Hash.String() != id {
		return nil, fmt.Errorf("%s is a tag, not a commit: it means commit %s", id, c.Hash)
	}
	out := &Change{
		ID: id, Author: c.Author.Name, Email: c.Author.Email, When: c.Author.When, Message: c.Message,
		tree: c.TreeHash.String(),
	}
	for _, p := range c.ParentHashes {
		out.Parents = append(out.Parents, p.String())
	}
	if len(out.Parents) > 1 {
		return out, nil
	}
	var before []Entry
	if len(out.Parents) == 1 {
		parent, err := r.peel(out.Parents[0])
		if err != nil {
			return nil, fmt.Errorf("the commit is there, and its parent is not (git fetch --unshallow completes a "+
				"shallow clone): %w", err)
		}
		if before, err = loadTree(ctx, st, parent.TreeHash.String()); err != nil {
			return nil, err
		}
	}
	after, err := loadTree(ctx, st, c.TreeHash.String())
	if err != nil {
		return nil, err
	}
	out.Files, err = changed(ctx, st, r, before, after)
	return out, err
}

// changed reads both sides of each path that differs between two sorted lists.
func changed(ctx context.Context, st *store, r *reader, before, after []Entry) ([]Changed, error) {
	var out []Changed
	read := func(e Entry) (*File, error) {
		if e.Mode == Submodule {
			return &File{Mode: e.Mode}, nil
		}
		data, err := st.blob(r, e)
		return &File{Mode: e.Mode, Data: data}, err
	}
	for i, j := 0, 0; i < len(before) || j < len(after); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		order := 0
		switch {
		case i == len(before):
			order = 1
		case j == len(after):
			order = -1
		default:
			order = strings.Compare(before[i].Path, after[j].Path)
		}
		var c Changed
		var errs [2]error
		same := order == 0 && before[i].Blob == after[j].Blob && before[i].Mode == after[j].Mode
		if order <= 0 {
			if !same {
				c.Path = before[i].Path
				c.Before, errs[0] = read(before[i])
			}
			i++
		}
		if order >= 0 {
			if !same {
				c.Path = after[j].Path
				c.After, errs[1] = read(after[j])
			}
			j++
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		if !same {
			out = append(out, c)
		}
	}
	return out, nil
}

// UpstreamCommit reads a commit of an upstream, as Commit does, from the first
// history at hand that has it: the repository given as the source, the mirror
// that History made, what was fetched before, and repositories on this machine that are
// declared; else from an address that is given or declared, alone with its parents. The
// error is *NoHistory where none has it whole.
func UpstreamCommit(ctx context.Context, o Options, upstream, id string) (*Change, error) {
	f := newFetcher(ctx, o, upstream)
	fetched := spec.Source{Name: "cache", Kind: "git", URL: f.cache.path(".git")}
	gone := &NoHistory{Upstream: upstream, Commit: id}
	mirror := spec.Source{Name: "mirror", Kind: "git", URL: MirrorPath(o.Cache, upstream)}
	places := f.declared()
	if o.Override != "" {
		places = append(places, mirror, fetched)
	} else {
		places = append([]spec.Source{mirror, fetched}, places...)
	}
	address := func(s spec.Source) bool { return isRemote(strings.TrimPrefix(s.URL, "file://")) }
	slices.SortStableFunc(places, func(a, b spec.Source) int { // addresses come last
		switch {
		case address(a) == address(b):
			return 0
		case address(a):
			return 1
		}
		return -1
	})
	for _, s := range places {
		at := strings.TrimPrefix(s.URL, "file://")
		kind, read := s.Kind, Commit
		if address(s) {
			f.label, read = s.Name, f.remoteCommit
			if kind == kindSniff {
				kind, _ = sniffAddress(at) // what is no repository has no commit
			}
		}
		if kind != "git" && kind != kindSniff {
			continue
		}
		c, err := read(ctx, at, id)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if s.Name == mirror.Name && !f.hasMirror() {
			err = fmt.Errorf("there is none (%s)", at)
		}
		if s.Name == fetched.Name {
			continue // it says nothing of the history
		}
		gone.Tried = append(gone.Tried, Attempt{Source: s.Name, Err: err})
	}
	return nil, gone
}
