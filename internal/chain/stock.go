package chain

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

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// Stock is what checks compare with: the programs without the series, but with the fixes that
// no build for the system does without, and with the cures of known defects. Those touch so
// much that a stock build without them compiles nearly everything again (ADR 26).
type Stock struct {
	Bin     string   // their folder; empty: no check compares, or Same
	Same    string   // why they are the same binaries, which then were not built
	With    []string // ids of the fixes for the system
	entries map[string]string
}

// buildStock builds what checks compare with, where any does and there is a difference.
func buildStock(ctx context.Context, e Workspace, b Built, v Venue, checks []spec.Check) (Stock, error) {
	touched, needs := b.compared(e), b.needs(e)
	s := Stock{With: needs}
	switch {
	case !smoke.Compares(checks):
		return s, nil
	case len(b.Series.In) == 0:
		s.Same = "the series is empty"
		return s, nil
	}
	options := b.run(e, "stock.log")
	paths := slices.Sorted(maps.Keys(touched))
	read, err := build.Reads(ctx, b.Plan, options, paths)
	if err != nil {
		return s, fmt.Errorf("stock build: %w", err)
	}
	for _, name := range paths {
		// What the series removes, only the stock build can have read.
		if _, there := b.Result.Tree.Stat(name); !there {
			read[name] = nil
		}
	}
	if len(read) == 0 {
		s.Same = "this target compiles no file that the series touches"
		if len(needs) > 0 {
			s.Same += " but those of " + strings.Join(needs, ", ") + ", which a build for this system needs"
		}
		if n := len(b.cures()); n > 0 {
			s.Same += fmt.Sprintf(" but for the cures of known defects (%d), which stock has too", n)
		}
		return s, nil
	}
	if s.Same = idle(b.Plan, v.Name, checks, read); s.Same != "" {
		return s, nil
	}
	start := time.Now()
	_, art, err := b.buildStockIn(ctx, e, b.Prepared, b.inStock(e), "stock")
	if err != nil {
		return s, fmt.Errorf("stock build, which checks compare with: %w", err)
	}
	e.Log.Info("built stock, for comparison", "because of", slices.Sorted(maps.Keys(read))[0], "compiled", art.Compiled,
		"seconds", int(time.Since(start).Seconds()))
	s.Bin = filepath.Join(art.Dir, "bin")
	s.entries, err = inventory(s.Bin)
	return s, err
}

// compared are the paths that the series changes, without those that only the fixes that stock
// has too change.
func (p Patched) compared(e Workspace) map[string][]string {
	stock, paths := p.inStock(e), p.Result.Changed()
	maps.DeleteFunc(paths, func(_ string, by []string) bool {
		return !slices.ContainsFunc(by, func(id string) bool { return !slices.Contains(stock, id) })
	})
	return paths
}

// needs are the ids of the series' fixes that are for the target's system alone: no build for
// it does without them.
func (p Patched) needs(e Workspace) []string {
	var ids []string
	for _, f := range e.Repo.Fixes {
		if len(f.OS) > 0 && f.Group == "" && slices.Contains(p.fixes(), f.ID) {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// cures are the ids of the series' fixes that cure known defects.
func (p Patched) cures() []string {
	var ids []string
	for _, c := range p.Series.In {
		if c.Group == spec.Security {
			ids = append(ids, c.Fix)
		}
	}
	return ids
}

// inStock are the ids of the fixes that stock, which checks compare with, has too.
func (p Patched) inStock(e Workspace) []string { return slices.Concat(p.needs(e), p.cures()) }

// unpatched is the tree with these fixes alone.
func (p Patched) unpatched(with []string) (*source.Tree, error) {
	if len(with) == 0 {
		return p.Tree, nil
	}
	return p.treeOf("stock tree", func(id string) bool { return slices.Contains(with, id) })
}

// writeStock writes that tree into a folder, whose src it is.
func (p Patched) writeStock(ctx context.Context, dir string, with []string) (*source.Tree, error) {
	tree, err := p.unpatched(with)
	if err == nil {
		_, err = tree.CheckoutOwn(ctx, filepath.Join(dir, "src"), p.excluded())
	}
	return tree, err
}

// buildStockIn builds the tree with these fixes alone as p says, in a folder of its own, whose
// name is also that of the log.
func (b Built) buildStockIn(
	ctx context.Context, e Workspace, p Prepared, with []string, folder string,
) (plan build.Plan, art build.Artifacts, err error) {
	dir := b.file(folder)
	tree, err := p.writeStock(ctx, dir, with)
	if err != nil {
		return plan, art, err
	}
	in, err := e.inputFor(p, tree, dir)
	if err != nil {
		return plan, art, err
	}
	in.Only = p.only()
	if plan, err = build.NewPlan(in); err != nil {
		return plan, art, e.placed(err)
	}
	o := b.run(e, folder+".log")
	o.Inside, o.On = p.Site.root, p.Site.Remote
	art, err = build.Run(ctx, plan, o)
	return plan, art, err
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
func idle(p build.Plan, device string, checks []spec.Check, read map[string][]string) string {
	sim := func(check spec.Check) bool { return cmp.Or(check.Device, device) == spec.Sim }
	if slices.ContainsFunc(checks, sim) || !slices.ContainsFunc(p.Options, func(o build.Option) bool {
		return o.Name == "GGML_BACKEND_DL" && o.Value == "ON"
	}) {
		return ""
	}
	for _, d := range devices {
		others := func(objects []string) bool {
			return len(objects) == 0 || slices.ContainsFunc(objects, func(o string) bool {
				return !strings.Contains(o, d.objects)
			})
		}
		if !d.there() && !slices.ContainsFunc(slices.Collect(maps.Values(read)), others) {
			return fmt.Sprintf("but for %s, which does nothing on a machine without %s", d.library, d.driver)
		}
	}
	return ""
}

// tryDropIn builds the tag without the series and its cures (but with what a build for the
// system needs) for the target that the recipe names as its host, as upstream's own package
// is, and lays the drop-in into it. What the library takes from ggml must be in that
// build: the error is a *binary.Rejected where it is not. It returns the folder of the
// programs and their plan.
func tryDropIn(ctx context.Context, e Workspace, s Staged) (bin string, plan build.Plan, err error) {
	rec, err := e.Repo.Recipe(s.Recipe.DropInTarget)
	if err != nil {
		return "", plan, err
	}
	plan, art, err := buildDropInTarget(ctx, e, s.Built, rec)
	if err != nil {
		return "", plan, fmt.Errorf("stock build of %s, which the drop-in is tried in: %w", rec.Name, err)
	}
	bin = s.own("trial")
	host, err := stage.Lay(art, bin, rec, "")
	if err != nil {
		return "", plan, fmt.Errorf("stock build of %s: %w", rec.Name, err)
	}
	lib := filepath.Join(s.Top(), s.DropIn)
	if err := stage.Copy(lib, filepath.Join(bin, s.DropIn)); err != nil {
		return "", plan, err
	}
	f, err := binary.InspectContext(ctx, lib)
	if err != nil {
		return "", plan, err
	}
	warnHeaders(e, s.Patched, rec.Name)
	return bin, plan, stage.ABI(ctx, s.DropIn, f, bin, host)
}

// buildDropInTarget builds the tag as upstream's own package has it for another target, in a folder of
// its own, on this machine.
func buildDropInTarget(ctx context.Context, e Workspace, b Built,
	rec spec.Recipe,
) (plan build.Plan, art build.Artifacts, err error) {
	if pin := b.Tree.Pin; !rec.Range.Contains(pin.Build) {
		return plan, art, e.Repo.OutOfRange(rec, b.Tree.Tag.String(), pin)
	}
	host := Prepared{Patched: b.Patched, Site: Site{Toolchain: e.Repo.Toolchains[rec.Toolchain]}}
	host.Recipe, host.DropIn = rec, ""
	if host.Site.Facts, err = build.Probe(ctx, host.Site.Toolchain, rec); err != nil {
		return plan, art, e.placed(err)
	}
	start := time.Now()
	plan, art, err = b.buildStockIn(ctx, e, host, host.needs(e), "host")
	if err == nil {
		e.Log.Info("built stock, to try the drop-in in", "target", rec.Name, "compiled", art.Compiled, "seconds",
			int(time.Since(start).Seconds()))
	}
	return plan, art, err
}

// warnHeaders says which fixes change a header that both sides of the drop-in are
// compiled with: names of symbols do not show a structure that changed.
func warnHeaders(e Workspace, p Patched, host string) {
	for name, fixes := range p.Result.Changed() {
		if filepath.Ext(name) == ".h" && (strings.HasPrefix(name, "ggml/include/") || filepath.Dir(name) == "ggml/src") {
			e.Log.Warn("a fix changes a header that the stock package was compiled without; a structure in it must be the "+
				"same in both", "header", name, "fixes", strings.Join(fixes, ", "), "package", host)
		}
	}
}
