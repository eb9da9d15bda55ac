package evidence

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

// Options say how a plan is carried out.
type Options struct {
	Plan    *Plan
	Vars    map[string]string // the values that the plan was read with
	Env     []string          // the whole environment of every program, before the plan's changes
	Work    string            // an existing folder for logs
	Out     string            // the record; written anew after every run
	Command []string          // how this was called, for the record
	Version string            // llpatch's

	Every  time.Duration // between two looks; 0: memory.MinEvery
	Probe  memory.Probe  // device memory; nil: none
	Source string        // the probe's name
	Named  bool          // the probe was asked for by name: without its figures nothing is told
	State  string        // a simulated device's state file, instead of Probe; "": none

	Log      *slog.Logger
	Progress func(what string, done, total int64)
}

// recorder carries a plan out.
type recorder struct {
	o      Options
	hide   *hider
	res    *Result
	hashed map[string]bool
	done   int64
	total  int64
}

func (r *recorder) note(s string) {
	s = r.hide.text(s)
	if !slices.Contains(r.res.Notes, s) {
		r.res.Notes = append(r.res.Notes, s)
		r.o.Log.Warn("evidence: " + s)
	}
}

// Record runs the plan and returns what came out; the file holds it already, also
// where it was cut short. The error is a *Missing where an aim was missed, and a
// *NotRun where something could not be run or told.
func Record(ctx context.Context, o Options) (*Result, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	o.Every = cmp.Or(o.Every, memory.MinEvery)
	if o.State != "" {
		o.Source = "simulated device"
	}
	p := o.Plan
	r := &recorder{o: o, hide: newHider(p, o.Vars, o.Env...), hashed: map[string]bool{}}
	r.res = &Result{
		What: r.hide.text(p.What), Tag: r.hide.text(p.Tag), Commit: r.hide.text(p.Commit), Tree: r.hide.text(p.Tree),
		LLPatch: o.Version,
		Command: r.hide.argv(o.Command), Began: time.Now().UTC().Truncate(time.Second),
		VRAM: o.Source, EverySec: o.Every.Seconds(), Baseline: p.Baseline, Plan: r.hide.plan(p.Text),
		Builds: map[string]Built{}, Inputs: map[string]string{}, Runs: []Run{},
	}
	r.res.Machine = machine(o.Env, r.hide)
	for _, b := range p.Builds {
		if _, err := os.ReadDir(b.Dir); err != nil {
			return nil, &NotRun{Why: []string{fmt.Sprintf("build %s: %v", b.Name, err)}}
		}
	}
	if err := r.write(); err != nil {
		return nil, err // before an hour's work, not after it
	}
	r.res.Program = r.own(ctx)
	r.card(ctx)
	for _, b := range p.Builds {
		o.Progress("hash build "+b.Name, 0, 0)
		built, err := r.built(ctx, b)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, &NotRun{Why: []string{err.Error()}}
		}
		r.res.Builds[b.Name] = built
	}
	for i := range p.Runs {
		pr := &p.Runs[i]
		r.total += int64(pr.Pairs * len(pr.Builds))
		if pr.warm() {
			r.total += int64(len(pr.Builds))
		}
	}
	for i := range p.Runs {
		if err := r.rounds(ctx, &p.Runs[i]); err != nil {
			return r.res, err
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	r.res.Ended = &now
	if err := r.write(); err != nil {
		return r.res, err
	}
	o.Progress("evidence", r.total, r.total)
	return r.res, r.res.Verdict()
}

// rounds does all pairs of one run.
func (r *recorder) rounds(ctx context.Context, pr *PlanRun) error {
	first := 1
	if pr.warm() {
		first = 0
	}
	for pair := first; pair <= pr.Pairs; pair++ {
		from := len(r.res.Runs)
		for _, b := range pr.order(pair) {
			r.o.Progress(fmt.Sprintf("%s %s, pair %d of %d", pr.Name, b, pair, pr.Pairs), r.done, r.total)
			rec := r.one(ctx, pr, b, pair)
			if ctx.Err() != nil {
				return ctx.Err() // what was interrupted is no result
			}
			r.done++
			r.o.Log.Info("evidence: "+pr.Name, "build", b, "pair", pair, "rc", rec.RC, "seconds", rec.Seconds, "log", rec.log)
			r.res.Runs = append(r.res.Runs, rec)
			r.res.judgePair(r.o.Plan, pr, r.res.Runs[from:])
			for i := range r.res.Runs[from:] {
				r.tell(&r.res.Runs[from+i])
			}
			r.res.summarize(r.o.Plan)
			if err := r.write(); err != nil {
				return err
			}
		}
		for i := range r.res.Runs[from:] {
			r.res.Runs[from+i].answers = nil
		}
	}
	return nil
}

// tell hides what the checks quote, and adds the last lines where an aim was missed.
func (r *recorder) tell(rec *Run) {
	for i := range rec.Checks {
		c := &rec.Checks[i]
		c.Aim, c.Got = r.hide.text(c.Aim), r.hide.text(c.Got)
		if c.State == Missed && len(rec.Tail) == 0 {
			rec.Tail = r.hide.lines(rec.tail)
		}
	}
}

func (r *recorder) write() error {
	b, err := r.res.JSON()
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(r.o.Out, b, 0o644); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// one starts one program once.
func (r *recorder) one(ctx context.Context, pr *PlanRun, build string, pair int) (rec Run) {
	b := r.o.Plan.build(build)
	here := strings.NewReplacer("{build}", b.Dir)
	program := filepath.Join(b.Dir, pr.Program)
	argv := append(slices.Clone(pr.Under), program)
	argv = append(argv, pr.Args...)
	for i := range argv {
		argv[i] = here.Replace(argv[i])
	}
	env := merge(b.Env, pr.Env, pr.BuildEnv[build])
	for k := range env {
		env[k] = here.Replace(env[k])
	}
	if pr.Program == llamaBench && !slices.Contains(pr.Args, "-o") && !slices.Contains(pr.Args, "--output") {
		argv = append(argv, "-o", "json")
	}
	rec = Run{
		Name: pr.Name, Build: build, Pair: pair, Argv: r.hide.argv(argv), Env: r.hide.env(env), RC: -1,
		Began: time.Now().UTC().Truncate(time.Millisecond),
		// A folder for each run: names may have hyphens and digits themselves.
		log:  filepath.Join(r.o.Work, pr.Name, fmt.Sprintf("%s-%d.log", build, pair)),
		head: 1 + strings.Count(run.QuoteArgv(argv), "\n"),
	}
	r.hashInputs(ctx, slices.Concat(pr.Under, pr.Args, slices.Collect(maps.Values(env))))
	if _, err := os.Stat(program); err != nil {
		rec.NotRun = fmt.Sprintf("build %s has no program %s", build, pr.Program)
		return rec
	}
	if err := os.MkdirAll(filepath.Dir(rec.log), 0o755); err != nil {
		rec.NotRun = "its log: " + r.hide.text(err.Error())
		return rec
	}
	w := &work{server: pr.Server, seed: uint64(pair), rec: &rec}
	probe := r.o.Probe
	if r.o.State != "" {
		// The page of a run before would pass for memory that is taken already.
		if err := os.Remove(r.o.State); err != nil && !errors.Is(err, os.ErrNotExist) {
			rec.NotRun = "the simulated device's state: " + r.hide.text(err.Error())
			return rec
		}
		probe = memory.Simulated(r.o.State)
	}
	from := r.look(ctx)
	s, err := memory.Start(ctx, memory.Options{
		Name: build, Every: r.o.Every, Probe: probe, Source: r.o.Source,
		Progress: w.Progress, Log: r.o.Log,
	})
	if err != nil {
		rec.NotRun = err.Error()
		return rec
	}
	cmd := run.Cmd{Argv: argv, Env: r.environ(env), Log: rec.log, Grace: grace}
	began := time.Now()
	var series memory.Series
	if pr.Server != nil {
		series = w.serve(ctx, pr, cmd, s)
	} else {
		series = w.program(ctx, pr, cmd, s)
	}
	rec.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	if ctx.Err() == nil {
		rec.Beside = r.beside(from, r.look(ctx))
	}
	rec.remember(series)
	if r.o.Named && len(series.Points) > 2 && !series.Has(memory.VRAM) {
		rec.noVRAM = r.hide.text(series.Device.Unknown)
	}
	rec.NotRun = r.hide.text(rec.NotRun)
	if rec.Served != nil {
		rec.Served.Why = r.hide.text(rec.Served.Why)
	}
	rec.Notes = append(rec.Notes, series.Notes...)
	rec.Tail, rec.Notes = r.hide.lines(rec.Tail), r.hide.lines(rec.Notes)
	if rec.Kept, err = kept(rec.log, rec.head, pr.keep); err != nil {
		rec.Notes = append(rec.Notes, r.hide.text(err.Error()))
	}
	rec.Kept = r.hide.lines(rec.Kept)
	return rec
}

// grace is the time between SIGTERM and SIGKILL: compute-sanitizer writes its
// report on the way out.
const grace = 10 * time.Second

// remember takes the figures of memory.
func (rec *Run) remember(s memory.Series) {
	const mib = 1 << 20
	if peak, ok := s.Peak(memory.VRAM); ok {
		peak, idle := (peak+mib/2)/mib, (s.Device.Baseline+mib/2)/mib
		rec.PeakVRAM, rec.Idle = &peak, &idle
	}
	if peak, ok := s.Peak(memory.RSS); ok {
		peak = (peak + mib/2) / mib
		rec.RSS = &peak
	}
	rec.Sample = thin(s)
}

// ended takes how the program ended.
func (rec *Run) ended(p *run.Process) {
	err := p.Wait()
	var e *run.Error
	switch {
	case err == nil:
		rec.RC = 0
	case errors.As(err, &e):
		rec.RC, rec.Signal = e.Exit, e.Signal
		rec.Timeout = rec.Timeout || errors.Is(err, context.DeadlineExceeded)
		if e.Exit < 0 && e.Signal == "" && !rec.Timeout {
			rec.NotRun = firstLine(err.Error())
		}
	default:
		rec.NotRun = err.Error()
	}
	if rec.tail = p.Tail(); rec.RC != 0 {
		rec.Tail = rec.tail
	}
}

// program runs what is no server to its end.
func (w *work) program(ctx context.Context, pr *PlanRun, cmd run.Cmd, s *memory.Sampler) memory.Series {
	var out bytes.Buffer
	if pr.Program == llamaBench {
		cmd.Stdout, cmd.Stderr = &out, io.Discard // its JSON, without what it says
	}
	cmd.Timeout = pr.limit
	p, err := run.Start(ctx, cmd)
	if err != nil {
		w.rec.NotRun = firstLine(err.Error())
		return s.Stop()
	}
	s.Attach(p.Pid())
	_ = p.Wait() // ended reads it
	series := s.Stop()
	w.rec.ended(p)
	if pr.Program == llamaBench {
		tests, err := parseBench(out.Bytes())
		if err != nil && w.rec.RC == 0 && w.rec.NotRun == "" {
			w.rec.NotRun = err.Error()
		}
		w.rec.Bench = tests
		w.rec.PP, w.rec.TG = speeds(tests)
	}
	return series
}
