package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/disk"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Options is what a look at a target needs.
type Options struct {
	chain.Workspace
	Root        *buildenv.Decl // the buildenv whose tools are looked at; nil: this machine's
	Environ     []string       // the user's, for the tools that know the cards
	CUDAHeaders string         // folder of the CUDA headers for the simulated device; may be empty
	Clang       string         // its compiler; empty: the first that serves
}

// Target says what this machine has and lacks to build a target, for any tag or for t.
// The error is one of a target or tag that does not exist, or the context's; what is
// missing stands in the report.
func Target(ctx context.Context, o Options, name string, t *tag.Tag) (*Report, error) {
	rec, err := o.Repo.Recipe(name)
	if err != nil {
		return nil, err
	}
	r := &Report{Kind: KindTarget, Subject: name, Findings: []Finding{}}
	if t != nil {
		named := o.Repo.Lock.Named(rec.Upstream, *t)
		t = &named
		r.Tag = t.String()
		if err := o.CheckTag(rec.Upstream, *t); err != nil {
			return nil, err
		}
		if err := o.InRange(rec, *t); err != nil {
			return nil, err
		}
	}
	tc := o.Repo.Toolchains[rec.Toolchain]
	facts, root, err := r.tools(ctx, o, tc, rec)
	if err != nil {
		return nil, err
	}
	if o.Root != nil && facts.MemoryMiB == 0 { // the root could not be entered; memory is this machine's
		facts.Cores, facts.MemoryMiB = runtime.GOMAXPROCS(0), build.FreeMemory()
	}
	rec.Verify.CUDA = rec.Verify.CUDA.For(facts.CUDA.Version)
	r.memory(facts, tc)
	r.disk(o, rec)
	if err := r.sources(ctx, o, rec, t); err != nil {
		return nil, err
	}
	fit, err := r.environments(o, tc)
	if err != nil {
		return nil, err
	}
	driver := r.driver(facts, rec)
	if err := r.system(ctx, o, rec, root, fit); err != nil {
		return nil, err
	}
	if err := r.proofs(ctx, o, rec, driver); err != nil {
		return nil, err
	}
	return r.judge(), nil
}

// tools looks for the toolchain's programs and the headers of optional features, on
// this machine or in the root of Options.Root, which it returns.
func (r *Report) tools(ctx context.Context, o Options, tc spec.Toolchain,
	rec spec.Recipe,
) (facts build.Facts, root string, err error) {
	if o.Root == nil {
		facts, err = build.Probe(ctx, tc, rec)
	} else {
		facts, root, err = o.inside(ctx, tc, rec)
	}
	if ctx.Err() != nil {
		return facts, root, context.Cause(ctx)
	}
	r.programs(facts, err, o.Root, tc, rec)
	return facts, root, nil
}

// programs says what a look for the tools has found, which ended with err.
func (r *Report) programs(facts build.Facts, err error, in *buildenv.Decl, tc spec.Toolchain, rec spec.Recipe) {
	var missing *build.MissingTools
	var fault *build.Fault
	var bad *build.BadToolkit
	switch {
	case r.noBuildenv(err, in):
		return
	case errors.As(err, &fault):
		r.lacks("machine", "", "Toolchain %s does not run here: %s.", tc.Name, fault.Msg)
		return
	case errors.As(err, &missing):
	case errors.As(err, &bad):
		r.lacks("tool", bad.Next, "%s.", strings.TrimRight(strings.ReplaceAll(bad.Error(), "\n", "; "), "."))
		return
	case err != nil:
		r.lacks("tool", "", "The toolchain cannot be used: %s.",
			strings.TrimRight(strings.ReplaceAll(err.Error(), "\n", "; "), "."))
		return
	}
	if in != nil {
		r.Buildenv, r.BuildenvMade = in.Name, true
		r.ok("environment", "%s (%s) is made: what follows is told of it.", in.Name, in.Summary)
	}
	r.ok("machine", "Toolchain %s is for %s/%s, as this machine is.", tc.Name, tc.OS, tc.Arch)
	for _, role := range slices.Sorted(maps.Keys(facts.Tools)) {
		t := facts.Tools[role]
		r.ok("tool", "%s is %s %s.", role, t.Path, t.Version)
	}
	if missing != nil {
		for _, t := range missing.Tools {
			var fix []string
			if t.Debian != "" && in == nil {
				fix = append(fix, "on Debian and Ubuntu: apt-get install "+t.Debian)
			}
			if t.Hint != "" {
				fix = append(fix, t.Hint)
			}
			r.lacks("tool", strings.Join(fix, "; "), "%s is missing: %s: %s.", t.Role, strings.Join(t.Names, " or "), t.Why)
		}
		if len(rec.Optional) > 0 {
			r.unknown("feature", "", "Optional features are looked for once the tools are there.")
		}
		return
	}
	for _, o := range rec.Optional {
		if facts.Headers[o.Header] {
			r.ok("feature", "%s: in, as %s is there.", o.Gives, o.Header)
			continue
		}
		fix := ""
		if o.Debian != "" && in == nil {
			fix = "on Debian and Ubuntu: apt-get install " + o.Debian
		}
		r.without("feature", fix, "%s: left out, as %s is not there.", o.Gives, o.Header)
	}
	switch {
	case facts.Launcher != "":
		r.ok("cache", "%s makes a second build quick.", facts.Launcher)
	case in != nil:
		r.without("cache", "", "No compiler cache serves there: a second build takes as long as the first.")
	default:
		r.without("cache", "on Debian and Ubuntu: apt-get install ccache",
			"No compiler cache: a second build takes as long as the first.")
	}
}

func (r *Report) memory(facts build.Facts, tc spec.Toolchain) {
	switch {
	case facts.MemoryMiB == 0:
		r.unknown("memory", "", "How much memory is free is not known here; a compile job may take %s.", gib(tc.JobMiB))
	case facts.MemoryMiB < tc.JobMiB:
		r.lacks("memory", "", "%s are free, and a compile job may take %s.", gib(facts.MemoryMiB), gib(tc.JobMiB))
	default:
		r.ok("memory", "%s are free for %s, and a compile job may take %s.", gib(facts.MemoryMiB),
			count(facts.Cores, "processor", "processors"), gib(tc.JobMiB))
	}
}

func gib(mib int64) string { return fmt.Sprintf("%.1f GiB", float64(mib)/1024) }

// disk looks at the folder that a release is made in, and at the cache.
func (r *Report) disk(o Options, rec spec.Recipe) {
	free, known := disk.Free(build.Existing(o.Out))
	switch {
	case !known:
		r.unknown("disk", "", "How much room %s has is not known here.", o.Out)
	case rec.DiskMiB == 0:
		r.unknown("disk", "", "%s are free for %s; what a release of %s takes was not measured.", gib(free>>20), o.Out,
			rec.Name)
	case free>>20 < rec.DiskMiB:
		r.lacks("disk", "--out DIR takes another disk", "%s are free for %s, and a release takes %s.", gib(free>>20), o.Out,
			gib(rec.DiskMiB))
	default:
		r.ok("disk", "%s are free for %s, and a release takes %s.", gib(free>>20), o.Out, gib(rec.DiskMiB))
	}
	for _, d := range []string{o.Out, o.Cache} {
		if err := writable(build.Existing(d)); err != nil {
			r.lacks("disk", "", "Nothing can be written to %s: %v.", d, err)
		}
	}
}

func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".llpatch-doctor-")
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			return p.Err
		}
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// sources asks where the tag, or any tag, can be had from.
func (r *Report) sources(ctx context.Context, o Options, rec spec.Recipe, t *tag.Tag) error {
	so := source.Options{
		Cache: o.Cache, Dir: o.Records.Dir, Sources: o.Repo.Sources, Lock: o.Repo.Lock,
		Override: o.Source, Offline: o.Offline, Log: o.Log,
	}
	cached := source.Cached(so, rec.Upstream)
	have := len(cached) > 0 && (t == nil || slices.Contains(cached, t.String()))
	if len(cached) > 0 {
		r.ok("cache", "The cache holds the trees of %s, which need no source.", strings.Join(cached, ", "))
	} else {
		r.without("cache", "", "The cache holds no tree of %s yet.", rec.Upstream)
	}
	looks, nearest, err := source.Looks(ctx, so, rec.Upstream, t)
	if err != nil {
		return err
	}
	what := rec.Upstream
	if t != nil {
		what = t.String()
	}
	served, asked := false, true
	for _, l := range looks {
		switch {
		case !l.Asked:
			asked = false
			r.unknown("source", "", "%s needs the network, and was not asked: --offline.", l.Source)
		case l.Err != nil:
			r.without("source", "", "%s does not serve: %v.", l.Source, l.Err)
		case l.Here:
			served = true
			r.ok("source", "%s is on this machine and has %s.", l.Source, what)
		default:
			served = true
			r.ok("source", "%s answers and has %s.", l.Source, what)
		}
	}
	fix := "--source PATH-or-URL takes a repository, bundle or tarball that you have"
	switch {
	case served || have:
	case len(nearest) > 0 && o.Nearest:
		near, err := tag.Parse(nearest[0])
		if err != nil {
			return err
		}
		if err := o.InRange(rec, near); err != nil {
			return err
		}
		r.ok("source", "No source has %s; --nearest takes %s instead.", what, near)
		r.Tag, r.Asked = near.String(), what
	case !asked:
		r.unknown("source", fix, "Whether %s can be had is not known offline.", what)
	case len(nearest) > 0:
		r.lacks("source", "--nearest takes "+nearest[0]+" instead; "+fix, "No source has %s.", what)
	default:
		r.lacks("source", fix, "No source has %s.", what)
	}
	return nil
}

// driver says which driver the result will ask for, and returns it where that is one
// of NVIDIA's.
func (r *Report) driver(facts build.Facts, rec spec.Recipe) *binary.Driver {
	switch {
	case slices.Contains(rec.Backends, "hip"):
		if v := facts.HIP.Version; v != "" {
			r.ok("tool", "ROCm is %s with HIP %s, its clang %s %s, its device library %s.", facts.HIP.Root, v, facts.HIP.Clang,
				facts.HIP.Compiler, facts.HIP.DeviceLib)
		}
		r.unknown("driver", "", "Which AMD driver the result will need is not known: any amdgpu that shows the card in "+
			"/dev/kfd and that the user's ROCm takes.")
	case slices.Contains(rec.Backends, "cuda"):
		v := facts.CUDA.Version
		if v == "" {
			r.unknown("driver", "", "Which NVIDIA driver the result will need shows when nvcc is there.")
			return nil
		}
		if rec.OS == spec.Win7 {
			r.ok("driver", "Built with CUDA %s, the result will need NVIDIA driver %s or later for Windows; those for "+
				"Windows 7 end with branch R470 (474.11 and others), which knows cards up to the GeForce RTX 30 series.", v,
				bundle.Win7Driver)
			return nil
		}
		d := binary.ToolkitDriver(v, false)
		r.ok("driver", "Built with CUDA %s, the result will need NVIDIA driver %s (%s).", v, d, d.Why)
		if c := rec.Verify.CUDA; c != nil && len(c.PTX) > 0 {
			r.ok("driver", "Cards that run its PTX will need driver %s.", binary.ToolkitDriver(v, true))
		}
		return &d
	default:
		r.ok("driver", "The result will need no driver: it runs on the processor.")
	}
	return nil
}
