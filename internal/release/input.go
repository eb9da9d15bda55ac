package release

import (
	"bytes"
	"context"
	"path/filepath"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/env"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// input is what a plan in a folder is made of: its source is src, and it builds
// in build.
func (c *Chain) input(ctx context.Context, dir string) (build.Input, error) {
	facts, err := c.probe(ctx)
	if err != nil {
		return build.Input{}, err
	}
	if facts.Host != nil {
		at := *facts.Host
		if at.Dir, err = c.onHost(at.Dir, dir); err != nil {
			return build.Input{}, err
		}
		facts.Host = &at
	}
	noVersion, err := noVersion(c.Recipe.Upstream, c.Patched.Tree)
	if err != nil {
		return build.Input{}, err
	}
	return build.Input{
		NoVersion: noVersion, Tag: c.Tree.Tag.String(), Build: c.Tree.Pin.Build, BuildMax: c.Tree.Pin.Max, Commit: c.Tree.Pin.Commit, Time: c.Tree.Pin.Time,
		Tree: c.Patched.Tree.ID(), Recipe: c.Recipe, Toolchain: c.Toolchain, Facts: facts,
		Source: filepath.Join(dir, "src"), Dir: filepath.Join(dir, "build"), Touched: c.Patched.Changed(), Missing: c.lacks, Series: c.fixes(),
		Only: c.only(), Peaks: build.LoadPeaks(build.PeaksFile(c.Cache, c.Recipe.Name, facts)),
	}, nil
}

// probe looks at this machine, or at the build root, once for all plans of the chain.
func (c *Chain) probe(ctx context.Context) (build.Facts, error) {
	if c.facts == nil {
		var facts build.Facts
		var err error
		switch {
		case c.Box:
			facts = build.BoxFacts(c.Toolchain)
		case c.On != nil:
			facts, err = build.ProbeOn(ctx, *c.On, c.Toolchain, c.Recipe)
		case c.Env == nil:
			facts, err = build.Probe(ctx, c.Toolchain, c.Recipe)
		default:
			facts, err = c.probeInside(ctx)
		}
		if err != nil {
			return facts, c.placed(err)
		}
		c.facts = &facts
	}
	return *c.facts, nil
}

func (c *Chain) probeInside(ctx context.Context) (facts build.Facts, err error) {
	if c.root, err = env.Open(ctx, c.Cache, *c.Env, c.Log); err != nil {
		return facts, err
	}
	return build.ProbeInside(ctx, c.root, c.Toolchain, c.Recipe)
}

// peaks is where what the jobs of a target took is kept; empty before this machine
// was looked at.
func (c *Chain) peaks(target string) string {
	if c.facts == nil {
		return ""
	}
	return build.PeaksFile(c.Cache, target, *c.facts)
}

// noVersion reports whether a tree's build asks git alone for its version, as
// ik_llama.cpp's does without the fix ik-build-info.
func noVersion(upstream string, t *source.Tree) (bool, error) {
	const asks = "common/CMakeLists.txt"
	if _, there := t.Stat(asks); upstream == spec.LlamaCpp || !there {
		return false, nil
	}
	f, err := t.Read(asks)
	return !bytes.Contains(f.Data, []byte("LLAMA_BUILD_NUMBER")), err
}

// fixes are the ids of the series.
func (c *Chain) fixes() []string {
	var ids []string
	for _, in := range c.Series.In {
		ids = append(ids, in.Fix)
	}
	return ids
}
