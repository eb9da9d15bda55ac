package release

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// BadOption is a flag that asks of a target what it cannot give.
type BadOption struct {
	Flag string
	Err  error
}

// Error names the flag and the cause.
func (e *BadOption) Error() string { return e.Flag + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *BadOption) Unwrap() error { return e.Err }

// dropIn is the file name of the one library that BackendOnly makes; empty where
// the whole target is wanted.
func (o Options) dropIn(rec spec.Recipe) (string, error) {
	switch {
	case !o.BackendOnly:
		return "", nil
	case rec.Host == "" || !usesCard(rec.Backends[0]):
		return "", &BadOption{"--backend-only", fmt.Errorf("%s has no backend that fits into another package", rec.Name)}
	case rec.CMake["GGML_BACKEND_DL"] != true:
		return "", &BadOption{"--backend-only", fmt.Errorf("%s links its backends in: GGML_BACKEND_DL is not on", rec.Name)}
	}
	if rec.OS == spec.Win7 {
		return "ggml-" + rec.Backends[0] + ".dll", nil
	}
	return "libggml-" + rec.Backends[0] + ".so", nil
}

// only is the CMake target of the drop-in.
func (c *Chain) only() []string {
	if c.drop == "" {
		return nil
	}
	return []string{"ggml-" + c.Recipe.Backends[0]}
}

// own is where the stages after the build write: the drop-in, of the same build
// folder as the whole target, has a folder of its own.
func (c *Chain) own(name string) string {
	if c.drop == "" {
		return c.file(name)
	}
	return c.file(filepath.Join("backend", name))
}

// trial is a stock build with the drop-in beside its programs.
type trial struct {
	bin    string
	want   smoke.Version
	checks []spec.Check
}

// tryDropIn builds the tag without the series (but with what a build for the system
// needs) for the target that the recipe names as its host, as upstream's own package
// is, and lays the drop-in into it. What the library takes from ggml must be in that
// build: the error is a *binary.Rejected where it is not.
func (c *Chain) tryDropIn(ctx context.Context) (*trial, error) {
	rec, err := c.Repo.Recipe(c.Recipe.Host)
	if err != nil {
		return nil, err
	}
	plan, art, err := c.buildHost(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("stock build of %s, which the drop-in is tried in: %w", rec.Name, err)
	}
	bin := c.own("trial")
	host, err := stage.Lay(art, bin, rec, c.libsRoot())
	if err != nil {
		return nil, fmt.Errorf("stock build of %s: %w", rec.Name, err)
	}
	lib := filepath.Join(c.stageDir(), c.drop)
	if err := stage.Copy(lib, filepath.Join(bin, c.drop)); err != nil {
		return nil, err
	}
	f, err := binary.InspectContext(ctx, lib)
	if err != nil {
		return nil, err
	}
	if err := stage.ABI(ctx, c.drop, f, bin, host); err != nil {
		return nil, err
	}
	c.warnHeaders(rec.Name)
	t := &trial{bin: bin, want: smoke.Version{Build: c.Tree.Pin.Build, Commit: plan.VersionCommit}}
	for _, check := range c.checks(&Built{Plan: plan}) {
		if !smoke.Compares([]spec.Check{check}) {
			t.checks = append(t.checks, check)
		}
	}
	return t, nil
}

// buildHost builds the tree that unpatched gives for another target, in a folder of
// its own.
func (c *Chain) buildHost(ctx context.Context, rec spec.Recipe) (build.Plan, build.Artifacts, error) {
	if !rec.Range.Contains(c.Tree.Pin.Build) {
		return build.Plan{}, build.Artifacts{}, &spec.OutOfRange{Recipe: rec, Tag: c.Tree.Tag.String(), Number: c.Tree.Pin.Number()}
	}
	tc := c.Repo.Toolchains[rec.Toolchain]
	facts, err := build.Probe(ctx, tc, rec)
	if err != nil {
		return build.Plan{}, build.Artifacts{}, c.placed(err)
	}
	dir, err := c.absolute()
	if err != nil {
		return build.Plan{}, build.Artifacts{}, err
	}
	dir = filepath.Join(dir, "host")
	tree, err := c.unpatched(ctx)
	if err != nil {
		return build.Plan{}, build.Artifacts{}, err
	}
	if _, err := tree.CheckoutOwn(ctx, filepath.Join(dir, "src"), slices.Concat(rec.Exclude, c.lacks)); err != nil {
		return build.Plan{}, build.Artifacts{}, err
	}
	in := build.Input{
		Tag: c.Tree.Tag.String(), Build: c.Tree.Pin.Build, BuildMax: c.Tree.Pin.Max, Commit: c.Tree.Pin.Commit, Time: c.Tree.Pin.Time,
		Tree: tree.ID(), Recipe: rec, Toolchain: tc, Facts: facts, Missing: c.lacks,
		Source: filepath.Join(dir, "src"), Dir: filepath.Join(dir, "build"),
	}
	if in.NoVersion, err = noVersion(c.Recipe.Upstream, tree); err != nil {
		return build.Plan{}, build.Artifacts{}, err
	}
	plan, err := build.NewPlan(in)
	if err != nil {
		return plan, build.Artifacts{}, c.placed(err)
	}
	start := time.Now()
	art, err := build.Run(ctx, plan, build.RunOptions{Log: c.file("logs/host.log"), Logger: c.Log, Progress: c.Progress, Hold: c.hold()})
	if err == nil {
		c.Log.Info("built stock, to try the drop-in in", "target", rec.Name, "compiled", art.Compiled, "seconds", int(time.Since(start).Seconds()))
	}
	return plan, art, err
}

// warnHeaders says which fixes change a header that both sides of the drop-in are
// compiled with: names of symbols do not show a structure that changed.
func (c *Chain) warnHeaders(host string) {
	for path, fixes := range c.Patched.Changed() {
		if filepath.Ext(path) == ".h" && (strings.HasPrefix(path, "ggml/include/") || filepath.Dir(path) == "ggml/src") {
			c.Log.Warn("a fix changes a header that the stock package was compiled without; a structure in it must be the same in both", "header", path, "fixes", strings.Join(fixes, ", "), "package", host)
		}
	}
}

// lay lays out what the bundle holds in the new folder to, and verifies it.
func (c *Chain) lay(art build.Artifacts, to string) ([]*binary.File, error) {
	if c.drop == "" {
		return stage.Lay(art, to, c.Recipe, c.libsRoot())
	}
	return stage.LayDropIn(art, to, c.drop, c.Recipe.Verify)
}
