package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// hostGrace is what a build on another machine gets to end after it was told to: the
// machine's own 10 seconds for Ninja, and the way there.
const hostGrace = 15 * time.Second

func (b *builder) conn() *remoteConn {
	c := newConn(*b.o.On, posix, b.plan.Remote.Dir)
	c.reached = true
	if b.plan.Remote.OS == box.os {
		c.sys = box
	}
	return c
}

// runOn is run on another machine: what differs of the source goes there, the script
// runs there, and what differs of the outputs comes back.
func (b *builder) runOn(ctx context.Context) (art Artifacts, err error) {
	p := b.plan
	art = Artifacts{Dir: p.Dir, Tools: map[string]string{}}
	for role, t := range p.Tools {
		art.Tools[role] = t.Banner
	}
	want, _, err := p.openDir()
	if err != nil {
		return art, err
	}
	scratch := p.Dir + ".host"
	if err := errors.Join(os.RemoveAll(scratch), os.RemoveAll(p.Dir+".old"), os.MkdirAll(scratch, 0o755)); err != nil {
		return art, err
	}
	c := b.conn()
	defer func() {
		err = errors.Join(err, os.RemoveAll(scratch))
		if err != nil {
			c.tidy(ctx)
			b.named(err)
		}
	}()
	source, err := b.sync(ctx, c, scratch)
	if err != nil {
		return art, err
	}
	start := time.Now()
	targets, err := b.configureOn(ctx, c, want, scratch)
	if err != nil {
		return art, err
	}
	art.ConfigureSeconds = time.Since(start).Seconds()
	start = time.Now()
	w, err := b.remoteStep(ctx, c, Compile, want)
	if err != nil {
		return art, err
	}
	art.BuildSeconds, art.Compiled, art.Steps = time.Since(start).Seconds(), w.objects, w.steps
	// Another llpatch may have come in between.
	if now, err := b.listed(ctx, c); err != nil {
		return art, err
	} else if send, remove := differ(source, now, c.sys.os == box.os); len(send)+len(remove) > 0 {
		return art, &RemoteError{Remote: c.remote.Name, Why: fmt.Sprintf("%s in %s was changed while it was built; run "+
			"the same command again", append(send, remove...)[0], c.at)}
	}
	if err := b.fetch(ctx, c, targets, scratch); err != nil {
		return art, err
	}
	art.Files, err = outputs(ctx, p.Dir, targets, p.Programs)
	return art, err
}

// named puts the plan's tag and target into a *Failed that has none.
func (b *builder) named(err error) {
	if f, ok := errors.AsType[*Failed](err); ok && f.Tag == "" {
		f.Tag, f.Target = b.plan.Tag, b.plan.Target
	}
}

// listed is what of the source and the script is there; nil where that cannot be told.
func (b *builder) listed(ctx context.Context, c *remoteConn) (map[string]copied, error) {
	out, err := c.call(ctx, "list the source", c.sys.list(c.at), nil)
	if err != nil {
		return nil, err
	}
	files, ok := listing(out)
	if !ok {
		return nil, nil
	}
	return files, nil
}

// sync makes the source and the script there what they are to be, and returns that.
func (b *builder) sync(ctx context.Context, c *remoteConn, scratch string) (map[string]copied, error) {
	what := "copy to " + c.remote.Name
	if b.o.Progress != nil {
		b.o.Progress(what, 0, 0)
	}
	name, script, err := b.plan.remoteScript(ctx)
	if err != nil {
		return nil, err
	}
	want, err := wanted(ctx, b.plan.Source, name, script)
	if err != nil {
		return nil, err
	}
	windows := c.sys.os == box.os
	have, err := b.listed(ctx, c)
	if err != nil {
		return nil, err
	}
	send, remove := differ(want, have, windows)
	if len(send)+len(remove) == 0 {
		return want, nil
	}
	if have == nil {
		remove = []string{"src"}
	}
	if err := c.checkRoom(ctx, "the source", 2*sizes(b.plan.Source, send)); err != nil {
		return nil, err
	}
	archive := filepath.Join(scratch, takeName(c.run)+archiveEnd)
	sum, err := pack(ctx, archive, b.plan.Source, name, script, want, send, remove)
	if err != nil {
		return nil, err
	}
	if err := c.copy(ctx, "copy the source", "put", archive, c.path(filepath.Base(archive))); err != nil {
		return nil, err
	}
	if _, err := c.call(ctx, "take the source", c.sys.take(c.at, c.run, sum), nil); err != nil {
		return nil, err
	}
	if have, err = b.listed(ctx, c); err != nil {
		return nil, err
	}
	if left, more := differ(want, have, windows); len(left)+len(more) > 0 {
		return nil, &RemoteError{Remote: c.remote.Name, Why: fmt.Sprintf("%s in %s is not what was copied there",
			append(left, more...)[0], c.at)}
	}
	b.o.Logger.Info("copied", "to", c.remote.Name, "files", len(send), "removed", len(remove))
	return want, nil
}

// remoteScript is the script that runs there.
func (p Plan) remoteScript(ctx context.Context) (name string, text []byte, err error) {
	var b bytes.Buffer
	if p.Remote.OS == box.os {
		files, err := sourceFiles(ctx, p.Source)
		if err != nil {
			return "", nil, err
		}
		err = p.PowerShell(&b, BoxScript{Files: files})
		return "plan.ps1", b.Bytes(), err
	}
	err = p.Script(&b, Script{Tree: p.Tree})
	return "plan.sh", b.Bytes(), err
}

// remoteStep runs one step of the script there. Where ctx ends, so does the step, there
// too, before this returns.
func (b *builder) remoteStep(ctx context.Context, c *remoteConn, step string, want state) (*watcher, error) {
	w := newWatcher(step, b.o.Progress)
	if w.progress != nil {
		w.progress(step, 0, 0)
	}
	live, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	in, open := io.Pipe() // its end is the machine's sign to stop
	done := make(chan struct{})
	defer close(done)
	go func() {
		defer func() { _ = open.Close() }() // it returns no error
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		_ = open.Close()
		select {
		case <-done:
		case <-time.After(hostGrace):
			kill()
		}
	}()
	command := c.sys.step(c.at, step, want.Key, sha256Hex([]byte(want.Compilers)), b.plan.Jobs)
	err := run.Run(live, run.Cmd{
		Argv: run.SSH(c.remote.Name, command), Env: c.remote.Env, Stdin: in, Stdout: w, Log: b.o.Log, Grace: time.Second,
		Hold: b.o.Hold,
	})
	if err == nil && ctx.Err() == nil {
		w.all()
		return w, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	var e *run.Error
	if ctx.Err() == nil && errors.As(err, &e) && (e.Exit == run.SSHFailed || e.Exit == remoteBusy || e.Exit < 0) {
		said := w.all()
		return w, c.fault(ctx, step, err, said[max(0, len(said)-1):])
	}
	return w, b.stepFault(ctx, step, w, err)
}

// configureOn runs CMake there and reads back what it made of the options.
func (b *builder) configureOn(ctx context.Context, c *remoteConn, want state, scratch string) ([]string, error) {
	w, err := b.remoteStep(ctx, c, Configure, want)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(scratch, "CMakeCache.txt")
	if err := c.copy(ctx, "fetch CMakeCache.txt", "get", c.path("build/CMakeCache.txt"), file); err != nil {
		return nil, err
	}
	cache, err := readCache(file)
	if err != nil {
		return nil, err
	}
	if err := b.plan.checkOptions(w.all(), cache); err != nil {
		return nil, b.withLog(err)
	}
	for name := range cache {
		if source, ok := strings.CutPrefix(name, "FETCHCONTENT_SOURCE_DIR_"); ok {
			return nil, &Failed{
				Tag: b.plan.Tag, Target: b.plan.Target, Step: Configure, Kind: KindCMake, Log: b.o.Log,
				Cause: "configuring fetched sources that are not in the tree (" + source +
					"); turn off the option that asks for them",
			}
		}
	}
	targets, err := b.targets(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.plan.checkTargets(targets); err != nil {
		return nil, b.withLog(err)
	}
	if slices.Contains(b.plan.Backends, "hip") {
		if err := c.copy(ctx, "fetch build.ninja", "get", c.path("build/build.ninja"),
			filepath.Join(scratch, "build.ninja")); err != nil {
			return nil, err
		}
		here := b.plan
		here.Dir = scratch
		if err := here.checkGFX(); err != nil {
			return nil, b.withLog(err)
		}
	}
	if err := b.windowsOn(ctx, c, scratch); err != nil {
		return nil, err
	}
	_, err = b.ninja(ctx, "-t", "cleandead")
	return targets, err
}

// remoteAsk is ninja there.
func (b *builder) remoteAsk(ctx context.Context, args ...string) ([]byte, error) {
	c := b.conn()
	want, err := b.plan.state()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return c.call(ctx, "ask Ninja", c.sys.step(c.at, args[1], want.Key, sha256Hex([]byte(want.Compilers)), b.plan.Jobs),
		openEnd{ctx})
}

// openEnd is an input without content that ends with its context.
type openEnd struct{ ctx context.Context }

// Read waits.
func (o openEnd) Read([]byte) (int, error) {
	<-o.ctx.Done()
	return 0, io.EOF
}
