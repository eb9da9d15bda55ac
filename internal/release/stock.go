package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// stock returns the folder of the programs without the series, for checks that
// compare with them; or why they are the same binaries, which then need not be
// built. Both are empty where no check compares.
func (c *Chain) stock(ctx context.Context, b *Built, checks []spec.Check) (dir, same string, err error) {
	if !smoke.Compares(checks) {
		return "", "", nil
	}
	if len(c.Series.In) == 0 {
		return "", "the series is empty", nil
	}
	options := build.RunOptions{Log: c.file("logs/stock.log"), Logger: c.Log, Progress: c.Progress, Hold: c.hold(), Inside: c.root}
	touched := slices.Sorted(maps.Keys(c.touched()))
	read, err := build.Reads(ctx, b.Plan, options, touched)
	if err != nil {
		return "", "", fmt.Errorf("stock build: %w", err)
	}
	for _, name := range touched {
		// What the series removes, only the stock build can have read.
		if _, there := c.Patched.Tree.Stat(name); !there {
			read[name] = nil
		}
	}
	if len(read) == 0 {
		return "", "this target compiles no file that the series touches", nil
	}
	if c.idle(b.Plan, checks, read) {
		return "", "but for libggml-cuda.so, which does nothing on a machine without NVIDIA's driver", nil
	}
	top, err := c.stockTree(ctx)
	if err != nil {
		return "", "", err
	}
	in, err := c.input(ctx, top)
	if err != nil {
		return "", "", err
	}
	in.Tree, in.Touched, in.Series = c.Tree.ID(), nil, nil
	if in.NoVersion, err = noVersion(c.Recipe.Upstream, c.Tree); err != nil {
		return "", "", fmt.Errorf("stock build: %w", err)
	}
	plan, err := build.NewPlan(in)
	if err != nil {
		return "", "", fmt.Errorf("stock build: %w", err)
	}
	start := time.Now()
	art, err := build.Run(ctx, plan, options)
	if err != nil {
		return "", "", fmt.Errorf("stock build, which checks compare with: %w", err)
	}
	c.Log.Info("built stock, for comparison", "because of", slices.Sorted(maps.Keys(read))[0], "compiled", art.Compiled, "seconds", int(time.Since(start).Seconds()))
	return filepath.Join(art.Dir, "bin"), "", nil
}

// stockTree writes the tree without the series into a folder of its own, whose
// src it is, and returns the folder.
func (c *Chain) stockTree(ctx context.Context) (string, error) {
	dir, err := c.absolute()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "stock")
	if _, err := c.Tree.CheckoutOwn(ctx, filepath.Join(dir, "src"), c.excluded()); err != nil {
		return "", fmt.Errorf("stock tree: %w", err)
	}
	return dir, nil
}

// idle reports whether all that the series changes is the CUDA backend's own library,
// and this machine cannot run that: its stock build, as long in the making as the
// patched one, would show nothing. read is as build.Reads returns it.
func (c *Chain) idle(p build.Plan, checks []spec.Check, read map[string][]string) bool {
	sim := func(check spec.Check) bool { return cmp.Or(check.Device, c.Place.Device) == spec.Sim }
	if slices.ContainsFunc(checks, sim) || find(systemLibs, "libcuda.so.1") != "" {
		return false
	}
	if !slices.ContainsFunc(p.Options, func(o build.Option) bool { return o.Name == "GGML_BACKEND_DL" && o.Value == "ON" }) {
		return false
	}
	for _, objects := range read {
		if len(objects) == 0 || slices.ContainsFunc(objects, func(o string) bool { return !strings.Contains(o, "/ggml-cuda.dir/") }) {
			return false
		}
	}
	return true
}
