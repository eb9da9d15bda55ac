package smoke

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/spec"
)

// Wine is the program that runs Windows programs on this machine. It stands for a
// Windows and is none, and the report says so.
type Wine struct {
	Program string // its absolute path
	Banner  string // what its --version says, for the report
	Windows string // the version that it is to be: spec.Win7
}

// windowsVersions are what cmd's ver says of each version that wine can be.
var windowsVersions = map[string]string{spec.Win7: "6.1.7601"}

// wineStart bounds the making of wine's folder and each of its own programs: 13 s
// on a busy machine with 2 processors.
const wineStart = 3 * time.Minute

// wine is a Windows of its own for one session: a folder that is gone afterwards,
// and one of wine's programs that stays, so that the others find wine's server
// running. The server ends with it.
type wine struct {
	s      *session
	prefix string
	stays  *run.Process
	input  *os.File // the program ends when it is closed
	banner string   // for the report
}

// startWine makes a session's Windows and asks which version it is.
func (s *session) startWine(ctx context.Context) error {
	o := s.o.Wine
	w := &wine{s: s, prefix: filepath.Join(s.o.Work, "wine")}
	if err := w.reset(); err != nil {
		return err
	}
	s.wine = w // its variables are part of what the programs below get
	if err := w.start(ctx); err != nil {
		w.stop(ctx)
		return fmt.Errorf("%s: %w", o.Program, err)
	}
	if _, err := w.own(ctx, "winecfg", "-v", o.Windows); err != nil {
		w.stop(ctx)
		return err
	}
	out, err := w.own(ctx, "cmd", "/c", "ver")
	if err == nil && !strings.Contains(out, windowsVersions[o.Windows]) {
		err = fmt.Errorf("%s is to be %s (%s), and says: %s", o.Program, o.Windows, windowsVersions[o.Windows], strings.TrimSpace(out))
	}
	if err != nil {
		w.stop(ctx)
		return err
	}
	w.banner = fmt.Sprintf("%s, as %s: this is no Windows", o.Banner, strings.TrimSpace(out))
	return nil
}

func (w *wine) reset() error {
	if err := os.RemoveAll(w.prefix); err != nil {
		return fmt.Errorf("wine's folder: %w", err)
	}
	if err := os.MkdirAll(w.prefix, 0o755); err != nil {
		return fmt.Errorf("wine's folder: %w", err)
	}
	return nil
}

// start starts the program that stays: a cmd that waits for its input. It greets
// when wine has made its folder and started its services.
func (w *wine) start(ctx context.Context) error {
	in, keep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	hello := &greeting{came: make(chan struct{})}
	w.stays, err = run.Start(ctx, run.Cmd{
		Argv: []string{w.s.o.Wine.Program, "cmd"}, Env: w.s.env(), Dir: w.s.o.Work, Stdin: in,
		Stdout: hello, Log: w.log("start"), Grace: killGrace, Hold: w.s.o.Hold,
	})
	if err != nil {
		return errors.Join(err, keep.Close())
	}
	w.input = keep
	limit := time.NewTimer(wineStart)
	defer limit.Stop()
	select {
	case <-hello.came:
		return nil
	case <-w.stays.Done():
		return fmt.Errorf("it does not start: %w", errors.Join(w.stays.Wait(), errors.New(strings.Join(w.stays.Tail(), "; "))))
	case <-limit.C:
		return fmt.Errorf("it does not start within %v; its log is %s", wineStart, w.log("start"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *wine) log(name string) string { return filepath.Join(w.s.o.Work, "wine-"+name+".log") }

// own runs one of wine's own programs to its end.
func (w *wine) own(ctx context.Context, argv ...string) (string, error) {
	out, err := run.Output(ctx, run.Cmd{
		Argv: append([]string{w.s.o.Wine.Program}, argv...), Env: w.s.env(), Dir: w.s.o.Work,
		Log: w.log(argv[0]), Timeout: wineStart, Grace: killGrace, Hold: w.s.o.Hold,
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("wine's %s: %w", argv[0], err)
	}
	return string(out), nil
}

// stop ends wine's server and services and removes its folder.
func (w *wine) stop(ctx context.Context) {
	if w.stays != nil {
		err := errors.Join(w.input.Close(), w.stays.Stop(ctx))
		if err != nil {
			w.s.o.Log.Warn("wine did not end as it should", "why", err, "log", w.log("start"))
		}
	}
	if err := os.RemoveAll(w.prefix); err != nil {
		w.s.o.Log.Warn("wine's folder cannot be removed", "why", err)
	}
}

// pids are the processes of wine's server and services, which hold the sockets of
// every program that wine runs. They belong to the supervisor of the one that stays.
func (w *wine) pids() []int {
	parent, err := strconv.Atoi(procField(fmt.Sprintf("/proc/%d/status", w.stays.Pid()), "PPid"))
	if err != nil {
		return nil
	}
	return memory.Descendants(parent)
}

// env is what wine needs to know. It asks for no add-on, and names the libraries
// that it loads. Variables with other letters than ASCII's come through in UTF-8 alone.
// Some builds of wine have an nvcuda.dll of their own, which leads to this machine's card.
func (w *wine) env() []string {
	return []string{
		"WINEPREFIX=" + w.prefix, "WINEARCH=win64", "WINEDEBUG=-all,+loaddll", "LC_ALL=C.UTF-8",
		"WINEDLLOVERRIDES=mscoree=;mshtml=;winemenubuilder.exe=;nvcuda=n",
	}
}

// greeting notes that something was written.
type greeting struct {
	once sync.Once
	came chan struct{}
}

// Write takes the next bytes; it never fails.
func (g *greeting) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.came) })
	return len(p), nil
}

// argv is the command that runs a program of the build.
func (s *session) argv(program string, args ...string) []string {
	if s.wine != nil {
		return append([]string{s.o.Wine.Program, program}, args...)
	}
	if s.o.Inside != nil {
		return slices.Concat(s.o.Inside.Enter, []string{program}, args)
	}
	return append([]string{program}, args...)
}

// politely is the signal that asks a program to end: wine makes the Ctrl+C of
// SIGINT, and SIGTERM would end wine itself.
func (s *session) politely() syscall.Signal {
	if s.wine != nil {
		return syscall.SIGINT
	}
	return syscall.SIGTERM
}

// wineLoaded is what wine says of a library that it has loaded; a backslash is two.
var wineLoaded = regexp.MustCompile(`(?m)trace:loaddll:build_module Loaded L"(.+?)" at `)

// lastLoaded returns the last library of a name that starts so of which a log says
// that wine has loaded it, as a path of this machine, or "".
func lastLoaded(log, name string) string {
	last := ""
	for _, m := range wineLoaded.FindAllStringSubmatch(log, -1) {
		path := sim.UnixPath(strings.ReplaceAll(m[1], `\\`, `\`))
		if strings.HasPrefix(filepath.Base(path), name) {
			last = path
		}
	}
	return last
}
