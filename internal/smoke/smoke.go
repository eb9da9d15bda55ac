// Package smoke runs the programs of a build on a seeded model and judges their
// answers. A check passes, fails, or could not be run; the last is never taken
// for the first.
package smoke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/spec"
)

// DefaultReady is how long a server may take to load a seeded model, which
// takes a few tens of milliseconds on an idle machine.
const DefaultReady = time.Minute

// DefaultAnswer is how long a program may take for one answer.
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
	Work   string       // for models and logs; made where it is not there
	Checks []spec.Check // in the order they run
	Want   Version
	Env    []string // KEY=VALUE, added to the few variables that programs get
	Model  gguf.Model
	Ports  []int         // to be tried in this order; empty: free ones that the system picks
	Ready  time.Duration // 0: DefaultReady
	Answer time.Duration // 0: DefaultAnswer
	Sample time.Duration // between two looks at memory; 0: 100 ms

	Tag    string // for the report
	Target string // for the report
	Place  string // for the report; empty: host

	Hold []*os.File // locks that last until the last program is gone

	Log      *slog.Logger                         // may be nil
	Progress func(what string, done, total int64) // may be nil
}

// step is a check whose arguments have been read.
type step func(context.Context, *session) (outcome, error)

// outcome is what a check that passed has to say.
type outcome struct {
	detail  string
	figures map[string]any
}

// checks has every check that a recipe can name.
var checks = map[string]func(*args) step{
	"version":    versionCheck,
	"health":     healthCheck,
	"tokenize":   tokenizeCheck,
	"completion": completionCheck,
	"variants":   variantsCheck,
	"webui":      webuiCheck,
	"stop":       stopCheck,
	"bench":      benchCheck,
	"cli":        cliCheck,
	"quantize":   quantizeCheck,
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Model == (gguf.Model{}) {
		o.Model = DefaultModel
	}
	o.Ready = orDefault(o.Ready, DefaultReady)
	o.Answer = orDefault(o.Answer, DefaultAnswer)
	o.Sample = orDefault(o.Sample, 100*time.Millisecond)
	start := time.Now()
	r := &Report{
		Tag: o.Tag, Target: o.Target, Place: o.Place, Want: o.Want,
		Machine: thisMachine(), Started: start.UTC().Truncate(time.Second),
	}
	if r.Place == "" {
		r.Place = "host"
	}
	s, err := newSession(o, r)
	if err != nil {
		for _, c := range o.Checks {
			r.Checks = append(r.Checks, Result{Name: c.Name, Verdict: NotJudged, Detail: err.Error()})
		}
		return r, r.judge(err)
	}
	for i, c := range o.Checks {
		if o.Progress != nil {
			// One name for all checks: a terminal shows a bar for each name.
			o.Progress("smoke", int64(i), int64(len(o.Checks)))
		}
		if ctx.Err() != nil {
			r.Checks = append(r.Checks, Result{Name: c.Name, Verdict: NotJudged, Detail: "interrupted"})
			continue
		}
		s.current = c
		r.Checks = append(r.Checks, s.run(ctx, c.Name, steps[i]))
	}
	s.stop(context.WithoutCancel(ctx))
	if o.Progress != nil && ctx.Err() == nil {
		o.Progress("smoke", int64(len(o.Checks)), int64(len(o.Checks)))
	}
	r.Seconds = seconds(time.Since(start))
	for _, run := range r.Servers {
		r.PeakRSSKiB = max(r.PeakRSSKiB, run.PeakRSSKiB)
	}
	if len(r.Servers) > 0 {
		r.ReadySeconds = r.Servers[0].ReadySeconds
	}
	if err := context.Cause(ctx); err != nil {
		r.Verdict = NotJudged
		return r, fmt.Errorf("smoke %s %s: %w", o.Tag, o.Target, err)
	}
	return r, r.judge(nil)
}

// run runs one check and turns what came of it into a verdict.
func (s *session) run(ctx context.Context, name string, do step) Result {
	start := time.Now()
	out, err := do(ctx, s)
	if ctx.Err() != nil {
		// What the check saw may come from the server being stopped for us.
		err = errors.New("interrupted")
	}
	var f *fault
	if s.server != nil && (err == nil || errors.As(err, &f)) {
		// Right or wrong, some answers may be those of a second listener on
		// the port.
		if other := s.server.strangers(); other != "" {
			err = fmt.Errorf("port %d: %s, so its answers may not be ours", s.server.port, other)
			s.stop(ctx)
		}
	}
	res := Result{Name: name, Verdict: Passed, Detail: out.detail, Figures: out.figures, Seconds: seconds(time.Since(start))}
	switch {
	case errors.As(err, &f):
		res.Verdict, res.Detail, res.Log, res.Tail = Wrong, err.Error(), f.log, f.tail
		s.o.Log.Error("smoke check failed", "check", name, "why", err, "log", f.log)
	case err != nil:
		res.Verdict, res.Detail = NotJudged, err.Error()
		s.o.Log.Warn("smoke check not run", "check", name, "why", err)
	default:
		s.o.Log.Info("smoke check passed", "check", name, "detail", out.detail)
	}
	return res
}

// session is what the checks of one run share.
type session struct {
	o       Options
	report  *Report
	current spec.Check
	started time.Time
	server  *server           // nil: none is running
	helps   map[string]string // program -> its --help
	models  map[gguf.Type]string
	broken  map[string]string // how a server is started -> the check that found it does not start
}

func newSession(o Options, r *Report) (*session, error) {
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, fmt.Errorf("programs: %w", err)
	}
	work, err := filepath.Abs(o.Work)
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	o.Bin, o.Work = bin, work
	if len(o.Checks) == 0 {
		return nil, errors.New("the recipe names no smoke check")
	}
	if err := os.MkdirAll(filepath.Join(work, "cache"), 0o755); err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(work, "*.log"))
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	for _, f := range old {
		// Logs are appended to, and an earlier run's lines would mislead.
		if err := os.Remove(f); err != nil {
			return nil, fmt.Errorf("work folder: %w", err)
		}
	}
	return &session{
		o: o, report: r, started: time.Now(),
		helps: map[string]string{}, models: map[gguf.Type]string{}, broken: map[string]string{},
	}, nil
}

// program returns the path of a program of the build.
func (s *session) program(name string) (string, error) {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(s.o.Bin, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not in the build: %w", name, err)
	}
	return path, nil
}

// model returns the path of the seeded model in the given type, and writes it
// the first time.
func (s *session) model(ctx context.Context, typ gguf.Type) (string, error) {
	if path := s.models[typ]; path != "" {
		return path, nil
	}
	m := s.o.Model
	m.Type = typ
	path := filepath.Join(s.o.Work, "model-"+strings.ToLower(typ.String())+".gguf")
	info, err := gguf.WriteFile(ctx, path, m, s.o.Progress)
	if err != nil {
		return "", err
	}
	s.report.Models = append(s.report.Models, ModelInfo{Model: m, Info: info, Path: path})
	s.models[typ] = path
	return path, nil
}

// env is what programs get: nothing is inherited, since LLAMA_ARG_* and GGML_*
// variables of the user's would change what is judged.
func (s *session) env() []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + s.o.Work,
		"LANG=C",
		"LLAMA_CACHE=" + filepath.Join(s.o.Work, "cache"),
	}
	env = append(env, s.o.Env...)
	for _, k := range slices.Sorted(maps.Keys(s.current.Env)) {
		env = append(env, k+"="+s.current.Env[k])
	}
	return env
}

// threads is how many threads a program gets: a tiny model gains nothing from
// more, and they only wait for one another.
func threads() int { return min(runtime.NumCPU(), 8) }

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// seconds rounds to microseconds, so that a report is not full of digits.
func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }
