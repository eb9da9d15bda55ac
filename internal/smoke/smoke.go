package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/spec"
)

// DefaultReady is how long a server may take to load a seeded model, which
// takes a few tens of milliseconds on an idle machine.
const DefaultReady = time.Minute

// DefaultAnswer is how long a program may take for one answer on a machine that is not busy.
const DefaultAnswer = time.Minute

// DefaultModel is what checks run on where Options.Model is not set: 2.5
// million weights, grouped-query attention, and a head size that GPU kernels
// are made for.
var DefaultModel = gguf.Model{Layers: 4, Embd: 256, Heads: 4, KVHeads: 2, FF: 512, Context: 4096, Seed: 1}

// Version is what was passed to the build, and what its programs must print.
type Version struct {
	Build  int    `json:"build"`  // LLAMA_BUILD_NUMBER
	Commit string `json:"commit"` // LLAMA_BUILD_COMMIT
}

// Options say what to run and where.
type Options struct {
	Bin    string       // the folder with llama-server and what belongs to it
	Stock  string       // the same of the unpatched tree; empty: there is none
	Same   string       // why stock and patched are the same binaries; empty: they are not
	Work   string       // for models and logs; made where it is not there
	Checks []spec.Check // in the order they run
	Want   Version
	Env    []string // KEY=VALUE, added to the few variables that programs get
	Model  gguf.Model

	StockWith []string // ids of fixes that stock has too: no build for the system does without them

	// Device is where checks run that name no device of their own: spec.Host
	// (also where it is empty), spec.Sim or spec.Card.
	Device string
	// SimEnv leads a program to the simulated device, besides Env. Without it,
	// and unless Device is spec.Sim and Env itself leads there, checks on the
	// simulated device could not run.
	SimEnv []string
	// HostEnv leads programs that run on the host to libraries that the machine
	// lacks, besides Env.
	HostEnv []string
	// Card names the graphics card, for the report; empty: there is none, as
	// NoCard says, and checks on one are not run.
	Card    string
	Driver  string   // of the card, its version
	CardEnv []string // leads a program to the card, besides Env
	NoCard  string   // what was looked for; may be empty

	// Browser is the program that webui opens the page with; empty: there is none, which it says.
	Browser string

	Ports  []int         // to be tried in this order; empty: free ones that the system picks
	Ready  time.Duration // 0: DefaultReady
	Answer time.Duration // 0: DefaultAnswer
	Sample time.Duration // between two looks at memory; 0: memory.DefaultEvery

	// Probe reads the card's memory where a check runs on it; nil: there is no
	// such figure. ProbeName is for the report.
	Probe     memory.Probe
	ProbeName string

	Tag    string // for the report, as the next five
	Target string
	Commit string   // upstream's
	Tree   string   // of the patched source
	Series []string // ids of the fixes
	Wine   *Wine    // runs the programs of checks on the host; nil: they run by themselves
	Inside *Inside  // the root that programs run in; nil: this machine's own

	Hold []*os.File // locks that last until the last program is gone

	Log      *slog.Logger                         // may be nil
	Progress func(what string, done, total int64) // may be nil
}

// Inside is a root file system that the programs run in, where this machine's own
// libraries are too old for them.
type Inside struct {
	Name  string   `json:"name"` // for the report
	Root  string   `json:"root"` // its folder
	Enter []string `json:"-"`    // what a command line is put behind
}

// step is a check whose arguments have been read.
type step func(context.Context, *session) (outcome, error)

// outcome is what a check that passed has to say.
type outcome struct {
	detail  string
	figures map[string]any
	growth  *Growth
	warm    float64 // progress up to which memory is only drawn, not judged
	begin   float64 // the same at a first try: what memory rose by counts from here
}

// checks has every check that a recipe can name.
var checks = map[string]func(*args) step{
	"version":          versionCheck,
	"empty-root":       emptyRootCheck,
	"health":           healthCheck,
	"tokenize":         tokenizeCheck,
	"completion":       completionCheck,
	"variants":         variantsCheck,
	"webui":            webuiCheck,
	"tls":              tlsCheck,
	"router":           routerCheck,
	"stop":             stopCheck,
	"exit":             exitCheck,
	"restart":          restartCheck,
	"hostile":          hostileCheck,
	Malformed:          malformedCheck,
	"same-tokens":      sameTokensCheck,
	"speculative":      speculativeCheck,
	"long-prefill":     longPrefillCheck,
	"parallel":         parallelCheck,
	"request-loop":     requestLoopCheck,
	"bench":            benchCheck,
	"cli":              cliCheck,
	"quantize":         quantizeCheck,
	"prefill-vram":     prefillVRAMCheck,
	"graph-replay":     graphReplayCheck,
	"graph-cache":      graphCacheCheck,
	"managed-fallback": managedFallbackCheck,
	"prefill-reserve":  prefillReserveCheck,
	"tool-results":     resultsCheck,
	"tool-backend-ops": backendOpsCheck,
	"tool-perplexity":  perplexityCheck,
}

// comparing are the checks that also use a stock build.
var comparing = []string{
	"same-tokens", "tool-results", "tool-perplexity", "long-prefill", "parallel", "request-loop", "hostile",
}

// Compares says whether any check also uses a stock build, so that one has to be
// made or its absence explained.
func Compares(list []spec.Check) bool {
	return slices.ContainsFunc(list, func(c spec.Check) bool { return slices.Contains(comparing, c.Name) })
}

// Names returns the checks that a recipe can name, sorted.
func Names() []string { return slices.Sorted(maps.Keys(checks)) }

// Validate says whether every check is known and its arguments can be read.
func Validate(list []spec.Check) error {
	_, err := prepare(list)
	return err
}

func prepare(list []spec.Check) ([]step, error) {
	var steps []step
	for _, c := range list {
		read, ok := checks[c.Name]
		if !ok {
			return nil, fmt.Errorf("smoke check %q is not known; there are %s", c.Name, strings.Join(Names(), ", "))
		}
		a := &args{values: c.Args}
		s := read(a)
		if err := a.done(); err != nil {
			return nil, fmt.Errorf("smoke check %s: %w", c.Name, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// Run runs the checks one after another and returns the report, which is there
// even when the error is a *Failed (a check saw a wrong answer) or a *NotRun (a
// check could not be judged). Any other error is a check that does not exist,
// or the context's.
func Run(ctx context.Context, o Options) (*Report, error) {
	steps, err := prepare(o.Checks)
	if err != nil {
		return nil, err
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Model == (gguf.Model{}) {
		o.Model = DefaultModel
	}
	o.Ready = cmp.Or(o.Ready, DefaultReady)
	o.Answer = cmp.Or(o.Answer, DefaultAnswer)
	o.Sample = cmp.Or(o.Sample, memory.DefaultEvery)
	start := time.Now()
	r := &Report{
		Tag: o.Tag, Target: o.Target, Commit: o.Commit, Tree: o.Tree, Series: o.Series, Want: o.Want,
		Place: o.placeOf(spec.Check{}), Card: o.Card, Driver: o.Driver, Machine: thisMachine(),
		Started: start.UTC().Truncate(time.Second),
	}
	if o.Inside != nil {
		r.Inside = o.Inside.Name
	}
	s, err := newSession(o, r)
	if err == nil && o.Wine != nil {
		if err = s.startWine(ctx); err == nil {
			defer s.stopWine(context.WithoutCancel(ctx))
			r.Wine = fmt.Sprintf("%s, as %s: this is no Windows", o.Wine.Banner, s.wine.Says)
		}
	}
	if err != nil && (s == nil || ctx.Err() == nil) {
		for _, c := range o.Checks {
			r.Checks = append(r.Checks, Result{Name: c.Name, Place: o.placeOf(c), Verdict: Errored, Detail: err.Error()})
		}
		return r, r.judge(err)
	}
	for i, c := range o.Checks {
		if o.Progress != nil {
			// One name for all checks: a terminal shows a bar for each name.
			o.Progress("smoke", int64(i), int64(len(o.Checks)))
		}
		if ctx.Err() != nil {
			r.Checks = append(r.Checks, Result{Name: c.Name, Place: o.placeOf(c), Verdict: Errored, Detail: "interrupted"})
			continue
		}
		r.Checks = append(r.Checks, s.run(ctx, c, steps[i]))
	}
	s.stop(context.WithoutCancel(ctx))
	if o.Progress != nil && ctx.Err() == nil {
		o.Progress("smoke", int64(len(o.Checks)), int64(len(o.Checks)))
	}
	r.Seconds = seconds(time.Since(start))
	for _, run := range r.Servers {
		if run.Build != s.patched().name {
			continue
		}
		r.PeakRSSKiB = max(r.PeakRSSKiB, run.PeakRSSKiB)
		r.ReadySeconds = cmp.Or(r.ReadySeconds, run.ReadySeconds)
	}
	if err := context.Cause(ctx); err != nil {
		r.Verdict = Errored
		return r, fmt.Errorf("smoke %s %s: %w", o.Tag, o.Target, err)
	}
	return r, r.judge(nil)
}

// run runs one check and turns what came of it into a verdict.
func (s *session) run(ctx context.Context, c spec.Check, do step) Result {
	start := time.Now()
	// A check may change the model and have a device for itself.
	defer func(o Options) { s.o, s.device = o, nil }(s.o)
	s.current, s.side = c, s.patched()
	res := Result{Name: c.Name, Place: s.o.placeOf(c), Verdict: Passed}
	verdict, why := s.o.canRun(c)
	if why == "" && s.o.deviceOf(c) != spec.Host {
		verdict, why = Errored, s.unseen(ctx)
	}
	if why != "" {
		res.Verdict, res.Detail = verdict, why
		s.o.Log.Warn("smoke check "+string(verdict), "check", c.Name, "why", why)
		return res
	}
	out, err := do(ctx, s)
	res.device = s.device
	if ctx.Err() != nil {
		// What the check saw may come from the server being stopped for us.
		err = errors.New("interrupted")
	}
	var f *fault
	var none *absent
	if s.server != nil && (err == nil || errors.As(err, &f)) {
		// Right or wrong, some answers may be those of a second listener on
		// the port.
		if other := s.server.strangers(); other != "" {
			err = fmt.Errorf("port %d: %s, so its answers may not be ours", s.server.port, other)
			s.stop(ctx)
		}
	}
	res.Detail, res.Figures, res.Growth, res.Seconds = out.detail, out.figures, out.growth, seconds(time.Since(start))
	switch {
	case errors.As(err, &f):
		res.Verdict, res.Detail, res.Fault, res.Log, res.Tail = Failed, err.Error(), f.name, f.log, f.tail
		s.o.Log.Error("smoke check failed", "check", c.Name, "why", err, "log", f.log)
	case errors.As(err, &none):
		res.Verdict, res.Detail = Skipped, err.Error()
		s.o.Log.Warn("smoke check not run", "check", c.Name, "why", err)
	case err != nil:
		res.Verdict, res.Detail = Errored, err.Error()
		s.o.Log.Warn("smoke check could not run", "check", c.Name, "why", err)
	default:
		s.o.Log.Info("smoke check passed", "check", c.Name, "detail", out.detail)
	}
	return res
}

func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }
