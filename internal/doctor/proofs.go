package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// proofs says which of a target's checks this machine can run. driver is what the
// result will need of NVIDIA's; nil: nothing.
func (r *Report) proofs(ctx context.Context, o Options, rec spec.Recipe, driver *binary.Driver) error {
	host, onSim, onCard := 0, 0, 0
	for _, c := range rec.Smoke {
		switch c.Device {
		case spec.Sim:
			onSim++
		case spec.Card:
			onCard++
		default:
			host++
		}
	}
	if err := r.hostChecks(ctx, o, rec, host); err != nil {
		return err
	}
	if fixes := o.simulated(rec); onSim > 0 || len(fixes) > 0 {
		what := "What is proven on the simulated device (" + strings.Join(fixes, ", ") + ")"
		if err := r.simulated(ctx, o, rec, what); err != nil {
			return err
		}
	}
	uses := slices.ContainsFunc(rec.Backends, func(b string) bool { return b == "cuda" || b == "hip" })
	if onCard == 0 && !uses {
		return nil
	}
	if slices.Contains(rec.Backends, "hip") {
		return r.amd(ctx, o, rec, onCard)
	}
	cards, err := memory.NvidiaCards(ctx, o.Environ)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.noCard(onCard, err)
		return nil
	}
	for _, c := range cards {
		r.card(rec, c, driver)
	}
	return nil
}

// hostChecks says how the checks that need no card are run.
func (r *Report) hostChecks(ctx context.Context, o Options, rec spec.Recipe, n int) error {
	checks := count(n, "check runs", "checks run")
	if rec.Wine == "" {
		r.ok("proof", "%s on this machine's processor.", checks)
		return nil
	}
	wine, err := build.FindTool(ctx, o.Repo.Toolchains[rec.Toolchain], spec.WineRole)
	var missing *build.MissingTools
	switch {
	case errors.As(err, &missing):
		t := missing.Tools[0]
		r.lacks("proof", "on Debian and Ubuntu: apt-get install "+t.Debian, "%s through wine, which is missing: %s: %s; "+
			"without it the target can be built, but not released.", checks, strings.Join(t.Names, " or "), t.Why)
	case err != nil:
		return err
	default:
		r.ok("proof", "%s on this machine's processor, through %s as %s, which is no Windows: %s.", checks, wine.Banner,
			rec.Wine, wine.Path)
	}
	return nil
}

// simulated are the fixes of a target that have a proof on the simulated device.
func (o Options) simulated(rec spec.Recipe) []string {
	var ids []string
	for _, f := range o.Repo.Fixes {
		mine := rec.Fixes.All || slices.Contains(rec.Fixes.IDs, f.ID)
		if mine && slices.Contains(f.Upstreams(), rec.Upstream) && smoke.OnDevice(f.Proof) {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

func (r *Report) simulated(ctx context.Context, o Options, rec spec.Recipe, what string) error {
	lacks := sim.Lacks(ctx, sim.Options{Headers: o.CUDAHeaders, Clang: o.Clang, Windows: rec.Wine != ""})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range lacks {
		if tool := new(sim.MissingTool); errors.As(err, &tool) {
			r.without("proof", tool.Fix, "%s cannot run here: %s: %s.", what, tool.What, tool.Why)
			continue
		}
		r.without("proof", "", "%s cannot run here: %s.", what, oneLine(err))
	}
	switch {
	case len(lacks) > 0:
	case o.CUDAHeaders == "":
		r.unknown("proof", "scripts/cuda-headers DIR, of a clone of llpatch, fetches them; --cuda-headers DIR says "+
			"where they are", "%s can run here once CUDA headers are named: its tools are there.", what)
	default:
		r.ok("proof", "%s can run here: its tools are there, and the headers in %s.", what, o.CUDAHeaders)
	}
	return nil
}

// amd compares AMD's cards of this machine with what the result will be.
func (r *Report) amd(ctx context.Context, o Options, rec spec.Recipe, checks int) error {
	cards, err := memory.ChooseCards(ctx, o.Environ, "")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.noCard(checks, err)
		return nil
	}
	for _, c := range cards.List {
		name := fmt.Sprintf("Card %d, %s, %s", c.Index, c.Name, c.Driver)
		switch want := rec.Verify.HIP; {
		case want == nil || c.GFX == "":
			r.unknown("card", "", "%s: whether the result will run on it is not known.", name)
		case binary.ServesGFX(want.Archs, c.GFX) == "":
			r.without("card", "--gfx "+c.GFX+" builds for it", "%s, is %s: the recipe builds for %s alone.", name, c.GFX,
				strings.Join(want.Archs, " "))
		default:
			r.ok("card", "%s, is %s and runs the result, by %s.", name, c.GFX, binary.ServesGFX(want.Archs, c.GFX))
		}
	}
	return nil
}

// noCard says that there is no card, and what that means.
func (r *Report) noCard(checks int, why error) {
	then := "it can be built, and runs on the processor here"
	if checks > 0 {
		then += fmt.Sprintf(": %s not run", count(checks, "check that needs a card is", "checks that need a card are"))
	}
	r.without("card", "", "No card is here (%s): %s.", oneLine(why), then)
}

// card compares a card of this machine with what the result will be.
func (r *Report) card(rec spec.Recipe, c memory.NvidiaCard, driver *binary.Driver) {
	name := fmt.Sprintf("Card %d, %s, driver %s", c.Index, c.Name, c.Driver)
	want := rec.Verify.CUDA
	switch {
	case c.Capability == "":
		r.unknown("card", "", "%s: its driver does not tell what code it runs.", name)
	case want == nil:
		r.unknown("card", "", "%s: the recipe does not say for which cards it builds.", name)
	case len(want.Toolkits) > 0:
		r.unknown("card", "", "%s, of compute capability %s: whether it runs the result shows when nvcc is there.", name,
			c.Capability)
	case binary.Serves(slices.Concat(want.Archs, want.AtLeast, want.PTX), c.Capability) == "":
		r.without("card", "", "%s, of compute capability %s: the recipe builds for %s alone, and checks on it would fail.",
			name, c.Capability, strings.Join(slices.Concat(want.Archs, want.AtLeast, want.PTX), " "))
	case driver != nil && driver.Version != "" && binary.Less(c.Driver, driver.Version):
		r.without("card", bundle.HintNewerDriver+", or build with an older CUDA", "%s: the result will need %s.", name,
			driver)
	default:
		r.ok("card", "%s, of compute capability %s, runs the result, by %s.", name, c.Capability,
			binary.Serves(slices.Concat(want.Archs, want.AtLeast, want.PTX), c.Capability))
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimRight(line, ".")
}
