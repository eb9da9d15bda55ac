// Package merge turns declared patches into those of a tag: it reads them, or makes them of
// an upstream commit, merges three ways those that do not fit, and exports a series for git
// am and quilt.
package merge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Patches reads and parses the patch files of a series, in order. Where a variant is an
// upstream commit, its patch is made from the history that so leads to, and kept in the
// series with its digest. A cure of the group security whose commit no history at hand has is
// no error: lacks has it, with the reason.
func Patches(ctx context.Context, fsys fs.FS, so source.Options,
	s *spec.Series,
) (all []patch.Patch, lacks spec.Reasons, err error) {
	lacks = spec.Reasons{}
	var errs []error
	for i := range s.In {
		p, err := read(ctx, fsys, so, s.Upstream, &s.In[i])
		if gone := new(source.NoHistory); s.In[i].Group == spec.Security && errors.As(err, &gone) {
			// A bundle says it too: no folder of this machine is named.
			lacks[s.In[i].Fix] = "no history at hand has commit " + gone.Commit
			so.Offline = true // what an address did not give once is not waited for again
			continue
		}
		errs = append(errs, err)
		all = append(all, p...)
	}
	return all, lacks, errors.Join(errs...)
}

func read(ctx context.Context, fsys fs.FS, so source.Options, upstream string, c *spec.Chosen) ([]patch.Patch, error) {
	if c.Commit == "" {
		return patch.ParseFile(fsys, c.Patch, c.Fix, path.Base(c.Patch))
	}
	change, err := source.UpstreamCommit(ctx, so, upstream, c.Commit)
	if err != nil {
		return nil, fmt.Errorf("backport %s: %w", c.Fix, err)
	}
	made, ps, err := patch.FromCommit(change.Without(c.Except), c.Fix, FileName(*c))
	if err != nil {
		return nil, &spec.Error{File: path.Join("patches", c.Fix, "fix.toml"), Msg: err.Error()}
	}
	c.Made, c.SHA256 = made, fmt.Sprintf("%x", sha256.Sum256(made))
	subject, _, _ := strings.Cut(change.Message, "\n")
	c.Credit = fmt.Sprintf("%q by %s, commit %s", subject, change.Author, c.Commit)
	if len(c.Except) > 0 {
		c.Credit += ", without " + strings.Join(c.Except, ", ")
	}
	return ps, nil
}

// Before is the tree that a commit's change starts from, as far as it is about it.
func Before(c *source.Change) (*source.Tree, error) {
	files := map[string]source.File{}
	for _, f := range c.Files {
		if f.Before != nil {
			files[f.Path] = *f.Before
		}
	}
	return source.New(files)
}

// Apply applies the patches of a series as patch.Apply does. Where one that is upstream's commit
// does not fit, what was kept among the declarations' resolutions for the same blobs counts.
func Apply(ctx context.Context, fsys fs.FS, so source.Options, s *spec.Series, tree *source.Tree,
	patches []patch.Patch,
) (*patch.Result, error) {
	res, misfit := patch.Apply(tree, patches)
	if misfit == nil || !slices.ContainsFunc(s.In, func(c spec.Chosen) bool { return c.Commit != "" }) {
		return res, misfit
	}
	kept, err := patch.LoadResolutions(fsys)
	if err != nil || len(kept) == 0 {
		return nil, errors.Join(misfit, err)
	}
	base := func(ctx context.Context, p *patch.Patch) (*source.Tree, error) {
		at := slices.IndexFunc(s.In, func(c spec.Chosen) bool { return c.Fix == p.Fix && c.Commit != "" })
		if at < 0 {
			return nil, nil
		}
		change, err := source.UpstreamCommit(ctx, so, s.Upstream, s.In[at].Commit)
		if err != nil {
			return nil, err
		}
		return Before(change)
	}
	res, _, err = patch.ApplyThreeWay(ctx, tree, patches, base, patch.MergeOptions{NeedGit: true, Resolutions: kept})
	return res, err
}

// FileName is what the patch file of a chosen variant is called.
func FileName(c spec.Chosen) string {
	if c.Commit != "" {
		return c.Commit[:12] + ".patch"
	}
	return path.Base(c.Patch)
}

// Bytes returns the bytes of the patch file of a variant whose patches were
// read.
func Bytes(fsys fs.FS, c spec.Chosen) ([]byte, error) {
	if c.Commit != "" {
		return c.Made, nil
	}
	return fs.ReadFile(fsys, c.Patch)
}
