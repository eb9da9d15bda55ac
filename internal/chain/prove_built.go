package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// ProveBuilt runs the proofs of the series that need no device: for each such fix the
// tree without it and the whole one are built, one after the other in one folder, as far
// as the proof's check wants, so that only what differs is compiled twice. Programs for
// Windows run through wine. The fixes that have no such proof are told in the result. A
// proof that does not hold is an error that wraps *smoke.FailedChecks or *smoke.NotRun, after
// all of them have run.
func ProveBuilt(ctx context.Context, e Workspace, c Prepared) (p *Proofs, err error) {
	p, todo, err := listed(e, c.Patched, "build machine", func(f spec.Fix) ([]smoke.ProofCheck, string) {
		switch mine := func(backend string) bool { return slices.Contains(c.Recipe.Backends, backend) }; {
		case smoke.OnDevice(f.Proof):
			return nil, "it wants --device sim"
		case len(f.Backends) > 0 && !slices.ContainsFunc(f.Backends, mine):
			return nil, c.Recipe.Name + " has no backend that compiles it"
		case f.Proof == smoke.Malformed && c.Recipe.OS != spec.Linux:
			return nil, "the compiler for " + c.Recipe.OS + " has no address sanitizer; a target for Linux shows it"
		case f.Proof == smoke.Malformed:
			return smoke.MalformedChecks(f.Cures), ""
		}
		return smoke.ProofChecks(f.Proof, c.Tree.Pin.Build, false), ""
	})
	if err != nil || len(todo) == 0 {
		return p, err
	}
	if c.Site.Remote != nil {
		return nil, &BadOption{"--on", errors.New("the proofs of --prove build on this machine")}
	}
	var wine *smoke.Wine
	if slices.ContainsFunc(todo, func(o smoke.ProofOptions) bool { return !ofBuild(o.Check) }) {
		if wine, err = findWine(ctx, e, c.Order, c.Site.Toolchain); err != nil {
			return nil, err
		}
	}
	if err := checkRoom(c.Patched); err != nil {
		return nil, err
	}
	h := halves{Built: Built{Prepared: c}, env: e}
	if h.claim, err = claim(ctx, e, c.Patched); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := os.MkdirAll(c.file("logs"), 0o755); err != nil {
		return nil, err
	}
	if h.in, err = e.inputFor(c, c.Result.Tree, c.file(proofFolder)); err != nil {
		return nil, err
	}
	h.in.Touched, h.in.Series, h.in.Only = c.Result.Changed(), c.fixes(), c.only()
	plan, err := build.NewPlan(h.in)
	if err != nil {
		return nil, e.placed(err)
	}
	sanitized := map[string][2]side{} // by their program
	for i := range todo {
		o := &todo[i]
		if o.Check.Name == smoke.Malformed {
			program := smoke.MalformedProgram(o.Check)
			if _, made := sanitized[program]; !made {
				if sanitized[program], err = h.sanitized(ctx, e, program); err != nil {
					return nil, err
				}
			}
			o.Unpatched.Bin, o.Patched.Bin = sanitized[program][0].bin, sanitized[program][1].bin
			continue
		}
		o.Options = smoke.Options{Wine: wine, Want: smoke.Version{Build: plan.Build, Commit: plan.VersionCommit}}
		o.Unpatched.Bin = filepath.Join(h.in.Dir, "bin")
		o.Patched = o.Unpatched
		o.Make = func(ctx context.Context, half string) (*smoke.Result, error) {
			return h.make(ctx, o.Fix, o.Check, half == "patched")
		}
	}
	return p, p.run(ctx, e, c.Patched, h.hold(), todo, proofFolder, "proofs-built")
}

// proofFolder is where the builds of ProveBuilt lie, below the folder of the tag and target.
const proofFolder = "proof"

// sanitized builds a program of the stock tree and of the patched one so that it says what memory it touches:
// once for all inputs, since most of the cures change the same files.
func (b Built) sanitized(ctx context.Context, e Workspace, program string) (pair [2]side, err error) {
	const folder = "proof-sanitized"
	b.Recipe.CMake = atOnce(b.Recipe)
	if program != "llama-server" {
		b.Recipe.CMake["LLAMA_BUILD_EXAMPLES"] = true
	}
	for _, name := range []string{"CMAKE_C_FLAGS_RELEASE", "CMAKE_CXX_FLAGS_RELEASE"} {
		b.Recipe.CMake[name] = fmt.Sprint(b.Recipe.CMake[name], " -fsanitize=address -D_GLIBCXX_ASSERTIONS")
	}
	files := slices.Clone(b.Recipe.Bundle.Files)
	for i, file := range files { // there is one library for the processor, without a variant's name
		files[i] = strings.Replace(file, "-*", "*", 1)
	}
	b.Recipe.Programs, b.Recipe.Bundle = []string{program}, spec.Bundle{Files: files}
	b.Recipe.Verify.Needed = append(slices.Clone(b.Recipe.Verify.Needed), "libasan.so.*")
	stock, err := b.unpatched(b.needs(e))
	if err != nil {
		return pair, err
	}
	for i, tree := range []*source.Tree{stock, b.Result.Tree} {
		if pair[i].bin, pair[i].plan, err = b.laidPrograms(ctx, e, tree, folder,
			filepath.Join(folder, program+"-"+sideNames[i])); err != nil {
			err = fmt.Errorf("%s with the address sanitizer, %s: %w", program, sideNames[i], err)
			if ctx.Err() == nil {
				err = b.notRun(err)
			}
			return pair, err
		}
	}
	return pair, nil
}

// halves makes the two builds of a proof.
type halves struct {
	Built
	env Workspace
	in  build.Input // of the whole tree; its version is that of both
}

// make makes one of them, and does the check where it is one of the build itself.
func (h halves) make(ctx context.Context, fix string, check spec.Check, patched bool) (*smoke.Result, error) {
	tree := h.Result.Tree
	var err error
	if !patched {
		if tree, err = h.without(h.env, fix); err != nil {
			return nil, err
		}
	}
	if _, err := tree.CheckoutOwn(ctx, h.in.Source, h.excluded()); err != nil {
		return nil, err
	}
	in := h.in
	if in.NoVersion, err = noVersion(h.Recipe.Upstream, tree); err != nil {
		return nil, err
	}
	if !ofBuild(check) {
		in.Only = []string{"llama-server"}
		in.Recipe.CMake = atOnce(in.Recipe)
	}
	plan, err := build.NewPlan(in)
	if err != nil {
		return nil, h.env.placed(err)
	}
	o := h.run(h.env, "proof.log")
	touched := h.touched(fix)
	switch check.Name {
	case smoke.Compiles:
		return compiles(ctx, plan, o, touched, sources(touched, tree), false)
	case smoke.CUDAClang:
		// It sums over a warp, which clang's own headers have wrong.
		return compiles(ctx, plan, o, touched, []string{"ggml/src/ggml-cuda/mmid.cu"}, true)
	case smoke.NoAVX512:
		return noAVX512(ctx, plan, o)
	}
	_, err = build.Run(ctx, plan, o)
	return nil, err
}

// atOnce are a recipe's options for a program that ends at once: it need not be fast, nor
// does it need a library for each kind of processor.
func atOnce(rec spec.Recipe) spec.Options {
	o := maps.Clone(rec.CMake)
	if o == nil {
		o = spec.Options{}
	}
	if variants := "GGML_CPU_ALL_VARIANTS"; o[variants] == true {
		o[variants] = false
	}
	flags := "-O0 -DNDEBUG"
	if rec.OS == spec.Win7 {
		flags += " -Wa,-mbig-obj" // without optimization a file has more sections than the usual form can count
	}
	o["CMAKE_C_FLAGS_RELEASE"], o["CMAKE_CXX_FLAGS_RELEASE"] = flags, flags
	return o
}

// ofBuild reports whether a check needs no program.
func ofBuild(c spec.Check) bool {
	return slices.Contains([]string{smoke.Compiles, smoke.CUDAClang, smoke.NoAVX512}, c.Name)
}

// touched are the paths that a fix changes.
func (h halves) touched(fix string) []string {
	var paths []string
	for name, by := range h.Result.Changed() {
		if slices.Contains(by, fix) {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}

// sources are those of the paths that a compiler is called for.
func sources(paths []string, tree *source.Tree) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(name string) bool {
		_, there := tree.Stat(name)
		return !there || !slices.Contains([]string{".c", ".cc", ".cpp", ".cu"}, path.Ext(name))
	})
}

// compiles compiles some files. What is wrong with one of them or with one that the fix
// changes is the fault; with all, so is whatever else CMake and the compiler refuse.
// Anything else is an error.
func compiles(ctx context.Context, plan build.Plan, o build.RunOptions, touched, files []string,
	all bool,
) (*smoke.Result, error) {
	if len(files) == 0 {
		return nil, errors.New("the fix changes no file that is compiled by itself")
	}
	err := build.Objects(ctx, plan, o, files)
	if err == nil {
		return &smoke.Result{Verdict: smoke.Passed, Detail: "compiled " + strings.Join(files, ", ")}, nil
	}
	var f *build.Failed
	switch {
	case !errors.As(err, &f):
	case all && f.Kind == build.KindCMake, f.Kind == build.KindCompiler &&
		(all || slices.Contains(slices.Concat(touched, files), f.File)):
		at := f.File
		if f.Line > 0 {
			at += fmt.Sprintf(":%d", f.Line)
		}
		return &smoke.Result{Verdict: smoke.Failed, Fault: smoke.FaultCompile, Detail: strings.TrimPrefix(at+": ", ": ") +
			f.Cause, Log: f.Log, Tail: f.Tail}, nil
	}
	return nil, err
}

// noAVX512 looks at what the processor's libraries would be compiled with.
func noAVX512(ctx context.Context, plan build.Plan, o build.RunOptions) (*smoke.Result, error) {
	if err := build.Objects(ctx, plan, o, nil); err != nil {
		return nil, err
	}
	flags, err := plan.Flags()
	if err != nil {
		return nil, err
	}
	var with, without []string
	for _, target := range slices.Sorted(maps.Keys(flags)) {
		variant, ok := strings.CutPrefix(target, "ggml-cpu-")
		switch avx512 := func(flag string) bool { return strings.HasPrefix(flag, "-mavx512") }; {
		case !ok || strings.HasSuffix(variant, "-feats"): // what says whether the processor is one for it
		case slices.ContainsFunc(flags[target], avx512):
			with = append(with, variant)
		default:
			without = append(without, variant)
		}
	}
	switch {
	case len(with) > 0:
		return &smoke.Result{Verdict: smoke.Failed, Fault: smoke.FaultAVX512, Detail: "to be built for AVX-512: " +
			strings.Join(with, ", ")}, nil
	case len(without) == 0:
		return nil, errors.New("CMake has no library ggml-cpu-* to build, so nothing is shown")
	}
	return &smoke.Result{Verdict: smoke.Passed, Detail: "to be built: " + strings.Join(without, ", ") +
		"; none for AVX-512"}, nil
}

// without is the patched tree without a fix, and without those that require it.
func (p Patched) without(e Workspace, fix string) (*source.Tree, error) {
	gone := []string{fix}
	for _, f := range e.Repo.Fixes { // in the order of the series: what is required comes first
		if slices.ContainsFunc(f.Requires, func(id string) bool { return slices.Contains(gone, id) }) {
			gone = append(gone, f.ID)
		}
	}
	return p.treeOf("tree without "+fix, func(id string) bool { return !slices.Contains(gone, id) })
}
