package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/disk"
	"github.com/llpatch/llpatch/internal/run"
)

// RunOptions are what Run needs beside the plan.
type RunOptions struct {
	Log      string       // file that gets every command and all its output; empty: none
	Logger   *slog.Logger // nil: none
	Progress func(what string, done, total int64)
	Inside   *buildenv.Entered // the plan's root, open; nil where it has none
	On       *Remote           // the plan's machine; nil where it is this one
	Hold     []*os.File        // locks that last until the last process is gone
	Peaks    string            // file that keeps what the jobs took, as PeaksFile names it; empty: none
}

// stopGrace is what Ninja gets to stop its jobs and remove their half outputs.
const stopGrace = 10 * time.Second

// Run brings the build folder to what the plan says and returns what was made.
// CMake is skipped where it has run for this very plan; Ninja then compiles only
// what changed. A stopped or killed run goes on with the next. The error is a
// *Failed where the build itself is at fault, and wraps the context's where ctx
// ended.
func Run(ctx context.Context, p Plan, o RunOptions) (Artifacts, error) {
	b := newBuilder(p, o)
	start := b.run
	if p.Remote != nil {
		start = b.runOn
	}
	art, err := start(ctx)
	return art, b.fault(err)
}

func newBuilder(p Plan, o RunOptions) *builder {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &builder{plan: p, o: o}
}

// fault says of an error which build it belongs to; a full disk is a *Failed.
func (b *builder) fault(err error) error {
	var f *Failed
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return &Failed{Tag: b.plan.Tag, Target: b.plan.Target, Kind: KindDisk, Cause: err.Error(), Err: err}
	}
	return fmt.Errorf("build %s %s: %w", b.plan.Tag, b.plan.Target, err)
}

type builder struct {
	plan Plan
	o    RunOptions
}

func (b *builder) run(ctx context.Context) (Artifacts, error) {
	p := b.plan
	if len(p.Steps) != 2 {
		return Artifacts{}, errors.New("the plan has no steps")
	}
	art := Artifacts{Dir: p.Dir, Tools: map[string]string{}}
	for role, t := range p.Tools {
		art.Tools[role] = t.Banner
	}
	start := time.Now()
	targets, fresh, err := b.configured(ctx)
	if fresh {
		art.ConfigureSeconds = time.Since(start).Seconds()
	}
	if err != nil {
		return art, err
	}
	start = time.Now()
	w, err := b.compile(ctx, targets)
	if err != nil {
		return art, err
	}
	art.BuildSeconds, art.Compiled, art.Steps = time.Since(start).Seconds(), w.objects, w.steps
	art.Files, err = outputs(ctx, p.Dir, targets, p.Programs)
	return art, err
}

// configured brings the build folder to where Ninja can start, and returns what it
// can make, and whether CMake ran for that.
func (b *builder) configured(ctx context.Context) (targets []string, fresh bool, err error) {
	want, have, err := b.plan.openDir()
	if err != nil {
		return nil, false, err
	}
	done := have.Configured && have.Key == want.Key
	if done {
		if done, err = b.upToDate(ctx, have); err != nil {
			return nil, false, err
		}
	}
	if done {
		targets, err = b.targets(ctx)
	} else {
		targets, err = b.configure(ctx, want, have)
	}
	if err == nil {
		err = b.checkWindows(ctx)
	}
	return targets, !done, err
}

// compile is the step that runs the compilers; what they took is kept, also where
// one of them failed.
func (b *builder) compile(ctx context.Context, targets []string) (*watcher, error) {
	if b.o.Peaks == "" {
		return b.step(ctx, b.plan.Steps[1], nil)
	}
	var s *sampler
	w, err := b.step(ctx, b.plan.Steps[1], func(pid int) { s = startSampler(pid) })
	if s == nil {
		return w, err
	}
	measured := s.end()
	if kept := keepPeaks(b.o.Peaks, targets, measured); kept != nil {
		b.o.Logger.Warn("what the jobs took could not be kept, so that the next build takes the toolchain's job-mib",
			"error", kept)
	}
	return w, err
}

// step runs one of the plan's commands; started, where it is not nil, gets its
// process id.
func (b *builder) step(ctx context.Context, s Step, started func(pid int)) (*watcher, error) {
	b.o.Logger.Debug("build step", "name", s.Name, "dir", b.plan.Dir)
	w := newWatcher(s.Name, b.o.Progress)
	if w.progress != nil {
		w.progress(s.Name, 0, 0)
	}
	c, err := b.enter(run.Cmd{
		Argv: s.Argv, Env: s.Env, Dir: s.Dir, Stdout: w, Log: b.o.Log, Grace: stopGrace, Hold: b.o.Hold,
	})
	if err != nil {
		return w, err
	}
	proc, err := run.Start(ctx, c)
	if err == nil {
		if started != nil {
			started(proc.Pid())
		}
		err = proc.Wait()
	}
	if err == nil {
		w.all()
		return w, nil
	}
	return w, b.stepFault(ctx, s.Name, w, err)
}

// stepFault says what came of a step that ended with err and wrote what w has.
func (b *builder) stepFault(ctx context.Context, name string, w *watcher, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	var e *run.Error
	if !errors.As(err, &e) || (e.Exit <= 0 && e.Signal == "") {
		return err // it did not start, or only its log failed
	}
	f := b.plan.failed(name, findCause(w.all()))
	if e.Signal == "killed" {
		f.Kind, f.Cause = KindMemory, name+" was killed"
	}
	if f.Kind != KindDisk && b.plan.Remote == nil && diskFull(b.plan.Dir) {
		f.Kind, f.Cause = KindDisk, "no space left on device below "+b.plan.Dir+"; "+f.Cause
	}
	f.Log, f.Err, f.Jobs = b.o.Log, e, b.plan.Jobs
	return f
}

// fetched is where CMake's FetchContent puts what it takes from the network.
const fetched = "_deps"

// configure runs CMake, reads back what it made of the options, and records
// that only when all is well.
func (b *builder) configure(ctx context.Context, want, have state) ([]string, error) {
	p := b.plan
	if err := p.clear(want, have); err != nil {
		return nil, err
	}
	w, err := b.step(ctx, p.Steps[0], nil)
	if err != nil {
		return nil, err
	}
	cache, err := readCache(filepath.Join(p.Dir, "CMakeCache.txt"))
	if err != nil {
		return nil, err
	}
	if err := p.checkOptions(w.all(), cache); err != nil {
		return nil, b.withLog(err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, fetched)); err == nil {
		return nil, &Failed{
			Tag: p.Tag, Target: p.Target, Step: Configure, Kind: KindCMake, Log: b.o.Log,
			Cause: "configuring fetched sources that are not in the tree, into " + filepath.Join(p.Dir, fetched) +
				"; turn off the option that asks for them",
		}
	}
	targets, err := b.targets(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.checkTargets(targets); err != nil {
		return nil, b.withLog(err)
	}
	if err := p.checkGFX(); err != nil {
		return nil, b.withLog(err)
	}
	// What an earlier plan made and this one does not would pass for an output.
	if _, err := b.ninja(ctx, "-t", "cleandead"); err != nil {
		return nil, err
	}
	if want.Left, err = p.left(); err != nil {
		return nil, err
	}
	want.Configured = true
	return targets, p.writeState(want)
}

func (b *builder) withLog(err error) error {
	if f, ok := errors.AsType[*Failed](err); ok {
		f.Log = b.o.Log
	}
	return err
}

// upToDate reports whether what configuring left is still there, and whether
// Ninja would not run CMake again by itself, which it does when a CMake file
// changed. Then this package must run it, to read back what came of it.
func (b *builder) upToDate(ctx context.Context, have state) (bool, error) {
	left, err := b.plan.left()
	if err != nil {
		return false, err
	}
	if left != have.Left {
		if have.Left != "" { // else llpatch was older then and kept none
			b.o.Logger.Warn("CMake's files were changed since they were written; configuring again", "dir", b.plan.Dir)
		}
		return false, nil
	}
	out, err := b.ninja(ctx, "-n", "build.ninja")
	if e, ok := errors.AsType[*run.Error](err); ok && e.Err == nil {
		return false, nil // a file that build.ninja needs is gone
	}
	return err == nil && !strings.Contains(string(out), "Re-running CMake"), err
}

// targets lists what Ninja can make: names of targets and paths below the
// build folder.
func (b *builder) targets(ctx context.Context) ([]string, error) {
	out, err := b.ninja(ctx, "-t", "targets", "all")
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, _, ok := strings.Cut(line, ": "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// ninja asks Ninja about the build folder; that is not a step of the plan.
func (b *builder) ninja(ctx context.Context, args ...string) ([]byte, error) {
	if b.plan.Remote != nil {
		return b.remoteAsk(ctx, args...)
	}
	s := b.plan.Steps[1]
	c, err := b.enter(run.Cmd{
		Argv: append([]string{s.Argv[0], "-C", b.plan.dir()}, args...), Env: s.Env, Dir: b.plan.dir(), Grace: stopGrace,
		Hold: b.o.Hold,
	})
	if err != nil {
		return nil, err
	}
	out, err := run.Output(ctx, c)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

// fullBelow is the room under which a failure is put down to it: no step of a
// build gets far with less, and compilers that meet it say something else.
const fullBelow = 1 << 20

// diskFull reports whether the file system of dir has next to no room left.
func diskFull(dir string) bool {
	free, ok := disk.Free(dir)
	return ok && free < fullBelow
}
