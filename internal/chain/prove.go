package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// Simulation says how the simulated device's libraries are made.
type Simulation struct {
	Headers string // folder with NVIDIA's headers, as scripts/cuda-headers makes it
	HIP     string // folder with AMD's headers, as scripts/hip-headers makes it: the device is HIP's; empty: CUDA's
	Clang   string // clang++; empty: the newest on the PATH
	More    bool   // the proofs also under other settings (smoke.MoreProofChecks)
}

// names are the device in words, and where it and what runs on it lie, below the folder of the
// tag and target; what came of it is kept in files called as record.
func (s Simulation) names() (place, folder, record string) {
	if s.HIP != "" {
		return "simulated HIP device", "sim-hip", "proofs-hip"
	}
	return "simulated device", "sim", "proofs"
}

// Proofs are what the proofs of one target's fixes came to.
type Proofs struct {
	Tag    string         `json:"tag"`
	Target string         `json:"target"`
	Place  string         `json:"place"`
	Proofs []*smoke.Proof `json:"proofs"`
	// Without are the fixes of the series that have no proof at this place, by what they
	// name as their proof.
	Without map[string]string `json:"without,omitempty"`
	Why     map[string]string `json:"why,omitempty"` // of some of Without, why
}

// trimOn is what a recipe defines for whose card the pool's trim is on by default.
const trimOn = "GGML_CUDA_POOL_TRIM_DEFAULT=1"

// simulated is the part of a tree that the simulated device's backend is made
// of: only this may differ between the two builds of a proof where both use
// the same programs, which are those of the patched tree.
const simulated = "ggml/src/ggml-cuda/"

// NoFolder says that there is no such folder of CUDA or HIP headers.
type NoFolder struct {
	Path string
	HIP  bool
}

// Error names the folder and what makes it.
func (e *NoFolder) Error() string {
	if e.HIP {
		return fmt.Sprintf("there is no folder %s with AMD's HIP headers; scripts/hip-headers %s fetches them", e.Path,
			e.Path)
	}
	return fmt.Sprintf("there is no folder %s with NVIDIA's CUDA headers; scripts/cuda-headers %s fetches them", e.Path,
		e.Path)
}

// ExitCode is exit.Usage.
func (e *NoFolder) ExitCode() int { return exit.Usage }

// CanProve looks for what Prove would miss only after all that takes long: the
// headers and the compiler, unless no fix of the series needs them. The error is
// a *NoFolder, or wraps a *smoke.NotRun.
func CanProve(ctx context.Context, e Workspace, p Prepared, s Simulation) error {
	_, todo, err := toProve(e, p.Patched, s)
	if err != nil || len(todo) == 0 {
		return err
	}
	if st, err := os.Stat(s.Headers); err != nil || !st.IsDir() {
		return &NoFolder{Path: s.Headers}
	}
	if st, err := os.Stat(s.HIP); s.HIP != "" && (err != nil || !st.IsDir()) {
		return &NoFolder{Path: s.HIP, HIP: true}
	}
	if s.HIP != "" && p.oneLibrary() {
		return p.notRun(errors.New("ggml-cuda is a part of ik_llama.cpp's one library, and the simulated HIP device is " +
			"not made for that: take --device sim"))
	}
	if p.Recipe.Wine != "" {
		if s.HIP != "" {
			return p.notRun(errors.New("the simulated HIP device is made for Linux alone"))
		}
		if _, err := findWine(ctx, e, p.Order, p.Site.Toolchain); err != nil {
			return err
		}
	}
	lacks := sim.Lacks(ctx, sim.Options{Headers: s.Headers, HIP: s.HIP, Clang: s.Clang, Windows: p.Recipe.Wine != ""})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(lacks) > 0 {
		return p.notRun(fmt.Errorf("simulated device: %w", errors.Join(lacks...)))
	}
	return nil
}

// listed returns the report as it begins, and what will be proven: of each proof of the
// series the checks that pick gives, or why there is none.
func listed(
	e Workspace, c Patched, place string, pick func(spec.Fix) ([]smoke.ProofCheck, string),
) (*Proofs, []smoke.ProofOptions, error) {
	p := &Proofs{
		Tag: c.Tree.Tag.String(), Target: c.Recipe.Name, Place: place, Proofs: []*smoke.Proof{},
		Without: map[string]string{}, Why: map[string]string{},
	}
	var todo []smoke.ProofOptions
	for _, in := range c.Series.In {
		i := slices.IndexFunc(e.Repo.Fixes, func(f spec.Fix) bool { return f.ID == in.Fix })
		if i < 0 {
			return nil, nil, fmt.Errorf("proof of %s: its fix.toml is gone", in.Fix)
		}
		fix := e.Repo.Fixes[i]
		checks, why := pick(fix)
		for _, one := range checks {
			todo = append(todo, smoke.ProofOptions{
				Fix: in.Fix, Check: one.Check, Fault: one.Fault, Case: one.Case,
				Control: one.Control, Same: one.Same,
			})
		}
		if len(checks) == 0 {
			p.Without[in.Fix] = fix.Proof
			if why = cmp.Or(fix.Unproven, why); why != "" {
				p.Why[in.Fix] = why
			}
		}
	}
	return p, todo, nil
}

// toProve is listed for the simulated device.
func toProve(e Workspace, c Patched, s Simulation) (*Proofs, []smoke.ProofOptions, error) {
	n := c.Tree.Pin.Build
	place, _, _ := s.names()
	reserved := slices.ContainsFunc(e.Repo.Fixes, func(f spec.Fix) bool {
		return f.Proof == smoke.Reserve && slices.Contains(c.fixes(), f.ID)
	})
	p, todo, err := listed(e, c, place, func(f spec.Fix) ([]smoke.ProofCheck, string) {
		if !smoke.OnDevice(f.Proof) {
			return nil, ""
		}
		if c.oneLibrary() {
			return smoke.IKProofChecks(f.Proof, n), ""
		}
		checks := smoke.ProofChecks(f.Proof, n, reserved)
		if s.HIP != "" {
			checks = append(checks, smoke.HIPProofChecks(f.Proof, n)...)
		}
		if s.More {
			checks = append(checks, smoke.MoreProofChecks(f.Proof, n, reserved)...)
		}
		return checks, ""
	})
	if err != nil {
		return nil, nil, err
	}
	if c.oneLibrary() {
		return p, todo, nil
	}
	// What other fixes change is in both halves: the programs are those of the patched tree.
	for _, t := range c.Result.Touched {
		proven := slices.ContainsFunc(todo, func(o smoke.ProofOptions) bool { return o.Fix == t.Fix })
		if proven && !strings.HasPrefix(t.Path, simulated) {
			return nil, nil, c.notRun(fmt.Errorf("%s changes %s, outside %s, so the programs with it are not those without "+
				"it: such a fix cannot be proven on the simulated device", t.Fix, t.Path, simulated))
		}
	}
	return p, todo, nil
}

// Prove builds the programs of a patched tree and runs the proof of every fix of the series on
// the simulated device: ggml-cuda's host code of the stock tree and of the patched one, each
// with the same built programs, which run through wine where the recipe's are for Windows; of a tree with
// one library each with its own. The fixes whose proof is not one of smoke.Proofs are told in the
// result. A proof that does not hold is an error that wraps *smoke.FailedChecks or *smoke.NotRun,
// after all of them have
// run. A tree that the simulated device's compiler refuses is a *build.Failed.
func Prove(ctx context.Context, e Workspace, on Prepared, s Simulation) (p *Proofs, err error) {
	p, todo, err := toProve(e, on.Patched, s)
	if err != nil || len(todo) == 0 {
		return p, err
	}
	_, folder, record := s.names()
	programs := sharedPrograms
	if on.oneLibrary() {
		programs = ownPrograms
	}
	b, pair, err := programs(ctx, e, on, folder)
	defer func() { err = errors.Join(err, b.Close()) }()
	if err != nil {
		return nil, err
	}
	wine, err := findWine(ctx, e, b.Order, b.Site.Toolchain)
	if err != nil {
		return nil, err
	}
	sides := map[string]smoke.Programs{}
	for i, name := range sideNames {
		one := pair[i]
		one.plan.Dir = filepath.Join(b.Dir, folder, name)
		lib, err := simulate(ctx, e, b.Recipe, one.plan, s, b.file("logs/"+folder+"-"+name+".log"))
		if err != nil {
			err = fmt.Errorf("simulated device, %s: %w", name, err)
			var refused *build.Failed
			if ctx.Err() == nil && !errors.As(err, &refused) {
				err = b.notRun(err)
			}
			return nil, err
		}
		e.Log.Info("built ggml-cuda for the simulated device", "tree", name, "objects", lib.Objects, "compiled", lib.Compiled)
		sides[name] = smoke.Programs{Bin: one.bin, Env: lib.Env()}
	}
	for i := range todo {
		todo[i].Options = smoke.Options{Device: todo[i].Check.Device, Wine: wine}
		todo[i].Unpatched, todo[i].Patched = sides["stock"], sides["patched"]
		if todo[i].Same && slices.Contains(s.defines(b.Recipe), trimOn) {
			// Without it this target does not do what stock does, and is not to.
			env := map[string]string{"GGML_CUDA_POOL_TRIM": "off"}
			maps.Copy(env, todo[i].Check.Env)
			todo[i].Check.Env = env
		}
	}
	return p, p.run(ctx, e, b.Patched, b.hold(), todo, folder, record)
}

// run runs the proofs, each in a folder of its own below folder, and keeps what came
// of them in the files record.json and record.md. hold is inherited by what it starts.
func (p *Proofs) run(
	ctx context.Context, e Workspace, of Patched, hold []*os.File, todo []smoke.ProofOptions, folder, record string,
) error {
	var errs []error
	for i, o := range todo {
		work := o.Fix + "-" + o.Check.Name
		if o.Case != "" {
			work += "-" + strconv.Itoa(i+1)
		}
		o.Tag, o.Target, o.Commit, o.Tree = p.Tag, p.Target, of.Tree.Pin.Commit, of.Result.Tree.ID()
		o.Work, o.Log, o.Progress, o.Hold = of.file(path.Join(folder, work)), e.Log, e.Progress, hold
		proof, err := smoke.Prove(ctx, o)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if proof != nil {
			p.Proofs = append(p.Proofs, proof)
		}
		errs = append(errs, err)
	}
	if err := records.Write(of.file(record+".json"), p); err != nil {
		return err
	}
	return errors.Join(append(errs, atomicfile.WriteFile(of.file(record+".md"), []byte(p.Text()), 0o644))...)
}

// defines are the macros that a recipe compiles its backend with.
func (s Simulation) defines(rec spec.Recipe) []string {
	flags := rec.CUDAFlags
	if s.HIP != "" {
		flags = rec.HIPFlags
	}
	var out []string
	for _, flag := range flags {
		if define, ok := strings.CutPrefix(flag, "-D"); ok {
			out = append(out, define)
		}
	}
	return out
}

// simulate compiles the simulated device and ggml-cuda of plan.Source in
// plan.Dir. What the compiler refuses is a *build.Failed, as in any build.
func simulate(
	ctx context.Context, e Workspace, rec spec.Recipe, plan build.Plan, s Simulation, log string,
) (*sim.Library, error) {
	var before int64 // the log goes on from earlier runs
	if info, err := os.Stat(log); err == nil {
		before = info.Size()
	}
	lib, err := sim.Build(ctx, sim.Options{
		Src: plan.Source, Out: plan.Dir, Headers: s.Headers, HIP: s.HIP, Clang: s.Clang, NoVMM: true,
		Windows: rec.Wine != "", Defines: s.defines(rec),
		Jobs: plan.Jobs, Logger: e.Log, Log: log, Progress: e.Progress,
	})
	var failed *run.Error
	if ctx.Err() != nil || !errors.As(err, &failed) || failed.Log == "" || failed.Exit <= 0 && failed.Signal == "" {
		return lib, err
	}
	output, readErr := os.ReadFile(log)
	if readErr != nil || int64(len(output)) < before {
		return nil, err
	}
	return nil, plan.Explain("simulated device", output[before:], failed)
}

// Text is one line a proof: fix, tag, unpatched, patched.
func (p *Proofs) Text() string {
	var b strings.Builder
	for _, one := range p.Proofs {
		un, pa := "-", "-"
		if one.Unpatched != nil {
			un = fmt.Sprintf("%s (%s)", one.Unpatched.Checks[0].Verdict, one.Unpatched.Checks[0].Detail)
		}
		if one.Patched != nil {
			pa = fmt.Sprintf("%s (%s)", one.Patched.Checks[0].Verdict, one.Patched.Checks[0].Detail)
		}
		fmt.Fprintf(&b, "%s: %s %s on the %s: unpatched %s; patched %s\n", one.Verdict, one.Name(), p.Tag, p.Place, un, pa)
	}
	for _, id := range slices.Sorted(maps.Keys(p.Without)) {
		fmt.Fprintf(&b, "no proof on the %s: %s %s, its proof is %q", p.Place, id, p.Tag, p.Without[id])
		if why := p.Why[id]; why != "" {
			b.WriteString(": " + why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
