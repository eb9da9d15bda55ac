//go:build linux

package run_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

func TestOutput(t *testing.T) {
	out, err := run.Output(t.Context(), cmd(t, "echo", "a b", "", "$HOME", "é"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), "a b||$HOME|é\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A program that writes for ever is ended, and its output is not kept.
func TestOutputIsBounded(t *testing.T) {
	out, err := run.Output(t.Context(), run.Cmd{Argv: []string{
		"/bin/sh", "-c",
		"while :; do head -c 1000000 /dev/zero; done",
	}})
	if out != nil || err == nil || !strings.Contains(err.Error(), "/bin/sh wrote more than 64 MiB") {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

func TestEnvIsNotInherited(t *testing.T) {
	t.Setenv("LLPATCH_TEST_SECRET", "x")
	c := cmd(t, "env")
	c.Env = append(c.Env, "B=2")
	out, err := run.Output(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	if want := []string{"B=2", noNap, "HELPER=env"}; !slices.Equal(got, want) {
		t.Errorf("environment is %q, want %q", got, want)
	}
}

func TestStdin(t *testing.T) {
	c := cmd(t, "cat")
	in := strings.Repeat("line\n", 100000)
	c.Stdin = strings.NewReader(in)
	out, err := run.Output(t.Context(), c)
	if err != nil || string(out) != in {
		t.Fatalf("got %d bytes back of %d, err %v", len(out), len(in), err)
	}
	// A reader that never ends must not keep a program that has.
	r, w := io.Pipe()
	defer w.Close()
	c = cmd(t, "quick")
	c.Stdin = r
	start := time.Now()
	if err := run.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

// Two pipes are read by two readers: what a program says on standard error is the end of
// the tail, whichever of them comes first.
func TestOutputTail(t *testing.T) {
	_, err := run.Output(t.Context(), cmd(t, "fail-then-print"))
	var e *run.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if want := []string{"start: ok", "why it failed"}; !slices.Equal(e.Tail, want) {
		t.Errorf("tail %q, want %q", e.Tail, want)
	}
}

func TestExitCode(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c := cmd(t, "exit", "42")
	c.Log, c.Dir = log, t.TempDir()
	err := run.Run(t.Context(), c)
	var e *run.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Exit != 42 || e.Signal != "" || e.Err != nil || e.Dir != c.Dir {
		t.Errorf("got %+v", e)
	}
	if want := []string{"to stdout", "to stderr"}; !slices.Equal(e.Tail, want) {
		t.Errorf("tail %q, want %q", e.Tail, want)
	}
	for _, want := range []string{c.Argv[0], "exit code 42", "to stderr", log} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message lacks %q: %s", want, err)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if want := "$ " + c.Argv[0] + " 42\nto stdout\nto stderr\n(exit code 42)\n"; string(text) != want {
		t.Errorf("log is %q, want %q", text, want)
	}
}

// A last line without an end stays as it was printed.
func TestLogOfUnendedLine(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := run.Run(t.Context(), run.Cmd{Argv: []string{"printf", "a\nb"}, Env: os.Environ(), Log: log}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\nb\n(exit code 0)\n"; !strings.HasSuffix(string(text), want) {
		t.Errorf("log is %q, want %q at its end", text, want)
	}
}

// A program without end does not fill the disk.
func TestLogMost(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var out bytes.Buffer
	for most, want := range map[int64]string{
		4: "abcd\n(what it printed after 4 bytes is left out)\n(exit code 0)\n",
		6: "abcdef\n(exit code 0)\n",
	} {
		p, err := run.Start(t.Context(), run.Cmd{
			Argv: []string{"printf", "abcdef"}, Env: os.Environ(), Log: log,
			LogMost: most, Stdout: &out,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil || p.LogCut() != (most == 4) {
			t.Errorf("%v, cut %v", err, p.LogCut())
		}
		text, err := os.ReadFile(log)
		if err != nil || !strings.HasSuffix(string(text), "\n"+want) {
			t.Errorf("log is %q, want %q at its end; %v", text, want, err)
		}
	}
	if out.String() != "abcdefabcdef" {
		t.Errorf("the caller got %q", &out)
	}
}

func TestStderrApart(t *testing.T) {
	var out, errs bytes.Buffer
	c := cmd(t, "exit", "0")
	c.Stdout, c.Stderr = &out, &errs
	if err := run.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if out.String() != "to stdout\n" || errs.String() != "to stderr\n" {
		t.Errorf("got %q and %q", &out, &errs)
	}
}

func TestSignalDeath(t *testing.T) {
	var e *run.Error
	if err := run.Run(t.Context(), cmd(t, "die")); !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Exit != -1 || e.Signal != syscall.SIGKILL.String() {
		t.Errorf("got exit %d, signal %q", e.Exit, e.Signal)
	}
}

func TestNotThere(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmd  run.Cmd
		want string
		is   error
	}{
		"no such name": {
			run.Cmd{Argv: []string{"no-such-program"}, Env: []string{"PATH=" + dir}},
			"no-such-program",
			run.ErrNotFound,
		},
		"no PATH":      {run.Cmd{Argv: []string{"sh"}}, "no such program in PATH", run.ErrNotFound},
		"no such file": {run.Cmd{Argv: []string{filepath.Join(dir, "gone")}}, "gone", run.ErrNotFound},
		"a folder":     {run.Cmd{Argv: []string{dir}}, "is a folder", run.ErrNotFound},
		"no such folder": {
			run.Cmd{Argv: []string{self(t)}, Dir: filepath.Join(dir, "gone")},
			"working folder",
			os.ErrNotExist,
		},
		"no program": {run.Cmd{Argv: []string{text}}, "not a program that this machine can run", syscall.ENOEXEC},
		"no argv":    {run.Cmd{}, "no program was named", nil},
		"no log":     {run.Cmd{Argv: []string{self(t)}, Log: filepath.Join(dir, "gone", "log")}, "log:", os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run.Start(t.Context(), c.cmd)
			var e *run.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q lacks %q", err, c.want)
			}
		})
	}
}

func TestBigOutput(t *testing.T) {
	var n int
	c := cmd(t, "big")
	c.Stdout = writerFunc(func(p []byte) (int, error) {
		if len(p) > 32<<10 {
			t.Errorf("a chunk of %d bytes", len(p))
		}
		n += len(p)
		return len(p), nil
	})
	var e *run.Error
	if err := run.Run(t.Context(), c); !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if want := 50<<20 + len("the last line\n"); n != want {
		t.Errorf("got %d bytes, want %d", n, want)
	}
	if len(e.Tail) != 20 || e.Tail[19] != "the last line" || len(e.Tail[0]) != 500 {
		t.Errorf("tail has %d lines, the first of %d bytes, the last %q", len(e.Tail), len(e.Tail[0]), e.Tail[len(e.Tail)-1])
	}
	if err := run.Run(t.Context(), cmd(t, "longline")); !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if len(e.Tail) != 1 || len(e.Tail[0]) != 500 {
		t.Errorf("one endless line gives a tail of %d lines", len(e.Tail))
	}
}

// A writer that fails is an error, and the program still ends by itself.
func TestFailingWriter(t *testing.T) {
	bad := errors.New("no more room")
	c := cmd(t, "big")
	c.Stdout = writerFunc(func([]byte) (int, error) { return 0, bad })
	err := run.Run(t.Context(), c)
	var e *run.Error
	if !errors.As(err, &e) || !errors.Is(err, bad) || e.Exit != 3 {
		t.Fatalf("got %v", err)
	}
}

func TestFullLog(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	c := cmd(t, "echo", "hello")
	c.Log = "/dev/full"
	if err := run.Run(t.Context(), c); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
}

func TestCancelAndTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := run.Start(ctx, cmd(t, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := p.Wait(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
	if _, err := run.Start(ctx, cmd(t, "quick")); !errors.Is(err, context.Canceled) {
		t.Errorf("a start after the end gives %v", err)
	}
	c := cmd(t, "sleep")
	c.Timeout = 50 * time.Millisecond
	if err := run.Run(t.Context(), c); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "took too long") {
		t.Errorf("got %v", err)
	}
}

func TestSignalReachesTheProgram(t *testing.T) {
	out, p := startAndRead(t, cmd(t, "polite"), 1)
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var e *run.Error
	if err := p.Wait(); !errors.As(err, &e) || e.Exit != 7 {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(out.String(), "got "+syscall.SIGUSR1.String()) {
		t.Errorf("output %q", out)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("a signal after the end: %v", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("a stop after the end: %v", err)
	}
}

// A program that ends at the first signal is not killed; one that ignores both is.
func TestTerminate(t *testing.T) {
	for _, c := range []struct {
		helper, end string
		patience    time.Duration
		asked       int
		killed      bool
	}{
		{"polite", "exit code 7", time.Minute, 1, false},
		{"stubborn", "signal: killed", 10 * time.Millisecond, 2, true},
	} {
		_, p := startAndRead(t, cmd(t, c.helper), 1)
		if p.Ended() {
			t.Errorf("%s has ended before it was asked to", c.helper)
		}
		asked := 0
		killed, err := p.Terminate(t.Context(), func() { asked++; _ = p.Signal(syscall.SIGTERM) }, c.patience)
		if err != nil || killed != c.killed || asked != c.asked || !p.Ended() || p.End() != c.end {
			t.Errorf("%s: killed %v, asked %d times, ended %v by %q, %v", c.helper, killed, asked, p.Ended(), p.End(), err)
		}
		if killed, err := p.Terminate(t.Context(), func() {
			t.Error("what has ended is asked to end")
		}, 0); killed || err != nil {
			t.Errorf("%s, once more: %v, %v", c.helper, killed, err)
		}
	}
	p, err := run.Start(t.Context(), cmd(t, "quick"))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.End(); got != "exit code 0" {
		t.Errorf("got %q", got)
	}
}

// What a run costs beside BenchmarkBareExec is the supervisor.
func BenchmarkBareExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if err := run.Run(b.Context(), run.Cmd{Argv: []string{"/bin/true"}}); err != nil {
			b.Fatal(err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A program named by a path stays one where no folder is given.
func TestPathWithoutDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Symlink(self(t), "here"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "."} {
		c := cmd(t, "echo", "a")
		c.Argv[0], c.Dir = "./here", dir
		out, err := run.Output(t.Context(), c)
		if err != nil || string(out) != "a\n" {
			t.Errorf("in %q: %q, %v", dir, out, err)
		}
	}
}
