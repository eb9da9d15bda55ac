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
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Patches reads and parses the patch files of a series, in order. Where a variant is an
// upstream commit, its patch is made from the history that so leads to, and kept in the
// series with its digest. A cure of the group security whose commit no history at hand has is
// no error: lacks has it, with the reason.
func Patches(ctx context.Context, fsys fs.FS, so source.Options, s *spec.Series) (all []patch.Patch, lacks spec.Reasons, err error) {
	lacks = spec.Reasons{}
	var errs []error
	for i := range s.In {
		p, err := read(ctx, fsys, so, s.Upstream, &s.In[i])
		if gone := new(source.NoHistory); s.In[i].Group == spec.Security && errors.As(err, &gone) {
			why := "no history at hand has commit " + gone.Commit
			for _, a := range gone.Tried {
				line, _, _ := strings.Cut(a.Err.Error(), "\n")
				why += "; " + a.Source + ": " + line
			}
			lacks[s.In[i].Fix] = why
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
