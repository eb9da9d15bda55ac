package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// Checked is a staged build whose checks have passed.
type Checked struct {
	Staged
	Report *smoke.Report
}

// checkedRecord is the report of checks that passed.
type checkedRecord struct {
	Report *smoke.Report `json:"report"`
}

// Check runs the recipe's checks on what was staged, where they will be shipped from. A report
// that passed on the same files and the same checks stands. Where they failed, or could not
// run, the report is there with the error.
func Check(ctx context.Context, e Workspace, s Staged, v Venue) (Checked, error) {
	c := Checked{Staged: s}
	bin, plan, list := s.Top(), s.Plan, checks(s.Recipe, s.Plan)
	if s.DropIn != "" {
		var err error
		if bin, plan, err = tryDropIn(ctx, e, s); err != nil {
			return c, err
		}
		list = slices.DeleteFunc(checks(s.Recipe, plan), func(c spec.Check) bool { return smoke.Compares([]spec.Check{c}) })
	}
	within, err := inside(ctx, e, s, v)
	if err != nil {
		return c, err
	}
	stock, err := buildStock(ctx, e, s.Built, v, list)
	if err != nil {
		return c, err
	}
	libs, err := toolkit(s)
	if err != nil {
		return c, err
	}
	if within != nil {
		libs.HostEnv = nil // they lie in the root
	}
	have, err := inventory(bin)
	if err != nil {
		return c, err
	}
	browser := ""
	if slices.ContainsFunc(list, func(c spec.Check) bool { return c.Name == "webui" }) && plan.WebUI() {
		browser = smoke.FindBrowser()
	}
	key, err := digest(have, list, e.Version, stock.entries, stock.Same, v.Device, v.Card, v.Wine, within, browser)
	if err != nil {
		return c, err
	}
	o := smoke.Options{
		Tag: s.Tree.Tag.String(), Target: s.Recipe.Name, Commit: s.Tree.Pin.Commit, Tree: s.Result.Tree.ID(),
		Series: s.fixes(), Bin: bin, Want: smoke.Version{Build: s.Tree.Pin.Build, Commit: plan.VersionCommit},
		Checks: list, Work: s.own("smoke"), Stock: stock.Bin, Same: stock.Same, StockWith: stock.With, HostEnv: libs.HostEnv,
		Wine: v.Wine, Inside: within, Device: v.Name, NoCard: v.NoCard, Browser: browser,
		Log: e.Log, Progress: e.Progress, Hold: s.hold(),
	}
	if on := v.Card; on != nil {
		o.Card, o.Driver, o.Probe, o.ProbeName = on.String(), on.List[0].Driver, on.Probe, on.Source
		o.CardEnv = slices.Concat(on.Env, libs.CardEnv)
	}
	passed := func(r checkedRecord) bool { return r.Report != nil }
	done, err := Memo(s.own("smoke.json"), key, passed, func() (r checkedRecord, err error) {
		for _, how := range libs.How {
			e.Log.Info("smoke: " + how)
		}
		r.Report, err = smoke.Run(ctx, o)
		return r, err
	})
	c.Report = done.Report
	if c.Report != nil {
		if werr := c.Report.Write(s.own("")); werr != nil {
			c.Report = nil
			return c, werr
		}
	}
	return c, err
}

// toolkit is where programs find the libraries of the toolkit that they were built with.
func toolkit(s Staged) (stage.Libraries, error) {
	if s.Plan.HIP.Version != "" {
		return stage.HIPLibraries(s.own("libs"), s.Files, s.Plan.HIP)
	}
	return stage.CUDALibraries(s.own("libs"), s.Files, s.Plan.CUDA)
}

// checks are the recipe's, with what only the plan knows: whether the web page and HTTPS
// are in. What is out must be out, which is judged too.
func checks(rec spec.Recipe, p build.Plan) []spec.Check {
	all := slices.Clone(rec.Smoke)
	for i := range all {
		in, ok := map[string]func() bool{"webui": p.WebUI, "tls": p.HTTPS}[all[i].Name]
		if ok && all[i].Args["expect"] == nil {
			args := map[string]any{"expect": in()}
			maps.Copy(args, all[i].Args)
			all[i].Args = args
		}
	}
	return all
}

// inside is the build root that the checks run in: the one of the build, where this
// machine's C library is older than what the files need. nil: this machine's own
// libraries. What another machine built runs here or not at all. The error wraps a
// *smoke.NotRun where they can run in neither.
func inside(ctx context.Context, e Workspace, s Staged, v Venue) (*smoke.Inside, error) {
	if s.Plan.Root == nil && s.Plan.Remote == nil {
		return nil, nil
	}
	floor := binary.Floor(s.Files, "GLIBC")
	if floor == "" {
		return nil, nil
	}
	libs, err := binary.SystemLibraries(ctx, nil)
	if err != nil {
		return nil, err
	}
	here, err := libs.Glibc(s.Recipe.Verify.Machine)
	if err != nil {
		return nil, err
	}
	old := canStart(floor, here)
	if old == nil {
		return nil, nil
	}
	if s.Site.root == nil {
		return nil, s.notRun(old)
	}
	if v.Name == spec.Card {
		return nil, s.notRun(fmt.Errorf("%w, and a card's driver is not in buildenv %s, where other checks run", old,
			s.Plan.Root.Name))
	}
	enter, err := s.Site.root.Runner(ctx, s.own("smoke"), buildenv.Same(s.Dir)...)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, s.notRun(errors.Join(old, err))
	}
	e.Log.Info("smoke: this machine's glibc is too old for the programs: they run in the build root", "buildenv",
		s.Plan.Root.Name, "glibc", here)
	return &smoke.Inside{
		Name: "buildenv " + s.Plan.Root.Name + " (" + s.Plan.Root.Digest + ")", Root: s.Site.root.Root,
		Enter: enter,
	}, nil
}

// canStart says why programs built with a newer C library cannot be run here; nil:
// they can, as far as this tells.
func canStart(floor, here string) error {
	if floor == "" || here == "" || !binary.Less(here, floor) {
		return nil
	}
	return fmt.Errorf("the programs need glibc %s and this machine has %s: run llpatch on a newer system, or smoke the "+
		"bundle there", floor, here)
}
