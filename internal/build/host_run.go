package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// hostGrace is what a build on another machine gets to end after it was told to: the
// machine's own 10 seconds for Ninja, and the way there.
const hostGrace = 15 * time.Second

// ProbeOn is Probe for another machine. On Linux llpatch copies itself there and looks
// around; a Windows machine says what it is, and the plan's script finds its tools.
func ProbeOn(ctx context.Context, h Host, tc spec.Toolchain, rec spec.Recipe) (Facts, error) {
	c, says, err := greet(ctx, h, tc.OS == box.os, h.Dir)
	if err != nil {
		return Facts{}, err
	}
	at := &HostFact{Name: h.Name, Dir: c.at, OS: c.sys.os}
	if c.sys.os == box.os {
		f := boxFacts(tc, says)
		f.Host = at
		return f, nil
	}
	self, err := c.copySelf(ctx)
	if err != nil {
		return Facts{}, err
	}
	text, err := json.Marshal(ask(tc, rec))
	if err != nil {
		return Facts{}, err
	}
	out, err := c.call(ctx, "look around", sh(`exec "$1" "$2"`, self, InsideCommand), bytes.NewReader(text))
	if err != nil {
		return Facts{}, err
	}
	var a answer
	if _, out, _ = bytes.Cut(out, []byte("{")); json.Unmarshal(append([]byte("{"), out...), &a) != nil {
		return Facts{}, &HostError{Host: h.Name, Why: fmt.Sprintf("llpatch there answers %q", clean(string(out[:min(len(out), 200)])))}
	}
	f := a.Facts
	f.Host = at
	f.Launcher = "" // the script names none
	return f, a.err()
}

// copySelf brings this program to the machine, where it is not there yet.
func (c *hostConn) copySelf(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	sum, err := SumFile(self)
	if err != nil {
		return "", err
	}
	there := c.at + "/.llpatch/llpatch"
	out, err := c.call(ctx, "look for llpatch", sh(`cd -- "$1"; mkdir -p .llpatch; rm -f .llpatch/new.*; sha256sum <.llpatch/llpatch 2>/dev/null || :`, c.at), nil)
	if err != nil || strings.Contains(string(out), sum) {
		return there, err
	}
	part := ".llpatch/new." + sum[:8]
	if err := c.copy(ctx, "copy llpatch", "put", self, c.path(part)); err != nil {
		c.tidy(ctx)
		return "", err
	}
	_, err = c.call(ctx, "copy llpatch", sh(`cd -- "$1" && chmod 755 "$2" && mv -f "$2" .llpatch/llpatch`, c.at, part), nil)
	return there, err
}

// HostKind tells a Linux machine from a Windows one, and makes the folder there.
func HostKind(ctx context.Context, h Host) (string, error) {
	_, _, err := greet(ctx, h, false, h.Dir)
	var f *HostError
	if err == nil || !errors.As(err, &f) || isSSHFault(f.Err) {
		return posix.os, err
	}
	if _, _, err2 := greet(ctx, h, true, h.Dir); err2 == nil {
		return box.os, nil
	}
	return "", err
}

// isSSHFault reports whether ssh itself is at fault, or is not there.
func isSSHFault(err error) bool {
	var e *run.Error
	return errors.Is(err, run.ErrNotFound) || errors.As(err, &e) && (e.Exit == run.SSHFailed || e.Exit < 0)
}

func (b *builder) conn() *hostConn {
	c := &hostConn{host: *b.o.On, sys: posix, at: b.plan.Host.Dir, reached: true}
	if b.plan.Host.OS == box.os {
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
	w, err := b.hostStep(ctx, c, Compile, want)
	if err != nil {
		return art, err
	}
	art.BuildSeconds, art.Compiled, art.Steps = time.Since(start).Seconds(), w.objects, w.steps
	// Another llpatch may have come in between.
	if now, err := b.listed(ctx, c); err != nil {
		return art, err
	} else if send, remove := differ(source, now, c.sys.os == box.os); len(send)+len(remove) > 0 {
		return art, &HostError{Host: c.host.Name, Why: fmt.Sprintf("%s in %s was changed while it was built; run the same command again", append(send, remove...)[0], c.at)}
	}
	if err := b.fetch(ctx, c, targets, scratch); err != nil {
		return art, err
	}
	art.Files, err = outputs(ctx, p.Dir, targets, p.Programs)
	return art, err
}

// named puts the plan's tag and target into a *Failed that has none.
func (b *builder) named(err error) {
	var f *Failed
	if errors.As(err, &f) && f.Tag == "" {
		f.Tag, f.Target = b.plan.Tag, b.plan.Target
	}
}

// listed is what of the source and the script is there; nil where that cannot be told.
func (b *builder) listed(ctx context.Context, c *hostConn) (map[string]copied, error) {
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
func (b *builder) sync(ctx context.Context, c *hostConn, scratch string) (map[string]copied, error) {
	what := "copy to " + c.host.Name
	if b.o.Progress != nil {
		b.o.Progress(what, 0, 0)
	}
	name, script, err := b.plan.hostScript(ctx)
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
	for _, n := range send {
		if windows && want[n].link != "" {
			return nil, fmt.Errorf("%s is a symbolic link, which Windows lets not everybody make", n)
		}
	}
	if err := c.checkRoom(ctx, 2*sizes(b.plan.Source, send)); err != nil {
		return nil, err
	}
	archive := filepath.Join(scratch, takeFile)
	sum, err := pack(ctx, archive, b.plan.Source, name, script, want, send, remove)
	if err != nil {
		return nil, err
	}
	if err := c.copy(ctx, "copy the source", "put", archive, c.path(takeFile)); err != nil {
		return nil, err
	}
	if _, err := c.call(ctx, "take the source", c.sys.take(c.at, sum), nil); err != nil {
		return nil, err
	}
	if have, err = b.listed(ctx, c); err != nil {
		return nil, err
	}
	if left, more := differ(want, have, windows); len(left)+len(more) > 0 {
		return nil, &HostError{Host: c.host.Name, Why: fmt.Sprintf("%s in %s is not what was copied there", append(left, more...)[0], c.at)}
	}
	b.o.Logger.Info("copied", "to", c.host.Name, "files", len(send), "removed", len(remove))
	return want, nil
}

// hostScript is the script that runs there.
func (p Plan) hostScript(ctx context.Context) (name string, text []byte, err error) {
	var b bytes.Buffer
	if p.Host.OS == box.os {
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

// hostStep runs one step of the script there. Where ctx ends, so does the step, there
// too, before this returns.
func (b *builder) hostStep(ctx context.Context, c *hostConn, step string, want state) (*watcher, error) {
	w := &watcher{progress: b.o.Progress, what: step}
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
		Argv: run.SSH(c.host.Name, command), Env: c.host.Env, Stdin: in, Stdout: w, Log: b.o.Log, Grace: time.Second, Hold: b.o.Hold,
	})
	if err == nil && ctx.Err() == nil {
		w.all()
		return w, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	var e *run.Error
	if ctx.Err() == nil && errors.As(err, &e) && (e.Exit == run.SSHFailed || e.Exit == hostBusy || e.Exit < 0) {
		said := w.all()
		return w, c.fault(ctx, step, err, said[max(0, len(said)-1):])
	}
	return w, b.stepFault(ctx, step, w, err)
}

// configureOn runs CMake there and reads back what it made of the options.
func (b *builder) configureOn(ctx context.Context, c *hostConn, want state, scratch string) ([]string, error) {
	w, err := b.hostStep(ctx, c, Configure, want)
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
				Cause: "configuring fetched sources that are not in the tree (" + source + "); turn off the option that asks for them",
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
		if err := c.copy(ctx, "fetch build.ninja", "get", c.path("build/build.ninja"), filepath.Join(scratch, "build.ninja")); err != nil {
			return nil, err
		}
		here := b.plan
		here.Dir = scratch
		if err := here.checkGFX(); err != nil {
			return nil, b.withLog(err)
		}
	}
	_, err = b.ninja(ctx, "-t", "cleandead")
	return targets, err
}

// hostAsk is ninja there.
func (b *builder) hostAsk(ctx context.Context, args ...string) ([]byte, error) {
	c := b.conn()
	want, err := b.plan.state()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return c.call(ctx, "ask Ninja", c.sys.step(c.at, args[1], want.Key, sha256Hex([]byte(want.Compilers)), b.plan.Jobs), openEnd{ctx})
}

// openEnd is an input without content that ends with its context.
type openEnd struct{ ctx context.Context }

// Read waits.
func (o openEnd) Read([]byte) (int, error) {
	<-o.ctx.Done()
	return 0, io.EOF
}

// fetch puts what Ninja made in bin, and what CMake left, in the place of the plan's
// folder here, all at once. What is here already and right does not travel.
func (b *builder) fetch(ctx context.Context, c *hostConn, targets []string, scratch string) error {
	what := "fetch from " + c.host.Name
	if b.o.Progress != nil {
		b.o.Progress(what, 0, 0)
	}
	out, err := c.call(ctx, what, c.sys.outputs(c.at), nil)
	if err != nil {
		return err
	}
	there, ok := listing(out)
	if !ok {
		return &HostError{Host: c.host.Name, Why: "its build made a file whose name cannot be read in " + c.at + "/build/bin"}
	}
	get := map[string]copied{}
	next := filepath.Join(scratch, "new")
	for _, t := range targets {
		f, made := there[t]
		if path.Dir(t) != "bin" || !made {
			continue
		}
		if c.sys.os == box.os {
			f.exec = true // as MinGW's are
		}
		if err := b.keep(t, f, next); errors.Is(err, fs.ErrNotExist) {
			get[t] = f
		} else if err != nil {
			return err
		}
	}
	if len(get) > 0 {
		names := make([]string, 0, len(get))
		for name := range get {
			names = append(names, name)
		}
		slices.Sort(names)
		sum, err := c.call(ctx, what, c.sys.give(c.at, names), nil)
		if err != nil {
			return err
		}
		archive := filepath.Join(scratch, giveFile)
		if err := c.copy(ctx, what, "get", c.path(giveFile), archive); err != nil {
			return err
		}
		if got, err := SumFile(archive); err != nil || !strings.Contains(string(sum), got) {
			return errors.Join(err, &HostError{Host: c.host.Name, Why: "the programs arrived damaged; run the same command again", Lost: true})
		}
		if err := unpack(ctx, archive, next, get); err != nil {
			return &HostError{Host: c.host.Name, Why: err.Error(), Err: err}
		}
		c.tidy(ctx)
		b.o.Logger.Info("fetched", "from", c.host.Name, "files", len(names))
	}
	return b.swap(next, scratch)
}

// keep takes a file that is here and right into the next folder, and makes a link there.
// The error wraps fs.ErrNotExist where the file must be fetched.
func (b *builder) keep(name string, f copied, next string) error {
	have, to := filepath.Join(b.plan.Dir, filepath.FromSlash(name)), filepath.Join(next, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if f.link != "" {
		if path.Base(f.link) != f.link {
			return &HostError{Host: b.plan.Host.Name, Why: fmt.Sprintf("its build made %s a link to %q, out of its folder", name, f.link)}
		}
		return os.Symlink(f.link, to)
	}
	info, err := os.Lstat(have)
	if err != nil || !info.Mode().IsRegular() || (info.Mode()&0o100 != 0) != f.exec {
		return fs.ErrNotExist
	}
	if sum, err := SumFile(have); err != nil || sum != f.sum {
		return fs.ErrNotExist
	}
	if err := os.Link(have, to); err != nil { // a file system without them
		return fs.ErrNotExist
	}
	return nil
}

// swap puts the next folder in the place of the plan's. A local build that comes after
// it finds that other compilers were at work, and begins anew.
func (b *builder) swap(next, scratch string) error {
	if err := os.MkdirAll(filepath.Join(next, "bin"), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(scratch, "CMakeCache.txt"), filepath.Join(next, "CMakeCache.txt")); err != nil {
		return err
	}
	p := b.plan
	p.Dir = next
	if err := p.writeState(state{Compilers: "those of " + b.plan.Host.Name}); err != nil {
		return err
	}
	old := b.plan.Dir + ".old"
	return errors.Join(os.Rename(b.plan.Dir, old), os.Rename(next, b.plan.Dir), os.RemoveAll(old))
}
