package leak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

// Options say what to run and how.
type Options struct {
	Argv []string // the program
	Env  []string // its whole environment, as KEY=VALUE
	Dir  string   // its working folder; empty: the caller's
	Work string   // an existing folder for logs and the tools' files

	// Workload is "prefill", "requests", "none" or "auto" (prefill for a llama
	// server, else none), or a shell command that is one request, run again and
	// again with LLPATCH_URL in its environment where the program serves HTTP.
	Workload string
	Requests int           // of the workload; 0: 200
	Tokens   int           // that a prefill grows to; 0: what a slot holds, 8,192 at most
	Clients  int           // at the same time, for "requests"; 0: one
	For      time.Duration // limit of the workload, or of a program that does not end; 0: ten minutes
	Ready    time.Duration // limit until a server is ready; 0: five minutes
	With     []string      // tools, of Tools()

	Every  time.Duration // between two looks; 0: memory.DefaultEvery
	Probe  memory.Probe  // device memory; nil: none
	Source string        // the probe's name
	NoCard string        // why there is no probe, where one was looked for
	Named  bool          // the probe was asked for by name: without its figures nothing is judged
	Floor  float64       // bytes that are no growth; 0: memory.DefaultFloor

	Remote     memory.RemoteProbe // host memory of a program elsewhere, which Argv starts; nil: that of Argv
	RemoteName string             // the machine

	Stdout io.Writer // gets the program's output as well as the log; nil: only the log
	Log    *slog.Logger
	Status func(line string) // gets once a second what the run is at; nil: nobody is told

	toolPatience time.Duration // 0: toolPatience
}

// NotRun says why no verdict could be had.
type NotRun struct {
	Why  string
	Tail []string // the program's last lines
	Log  string   // its log
}

// Error says why, with the program's last lines.
func (e *NotRun) Error() string {
	s := e.Why
	for _, l := range e.Tail {
		s += "\n  " + l
	}
	if e.Log != "" {
		s += "\nlog: " + e.Log
	}
	return s
}

// ExitCode is exit.NotRun.
func (e *NotRun) ExitCode() int { return exit.NotRun }

// Grew is the error of a program whose memory grows.
type Grew struct{ Verdicts []memory.Verdict }

// Error lists what grows.
func (e *Grew) Error() string {
	var what []string
	for _, v := range e.Verdicts {
		if v.State == memory.Grows {
			what = append(what, v.String())
		}
	}
	return strings.Join(what, "; ")
}

// ExitCode is exit.Smoke.
func (e *Grew) ExitCode() int { return exit.Smoke }

// Run runs the program, then again under each tool, and returns what was found.
// The error is a *Grew where memory grows and a *NotRun where that could not be
// told; the result is there as far as it got in both cases.
func Run(ctx context.Context, o Options) (*Result, error) {
	o = o.defaults()
	if len(o.Argv) == 0 {
		return nil, &NotRun{Why: "no program was named"}
	}
	tools, err := o.tools()
	if err != nil {
		return nil, err
	}
	res := &Result{Argv: o.Argv, Place: place(o.Argv), Began: time.Now().UTC().Truncate(time.Second), Work: o.Work}
	if res.Place == "wine" {
		res.Notes = append(res.Notes, "a Windows program under wine: memory is what Linux counts for its processes, "+
			"wine's own parts included, and not what Windows would count")
	}
	if o.Remote != nil {
		res.Place = "ssh:" + o.RemoteName
		res.Notes = append(res.Notes, "host memory is what Windows counts for the program on "+o.RemoteName+
			", about once a second: private bytes (shown as anonymous memory) and the working set (as RSS)")
	}
	if o.NoCard != "" {
		res.Notes = append(res.Notes, "VRAM was not sampled: "+o.NoCard)
	}
	w, err := watched(ctx, o, res)
	if err != nil {
		return res, err
	}
	for _, t := range tools {
		f, err := under(ctx, o, t, w)
		if err != nil {
			return res, err
		}
		res.Tools = append(res.Tools, f)
	}
	res.conclude(o)
	switch {
	case memory.Says(res.decisive(), memory.Grows):
		return res, &Grew{Verdicts: res.decisive()}
	case memory.Says(res.decisive(), memory.Unclear):
		for _, v := range res.decisive() {
			if v.State == memory.Unclear {
				return res, &NotRun{Why: res.unclear(v, o), Log: res.Log}
			}
		}
	case len(res.decisive()) == 0:
		return res, &NotRun{Why: "nothing is known of its memory: " + strings.Join(res.Series.Notes, "; "), Log: res.Log}
	case res.noRemote(o):
		return res, &NotRun{Why: "host memory is not known, and VRAM alone does not decide: " +
			strings.Join(res.Series.Notes, "; "), Log: res.Log}
	case o.Named && res.NoVRAM() != "":
		return res, &NotRun{Why: "VRAM is not known: " + res.NoVRAM(), Log: res.Log}
	}
	return res, nil
}

func (o Options) defaults() Options {
	o.Requests = cmp.Or(o.Requests, 200)
	o.Clients = max(1, o.Clients)
	o.For = cmp.Or(o.For, 10*time.Minute)
	o.Ready = cmp.Or(o.Ready, 5*time.Minute)
	o.Workload = cmp.Or(o.Workload, "auto")
	o.toolPatience = cmp.Or(o.toolPatience, toolPatience)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Status == nil {
		o.Status = func(string) {}
	}
	return o
}

// watched is the plain run under the sampler: the figures come from here, for a
// tool changes what memory does.
func watched(ctx context.Context, o Options, res *Result) (*work, error) {
	w := &work{o: o}
	s, err := memory.Start(ctx, memory.Options{
		Name: filepath.Base(o.Argv[0]), Every: o.Every, Probe: o.Probe, Source: o.Source, Remote: o.Remote,
		Progress: w.Progress,
		Look:     w.looked, Log: o.Log,
	})
	if err != nil {
		return nil, &NotRun{Why: err.Error()}
	}
	stopped := false
	stop := func() memory.Series {
		if !stopped {
			stopped = true
			res.Series = s.Stop()
		}
		return res.Series
	}
	defer stop()
	res.Log = filepath.Join(o.Work, "program.log")
	p, err := startProgram(ctx, o, o.Argv, res.Log, o.Env)
	if errors.Is(err, run.ErrNotFound) {
		return nil, &NotRun{Why: noProgram(o)}
	}
	if err != nil {
		return nil, &NotRun{Why: err.Error()}
	}
	p.began = time.Now()
	s.Attach(p.Pid())
	defer w.tell(p.began, "")()
	defer p.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // p.end says how it ended; this is the way out in between
	from, to, err := p.drive(ctx, w)
	if err != nil {
		return nil, err
	}
	res.Workload, res.Requests, res.Tokens = w.kind, w.Requests.Load(), w.Tokens.Load()
	res.cut = w.cut
	res.ended(p, w)
	p.shutDown(ctx, &res.Notes)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	res.ExitCode = p.exitCode()
	if p.LogCut() {
		res.Notes = append(res.Notes, "it printed more than its log keeps, 1 GiB")
	}
	series := stop()
	res.Notes = append(res.Notes, w.Notes()...)
	if len(series.Points) < 3 {
		return nil, &NotRun{Why: fmt.Sprintf("%s %s after %v, before its memory could be followed; %s", o.Argv[0], p.how(),
			time.Since(p.began).Round(time.Millisecond), res.longer(o)), Tail: p.Tail(), Log: res.Log}
	}
	if w.kind != "none" && res.Requests == 0 && res.End == "" {
		return nil, &NotRun{
			Why: fmt.Sprintf("%s answered no request within %v (--for)", o.Argv[0], o.For), Tail: p.Tail(),
			Log: res.Log,
		}
	}
	res.WorkFrom, res.WorkTo = from.Seconds(), to.Seconds()
	res.judge(o)
	return w, nil
}

// program is a running program and what is known of its server.
type program struct {
	*run.Process
	argv    []string
	o       Options
	log     string
	began   time.Time
	srv     *llamaserver.Client // nil where it is none
	below   atomic.Int64        // the program's own process below the tool that runs it; 0: there is none
	started chan struct{}       // closed when below is known, or is not to be found; nil: there is no tool above
}

// patience is the time that a server gets for each SIGTERM: an idle one needs 3 to 8 ms,
// one under valgrind seconds.
const patience = 5 * time.Second

// logMost is how much of what a program prints is kept: more would fill the disk.
const logMost = 1 << 30

func startProgram(ctx context.Context, o Options, argv []string, log string, env []string) (*program, error) {
	p, err := run.Start(ctx, run.Cmd{
		Argv: argv, Env: env, Dir: o.Dir, Log: log, LogMost: logMost, Stdout: o.Stdout,
		Grace: patience,
	})
	if err != nil {
		return nil, err
	}
	return &program{Process: p, argv: argv, o: o, log: log, began: time.Now()}, nil
}

// drive works the program and returns from when to when, since its start, the
// work was done.
func (p *program) drive(ctx context.Context, w *work) (from, to time.Duration, err error) {
	kind := w.o.Workload
	serves := looksLikeServer(p.o.Argv)
	if kind == "auto" {
		kind = "none"
		if serves {
			kind = "prefill"
		}
	}
	w.kind = kind
	if serves || kind == "prefill" || kind == "requests" {
		if p.srv, err = p.await(ctx, w.o.Ready); err != nil {
			return 0, 0, err
		}
		w.srv = p.srv
	}
	if p.started != nil { // a tool takes its time on a busy machine, which is not --for's
		select {
		case <-p.started:
		case <-p.Done():
		case <-ctx.Done():
		}
	}
	from = time.Since(p.began)
	if kind == "none" && serves {
		w.Note("a server without a workload does nothing: --workload prefill or requests makes it work")
	}
	limit, cancel := context.WithTimeout(ctx, w.o.For)
	defer cancel()
	done, ended := context.WithCancel(limit)
	defer ended()
	go func() {
		defer ended() // no request waits for a program that is gone
		for !p.innerGone() {
			select {
			case <-p.Done():
				return
			case <-done.Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	err = w.run(done)
	to = time.Since(p.began)
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	if limit.Err() != nil {
		w.Note(fmt.Sprintf("it was stopped after %v (--for)", w.o.For))
		w.cut = true
		err = nil
	}
	if err != nil {
		// A program that dies cuts its connections before it is seen to be gone.
		select {
		case <-p.Done():
			err = nil // how it ended is told, and its memory until then is judged
		case <-time.After(time.Second):
		}
	}
	if err != nil {
		return 0, 0, &NotRun{Why: err.Error(), Tail: p.Tail(), Log: p.log}
	}
	return from, to, nil
}

// shutDown asks the program to end, twice, and then makes it.
func (p *program) shutDown(ctx context.Context, notes *[]string) {
	killed, err := p.Terminate(ctx, p.askToEnd, patience)
	if killed {
		*notes = append(*notes, fmt.Sprintf("it did not end within %v of SIGTERM, twice, and was killed: its shutdown hangs",
			patience))
	}
	if err != nil {
		*notes = append(*notes, err.Error())
	}
}

// askToEnd signals the program itself, which is below the tool that runs it.
func (p *program) askToEnd() {
	pid, ok := p.inner()
	if !ok {
		_ = p.Signal(syscall.SIGTERM)
		return
	}
	// FindProcess never fails on Unix, and Windows knows no signals but kill.
	if inner, err := os.FindProcess(pid); err == nil {
		_ = inner.Signal(syscall.SIGTERM)
	}
}

// exitCode is that of a program that is gone; nil where a signal ended it.
func (p *program) exitCode() *int {
	var e *run.Error
	code := 0
	if err := p.Wait(); errors.As(err, &e) {
		code = e.Exit
	} else if err != nil {
		code = -1
	}
	if code < 0 {
		return nil
	}
	return &code
}

// how says how a program that is gone has ended.
func (p *program) how() string {
	if !p.Ended() {
		return "was still running"
	}
	end := p.End()
	switch {
	case strings.HasPrefix(end, "signal: "):
		return "was ended by " + end
	case strings.HasPrefix(end, "exit code "):
		return "ended with " + end
	}
	return end
}
