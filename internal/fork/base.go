package fork

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/source"
)

// base is the commit that a tag's branch stands on: upstream's where it is or can be
// brought here, else a root with the tag's tree, whose files are then set.
func (r *Repo) base(ctx context.Context, e chain.Workspace, t *source.Tree) (Commit, error) {
	id := t.Pin.Commit
	if id != "" {
		tree, err := r.tree(ctx, id)
		held := false
		if err == nil && tree == t.ID() {
			held, err = r.holds(ctx, t.Tag.String(), id)
		}
		if err == nil && !held {
			r.bring(ctx, e, t)
			tree, err = r.tree(ctx, id)
		}
		if err != nil || tree == t.ID() {
			return Commit{ID: id, Tree: tree}, err
		}
	}
	return rootOf(t), nil
}

// holds reports whether a ref holds a commit. Where none does, a fetch that was killed left it,
// maybe without what lies below.
func (r *Repo) holds(ctx context.Context, name, id string) (bool, error) {
	if at, err := r.commit(ctx, "refs/tags/"+name); err != nil || at == id {
		return err == nil, err
	}
	held, err := r.git(ctx, "for-each-ref", "--count=1", "--contains", id)
	if failed(err) {
		return false, nil
	}
	return held != "", err
}

// rootOf is a commit without a parent that has a tag's tree.
func rootOf(t *source.Tree) Commit {
	when := ours(t.Pin.Time)
	c := Commit{
		Tree: t.ID(), Author: when, Committer: when, files: map[string]*source.File{},
		Message: fmt.Sprintf("%s %s\n\nThe tree of upstream's release, without the history before it.\n\n%s: %[1]s %[2]s\n",
			t.Upstream, t.Tag, trailerRoot),
	}
	c.ID = c.sum()
	for _, f := range t.Files() {
		c.files[f.Path] = &source.File{Mode: f.Mode}
	}
	return c
}

// bring fetches a tag from the first place that has upstream's commit: the source that was
// given, the mirror, and the git repositories that are declared.
func (r *Repo) bring(ctx context.Context, e chain.Workspace, t *source.Tree) {
	places := []string{e.Source, source.MirrorPath(e.Cache, t.Upstream)}
	for _, s := range e.Repo.Sources {
		if e.Source == "" && s.Upstream == t.Upstream && s.Kind == "git" {
			places = append(places, s.URL)
		}
	}
	for _, at := range places {
		switch fi, err := os.Stat(at); {
		case err == nil && fi.IsDir():
			if at, err = filepath.Abs(at); err != nil {
				continue
			}
		case at == "" || err == nil || e.Offline || !strings.Contains(at, ":"):
			continue
		}
		args := []string{"fetch", "-q", "--no-tags"}
		if r.fresh || isFile(filepath.Join(r.common, "shallow")) {
			args = append(args, "--depth=1")
			if filepath.IsAbs(at) {
				at = "file://" + at // or git takes no notice of the depth
			}
		}
		ref := "refs/tags/" + t.Tag.String()
		if _, err := r.git(ctx, append(args, "--", at, ref+":"+ref)...); err != nil {
			r.Log.Debug("the tag was not fetched", "from", at, "error", said(err))
			continue
		}
		return
	}
}

// fill reads the contents of a root's files.
func fill(t *source.Tree, c Commit) error {
	for path, f := range c.files {
		if f.Mode == source.Submodule {
			continue
		}
		got, err := t.Read(path)
		if err != nil {
			return fmt.Errorf("a root for %s: %w", t.Tag, err)
		}
		f.Data = got.Data
	}
	return nil
}
