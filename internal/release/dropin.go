package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// BadOption is a flag that asks of a target what it cannot give.
type BadOption struct {
	Flag string
	Err  error
}

// Error names the flag and the cause.
func (e *BadOption) Error() string { return e.Flag + ": " + e.Err.Error() }

// ExitCode is exit.Usage.
func (e *BadOption) ExitCode() int { return exit.Usage }

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

// bundleName is BundleName with the version of CUDA that it is for, and with the
// word backend where the archive holds nothing but that. That of a HIP build says whose
// system it was built on, for which cards, and which glibc it needs.
func (c *Chain) bundleName(b *Built, glibc string) string {
	rec := c.Recipe
	if v := b.Plan.CUDA.Version; v != "" && rec.Backend == "cuda" {
		rec.Backend += "-" + v
	}
	if h := b.Plan.HIP; h.Version != "" {
		rec.OS = cmp.Or(h.System, rec.OS)
		rec.Backend += "-" + h.Version
		rec.Backend += "-" + targetsName(rec.Verify.HIP.Archs)
		if glibc != "" {
			rec.Backend += "-glibc" + glibc
		}
	}
	name := BundleName(c.Tree.Tag.Short(), b.Level, rec)
	if c.drop != "" {
		name = strings.Replace(name, "-bin-", "-backend-", 1)
	}
	return name
}

// maxTargets bounds the part of an archive's name that its targets make: a file name has 255
// bytes on most systems, and the names of parts and of temporary files are longer.
const maxTargets = 100

// targetsName writes the targets of AMD's cards as a part of a file name. Of too many it is
// their number and a hash of them; the bundle's README.md and BUILD_INFO.json name them.
func targetsName(targets []string) string {
	clean := strings.NewReplacer(":", "-", "+", "on", "xnack-", "xnackoff", "sramecc-", "srameccoff")
	var names []string
	for _, target := range targets {
		names = append(names, clean.Replace(target))
	}
	name := strings.Join(names, "-")
	if len(name) > maxTargets {
		sum := sha256.Sum256([]byte(name))
		return fmt.Sprintf("%d-targets-%x", len(targets), sum[:4])
	}
	return name
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
	host, err := stage(art, bin, rec, c.libraryDirs)
	if err != nil {
		return nil, fmt.Errorf("stock build of %s: %w", rec.Name, err)
	}
	lib := filepath.Join(c.stageDir(), c.drop)
	if err := copyFile(lib, filepath.Join(bin, c.drop)); err != nil {
		return nil, err
	}
	f, err := binary.InspectContext(ctx, lib)
	if err != nil {
		return nil, err
	}
	if err := abi(ctx, c.drop, f, bin, host); err != nil {
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
		return build.Plan{}, build.Artifacts{}, c.Repo.OutOfRange(rec, c.Tree.Tag.String(), c.Tree.Pin)
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

// abi compares what a backend library takes from ggml with what the programs and
// libraries of a folder give.
func abi(ctx context.Context, name string, lib *binary.File, bin string, host []*binary.File) error {
	given := map[string]bool{}
	for _, f := range host {
		whole, err := binary.InspectContext(ctx, filepath.Join(bin, f.Name))
		if err != nil {
			return err
		}
		for _, s := range whole.ExportNames() {
			given[s] = true
		}
	}
	if lib.PE != nil {
		return abiPE(name, lib.PE, given)
	}
	var errs []error
	for _, s := range lib.ImportNames() {
		if (strings.Contains(s, "ggml") || strings.Contains(s, "gguf")) && !given[s] {
			errs = append(errs, &binary.Rejected{File: name, Fault: fmt.Sprintf("needs the symbol %s, which the stock build of this tag does not have: it is no drop-in", s)})
		}
	}
	return errors.Join(errs...)
}

// abiPE is abi for a DLL. Of ggml's DLLs it may take only C functions: those of C++ have
// other names where Microsoft's compiler made the DLL, as it makes upstream's, and
// other rules for what goes in and out.
func abiPE(name string, lib *binary.PE, given map[string]bool) error {
	var errs []error
	for _, dll := range lib.Imports {
		if !strings.HasPrefix(strings.ToLower(dll.DLL), "ggml") {
			continue
		}
		for _, s := range dll.Functions {
			switch {
			case strings.HasPrefix(s, "_Z") || strings.HasPrefix(s, "?") || strings.HasPrefix(s, "#"):
				errs = append(errs, &binary.Rejected{File: name, Fault: fmt.Sprintf("takes %s from %s, which is no C function: upstream's package, made by another compiler, cannot give it, so it is no drop-in", s, dll.DLL)})
			case !given[s]:
				errs = append(errs, &binary.Rejected{File: name, Fault: fmt.Sprintf("needs %s of %s, which the stock build of this tag does not have: it is no drop-in", s, dll.DLL)})
			}
		}
	}
	return errors.Join(errs...)
}

// warnHeaders says which fixes change a header that both sides of the drop-in are
// compiled with: names of symbols do not show a structure that changed.
func (c *Chain) warnHeaders(host string) {
	for path, fixes := range c.touched() {
		if filepath.Ext(path) == ".h" && (strings.HasPrefix(path, "ggml/include/") || filepath.Dir(path) == "ggml/src") {
			c.Log.Warn("a fix changes a header that the stock package was compiled without; a structure in it must be the same in both", "header", path, "fixes", strings.Join(fixes, ", "), "package", host)
		}
	}
}

// stage lays out what the bundle holds in the new folder to, and verifies it.
func (c *Chain) stage(art build.Artifacts, to string) ([]*binary.File, error) {
	if c.drop == "" {
		return stage(art, to, c.Recipe, c.libraryDirs)
	}
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		return nil, err
	}
	if err := copyFile(filepath.Join(art.Dir, "bin", c.drop), filepath.Join(to, c.drop)); err != nil {
		return nil, fmt.Errorf("stage %s: %w", c.drop, err)
	}
	v := c.Recipe.Verify
	v.Needed = append(slices.Clone(v.Needed), "libggml-base.so*", "ggml-base.dll") // the package's own
	return binary.Verify(to, []string{c.drop}, v)
}
