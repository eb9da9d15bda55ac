package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Process is a program that Start started.
type Process struct {
	cmd    Cmd
	argv   []string // Argv with the program's absolute path
	ctl    *control // the way to the supervisor, or to the program itself
	tail   *tail
	errs   *tail // of standard error, where that has a pipe of its own
	log    *os.File
	inLine bool // the log's last line has no end yet, guarded by logMu
	logMu  sync.Mutex
	logErr error
	logged int64 // bytes of output in the log, guarded by logMu
	cut    bool  // LogMost is reached, guarded by logMu
	outErr error // the first error of Stdout or Stderr, guarded by logMu
	copies sync.WaitGroup

	done chan struct{} // closed when everything is gone
	err  error         // what Wait returns, set before done is closed
	left []int         // what could not be ended, set before done is closed

	mu  sync.Mutex
	why error // the context's error, once the program was told to stop for it
}

// end is how a program ended, in the supervisor's words.
type end struct {
	Exit   int    `json:"exit"`             // -1 where a signal ended it
	Signal string `json:"signal,omitempty"` // the signal's name
	Left   []int  `json:"left,omitempty"`   // processes that could not be ended: they belong to another user
	Lost   string `json:"lost,omitempty"`   // why the end is not known
}

// Start starts c and returns at once; an error means that nothing runs. When
// ctx ends, the program and its descendants are stopped as by Stop.
func Start(ctx context.Context, c Cmd) (*Process, error) {
	fail := func(err error) (*Process, error) {
		return nil, &Error{Argv: c.Argv, Dir: c.Dir, Exit: -1, Log: c.Log, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return fail(errors.New("no program was named"))
	}
	if c.Dir != "" {
		// Checked here, because exec reports a missing folder as a missing program.
		if fi, err := os.Stat(c.Dir); err != nil {
			return fail(fmt.Errorf("working folder: %w", err))
		} else if !fi.IsDir() {
			return fail(fmt.Errorf("working folder %s is not a folder", c.Dir))
		}
	}
	name := c.Argv[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		// Absolute, or ./program would become a name to look for on the PATH.
		abs, err := filepath.Abs(filepath.Join(c.Dir, name))
		if err != nil {
			return fail(err)
		}
		name = abs
	}
	path, err := LookPathIn(c.Env, name)
	if err != nil {
		return fail(err)
	}
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	p := &Process{cmd: c, tail: newTail(), errs: newTail(), done: make(chan struct{})}
	p.argv = append([]string{path}, c.Argv[1:]...)
	if c.Log != "" {
		p.log, err = os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fail(fmt.Errorf("log: %w", err))
		}
		p.note("$ %s\n", QuoteArgv(c.Argv))
	}
	if err := p.start(); err != nil {
		p.note("could not be started: %v\n", err)
		p.closeLog()
		return fail(err)
	}
	go p.watch(ctx)
	return p, nil
}

// start opens the pipes and starts the program.
func (p *Process) start() error {
	sink := p.cmd.Stdout
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	pipes := []*os.File{outR, outW}
	closeAll := func() {
		for _, f := range pipes {
			f.Close()
		}
	}
	errW := outW
	var errR *os.File
	if p.cmd.Stderr != nil {
		if errR, errW, err = os.Pipe(); err != nil {
			closeAll()
			return err
		}
		pipes = append(pipes, errR, errW)
	}
	env := p.cmd.Env
	if env == nil {
		env = []string{} // exec takes nil for the caller's own
	}
	x := &exec.Cmd{Env: env, Dir: p.cmd.Dir, Stdout: outW, Stderr: errW}
	var inW *os.File
	if f, ok := p.cmd.Stdin.(*os.File); ok {
		x.Stdin = f
	} else if p.cmd.Stdin != nil {
		// Not left to exec, whose Wait waits for a reader that may never end.
		inR, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return err
		}
		defer inR.Close()
		x.Stdin, inW = inR, w
		pipes = append(pipes, inW)
	}
	p.ctl, err = begin(x, p.argv, p.cmd)
	if err != nil {
		closeAll()
		return err
	}
	outW.Close()
	if inW != nil {
		go func() {
			defer inW.Close()
			_, _ = io.Copy(inW, p.cmd.Stdin) // ends early where the program reads no more
		}()
	}
	p.copies.Go(func() { p.copy(outR, p.tail, sink) })
	if errR != nil {
		errW.Close()
		p.copies.Go(func() { p.copy(errR, p.errs, p.cmd.Stderr) })
	}
	return nil
}

// copy carries a pipe to the log, the tail and the caller until the last writer
// is gone. A full disk or a failing writer does not stop it: the program would
// block on a full pipe.
func (p *Process) copy(r *os.File, last *tail, to io.Writer) {
	defer r.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_, _ = last.Write(buf[:n]) // never fails
			p.logMu.Lock()
			p.toLog(buf[:n])
			p.logMu.Unlock()
			if to != nil {
				if _, werr := to.Write(buf[:n]); werr != nil {
					p.logMu.Lock()
					p.outErr = cmp.Or(p.outErr, werr)
					p.logMu.Unlock()
					to = nil
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// toLog writes output to the log, as far as LogMost lets it; logMu is held.
func (p *Process) toLog(b []byte) {
	if p.log == nil || p.logErr != nil || p.cut {
		return
	}
	if most := p.cmd.LogMost; most > 0 && p.logged+int64(len(b)) > most {
		b, p.cut = b[:most-p.logged], true
	}
	if len(b) > 0 {
		_, p.logErr = p.log.Write(b)
		p.logged += int64(len(b))
		p.inLine = b[len(b)-1] != '\n'
	}
}

// watch waits for the end, for the context and for the time limit.
func (p *Process) watch(ctx context.Context) {
	ended := make(chan end, 1)
	go func() { ended <- p.ctl.wait() }()
	var timeout <-chan time.Time
	if p.cmd.Timeout > 0 {
		t := time.NewTimer(p.cmd.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	cancelled := ctx.Done()
	for {
		select {
		case e := <-ended:
			p.copies.Wait()
			p.finish(e)
			return
		case <-cancelled:
			cancelled = nil
			p.stopFor(ctx.Err())
		case <-timeout:
			timeout = nil
			p.stopFor(fmt.Errorf("time limit of %v: %w", p.cmd.Timeout, context.DeadlineExceeded))
		}
	}
}

func (p *Process) stopFor(why error) {
	p.mu.Lock()
	p.why = cmp.Or(p.why, why)
	p.mu.Unlock()
	p.ctl.stop(p.cmd.Grace)
}

func (p *Process) finish(e end) {
	p.mu.Lock()
	why := p.why
	p.mu.Unlock()
	if why == nil && e.Lost != "" {
		why = errors.New(e.Lost)
	}
	if p.left = e.Left; len(e.Left) > 0 {
		why = errors.Join(why, fmt.Errorf("processes %v could not be ended: they run as another user", e.Left))
	}
	res := &Error{
		Argv: p.cmd.Argv, Dir: p.cmd.Dir, Exit: e.Exit, Signal: e.Signal, Log: p.cmd.Log, Tail: p.Tail(),
		Err: why,
	}
	if p.LogCut() {
		p.note("(what it printed after %d bytes is left out)\n", p.cmd.LogMost)
	}
	p.note("(%s)\n", (&Error{Exit: e.Exit, Signal: e.Signal, Err: why}).how())
	p.closeLog()
	p.logMu.Lock()
	if p.logErr != nil {
		res.Err = errors.Join(res.Err, fmt.Errorf("its log could not be written: %w", p.logErr))
	}
	if p.outErr != nil {
		res.Err = errors.Join(res.Err, fmt.Errorf("its output could not be passed on: %w", p.outErr))
	}
	p.logMu.Unlock()
	if e.Exit != 0 || res.Err != nil {
		p.err = res
	}
	close(p.done)
}

func (p *Process) note(format string, args ...any) {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	if p.log != nil && p.logErr == nil {
		if p.inLine { // or the program's last line would not be as it was printed
			format, p.inLine = "\n"+format, false
		}
		_, p.logErr = fmt.Fprintf(p.log, format, args...)
	}
}

func (p *Process) closeLog() {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	if p.log != nil {
		if err := p.log.Close(); p.logErr == nil {
			p.logErr = err
		}
		p.log = nil
	}
}

// Wait waits until the program and all its descendants are gone and returns nil
// for exit code 0, else an *Error. It may be called several times, from anywhere.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Ended reports whether the program and all its descendants are gone.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// End waits, and says in a few words how the program ended: "exit code 0", "signal: killed",
// or what Wait says of one whose end is not known.
func (p *Process) End() string {
	err := p.Wait()
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return "exit code 0"
	case ok && e.Signal != "":
		return "signal: " + e.Signal
	case ok && e.Exit >= 0:
		return fmt.Sprintf("exit code %d", e.Exit)
	}
	return err.Error()
}

// Terminate asks the program by ask to end, waits for so long, does both once more, and then
// ends it by force, as it does at once where ctx ends: a server finishes what it does at the
// first signal. killed is whether it outlived both times; err, whether it could not be ended.
func (p *Process) Terminate(ctx context.Context, ask func(), patience time.Duration) (killed bool, err error) {
	for range 2 {
		if p.Ended() {
			return false, nil
		}
		ask()
		select {
		case <-p.done:
		case <-ctx.Done():
		case <-time.After(patience):
		}
	}
	if p.Ended() {
		return false, nil
	}
	now, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel() // no grace
	return ctx.Err() == nil, p.Stop(now)
}

// Done is closed when the program and all its descendants are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid returns the program's process id. It is valid until Done is closed.
func (p *Process) Pid() int { return p.ctl.pid() }

// Tail returns the last lines of the output so far, at most 20 of 500 bytes. Where the
// two streams are read apart, nobody knows which line came first: standard output's
// stand before standard error's.
func (p *Process) Tail() []string {
	out := append(p.tail.snapshot(), p.errs.snapshot()...)
	return out[max(0, len(out)-tailLines):]
}

// LogCut reports whether the program printed more than Cmd.LogMost lets into the log.
func (p *Process) LogCut() bool {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	return p.cut
}

// Signal sends a signal to the program, not to its descendants. It does nothing
// when the program has ended.
func (p *Process) Signal(sig os.Signal) error { return p.ctl.signal(sig) }

// Stop ends the program and all its descendants: SIGTERM, SIGKILL after
// Cmd.Grace, or as soon as ctx ends. It returns when all are gone, with an error
// only where that could not be done; how the program ended is Wait's answer.
func (p *Process) Stop(ctx context.Context) error {
	p.ctl.stop(p.cmd.Grace)
	select {
	case <-p.done:
	case <-ctx.Done():
		p.ctl.stop(-1)
		<-p.done
	}
	if len(p.left) > 0 {
		return p.err
	}
	return nil
}
