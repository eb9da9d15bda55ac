package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// read returns the patches of a chosen variant. Where it is an upstream commit,
// its patch is made from the history at hand, and kept in c with its digest.
func (o Options) read(ctx context.Context, upstream string, c *spec.Chosen) ([]patch.Patch, error) {
	if c.Commit == "" {
		return patch.ParseFile(o.Repo.FS, c.Patch, c.Fix, path.Base(c.Patch))
	}
	change, err := source.UpstreamCommit(ctx, source.Options{
		Cache: o.Cache, Sources: o.Repo.Sources, Override: o.Source, Offline: o.Offline, Log: o.Log, Progress: o.Progress,
	}, upstream, c.Commit)
	if err != nil {
		return nil, fmt.Errorf("backport %s: %w", c.Fix, err)
	}
	made, err := patch.FromCommit(change)
	if err != nil {
		return nil, &spec.Error{File: path.Join("patches", c.Fix, "fix.toml"), Msg: err.Error()}
	}
	sum := sha256.Sum256(made)
	c.Made, c.SHA256 = made, hex.EncodeToString(sum[:])
	subject, _, _ := strings.Cut(change.Message, "\n")
	c.Credit = fmt.Sprintf("%q by %s, commit %s", subject, change.Author, c.Commit)
	return patch.Parse(c.Fix, patchName(*c), made)
}

// patchName is what the patch file of a chosen variant is called.
func patchName(c spec.Chosen) string {
	if c.Commit != "" {
		return c.Commit[:12] + ".patch"
	}
	return path.Base(c.Patch)
}

// patchBytes returns the bytes of the patch file of a variant whose patches were
// read.
func (o Options) patchBytes(c spec.Chosen) ([]byte, error) {
	if c.Commit != "" {
		return c.Made, nil
	}
	return fs.ReadFile(o.Repo.FS, c.Patch)
}
