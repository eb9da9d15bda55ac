package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
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
	options := build.RunOptions{Log: c.file("logs/stock.log"), Logger: c.Log, Progress: c.Progress, Hold: c.hold(), Inside: c.root, On: c.On}
	compared, needs := c.compared()
	touched := slices.Sorted(maps.Keys(compared))
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
		same := "this target compiles no file that the series touches"
		if len(needs) > 0 {
			same += " but those of " + strings.Join(needs, ", ") + ", which a build for this system needs"
		}
		return "", same, nil
	}
	if why := c.idle(b.Plan, checks, read); why != "" {
		return "", why, nil
	}
	top, err := c.stockTree(ctx)
	if err != nil {
		return "", "", err
	}
	in, err := c.input(ctx, top)
	if err != nil {
		return "", "", err
	}
	tree, err := c.unpatched(ctx)
	if err != nil {
		return "", "", err
	}
	in.Tree, in.Touched, in.Series = tree.ID(), nil, nil
	if in.NoVersion, err = noVersion(c.Recipe.Upstream, tree); err != nil {
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

// compared are the paths that the series changes, without those of the fixes that
// are for the target's system alone: a build for that system needs those, so what is
// compared with has them too. Their ids are the second result.
func (c *Chain) compared() (paths map[string][]string, needs []string) {
	for _, f := range c.Repo.Fixes {
		if len(f.OS) > 0 && slices.Contains(c.fixes(), f.ID) {
			needs = append(needs, f.ID)
		}
	}
	paths = c.Patched.Changed()
	maps.DeleteFunc(paths, func(_ string, by []string) bool {
		return !slices.ContainsFunc(by, func(id string) bool { return !slices.Contains(needs, id) })
	})
	return paths, needs
}

// unpatched is the tree without the series, but with what a build for the target's
// system needs.
func (c *Chain) unpatched(ctx context.Context) (*source.Tree, error) {
	_, needs := c.compared()
	if len(needs) == 0 {
		return c.Tree, nil
	}
	return c.treeOf(ctx, "stock tree", func(id string) bool { return slices.Contains(needs, id) })
}

// treeOf is the tree with some of the series' fixes; name is for an error.
func (c *Chain) treeOf(ctx context.Context, name string, keep func(id string) bool) (*source.Tree, error) {
	only := *c.Series
	only.In = slices.DeleteFunc(slices.Clone(only.In), func(in spec.Chosen) bool { return !keep(in.Fix) })
	patches, err := merge.Patches(ctx, c.Repo.FS, c.source(), &only)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	res, err := patch.Apply(c.Tree, patches)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return res.Tree, nil
}

// stockTree writes the unpatched tree into a folder of its own, whose src it is, and
// returns the folder.
func (c *Chain) stockTree(ctx context.Context) (string, error) {
	dir, err := c.absolute()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "stock")
	tree, err := c.unpatched(ctx)
	if err != nil {
		return "", err
	}
	if _, err := tree.CheckoutOwn(ctx, filepath.Join(dir, "src"), c.excluded()); err != nil {
		return "", fmt.Errorf("stock tree: %w", err)
	}
	return dir, nil
}

// device is a backend that runs on a card alone.
type device struct{ objects, library, driver, sign string }

// devices are told apart by the folder of their objects. The sign is what is there
// where the driver is: NVIDIA's library, and amdkfd's device, which ROCm opens.
var devices = []device{
	{"/ggml-cuda.dir/", "libggml-cuda.so", "NVIDIA's driver", "libcuda.so.1"},
	{"/ggml-hip.dir/", "libggml-hip.so", "AMD's driver", "/dev/kfd"},
}

func (d device) there() bool {
	if strings.HasPrefix(d.sign, "/") {
		_, err := os.Stat(d.sign)
		return err == nil
	}
	return stage.OnSystem(d.sign)
}

// idle returns why stock and patched are the same programs here, or "": all that the
// series changes is the library of a backend that this machine has no driver for. Its
// stock build, as long in the making as the patched one, would show nothing. read is as
// build.Reads returns it.
func (c *Chain) idle(p build.Plan, checks []spec.Check, read map[string][]string) string {
	sim := func(check spec.Check) bool { return cmp.Or(check.Device, c.Place.Device) == spec.Sim }
	if slices.ContainsFunc(checks, sim) || !slices.ContainsFunc(p.Options, func(o build.Option) bool { return o.Name == "GGML_BACKEND_DL" && o.Value == "ON" }) {
		return ""
	}
	for _, d := range devices {
		others := func(objects []string) bool {
			return len(objects) == 0 || slices.ContainsFunc(objects, func(o string) bool { return !strings.Contains(o, d.objects) })
		}
		if !d.there() && !slices.ContainsFunc(slices.Collect(maps.Values(read)), others) {
			return fmt.Sprintf("but for %s, which does nothing on a machine without %s", d.library, d.driver)
		}
	}
	return ""
}
