//go:build linux

package run_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// The programs that the tests start are this test binary again, told by HELPER
// what to be.
func TestMain(m *testing.M) {
	run.Supervise()
	if h := os.Getenv("HELPER"); h != "" {
		os.Exit(helper(h))
	}
	os.Exit(m.Run())
}

// noNap keeps a helper built with -race from sleeping for a second at its end.
const noNap = "GORACE=atexit_sleep_ms=0"

func self(tb testing.TB) string {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

func cmd(tb testing.TB, helper string, args ...string) run.Cmd {
	tb.Helper()
	return run.Cmd{Argv: append([]string{self(tb)}, args...), Env: []string{"HELPER=" + helper, noNap}}
}

// headless keeps main on the main thread, which it is to end.
const headless = "headless"

func init() {
	if os.Getenv("HELPER") == headless {
		runtime.LockOSThread()
	}
}

func helper(what string) int {
	args := os.Args[1:]
	switch what {
	case "echo":
		fmt.Println(strings.Join(args, "|"))
	case "cat":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			return 1
		}
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "exit":
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		n, _ := strconv.Atoi(args[0])
		return n
	case "fail-then-print":
		fmt.Fprintln(os.Stderr, "why it failed")
		time.Sleep(50 * time.Millisecond) // read by then, whichever pipe is looked at first
		fmt.Print("start: ok")
		return 1
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // Go turns the other fatal ones into an exit code
		time.Sleep(time.Minute)
	case "sleep":
		say(os.Getpid())
		time.Sleep(time.Minute)
	case "stubborn": // ignores every polite signal
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		say(os.Getpid())
		time.Sleep(time.Minute)
	case headless: // its main thread ends and the others go on, as wine's services do
		go time.Sleep(time.Minute)
		say(os.Getpid())
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	case "polite": // ends by itself on SIGTERM
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, syscall.SIGTERM, syscall.SIGUSR1)
		say(os.Getpid())
		fmt.Println("got", <-ch)
		return 7
	case "big":
		line := []byte(strings.Repeat("x", 1023) + "\n")
		w := bufio.NewWriterSize(os.Stdout, 1<<20)
		for range 50 << 10 {
			if _, err := w.Write(line); err != nil {
				return 1
			}
		}
		fmt.Fprintln(w, "the last line")
		if w.Flush() != nil {
			return 1
		}
		return 3
	case "longline":
		for range 4 << 10 {
			fmt.Print(strings.Repeat("y", 1<<10))
		}
		return 3
	case "family": // a child, and a grandchild that has left the session and is orphaned
		return family(args[0])
	case "middle": // starts the grandchild and ends, which orphans it
		c := child(args[0])
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if c.Start() != nil {
			return 1
		}
	case "caller": // a program like llpatch, which runs a family
		p, err := run.Start(testContext(), run.Cmd{
			Argv: []string{exe(), "stubborn", "stay"}, Env: []string{"HELPER=family", noNap},
			Stdout: os.Stdout, Grace: 200 * time.Millisecond,
		})
		if err != nil {
			return 1
		}
		_ = p.Wait()
	case "quick":
	default:
		fmt.Fprintln(os.Stderr, "no such helper")
		return 2
	}
	return 0
}

func family(kind string) int {
	m := child("middle", kind)
	if m.Run() != nil {
		return 1
	}
	c := child(kind)
	if c.Start() != nil {
		return 1
	}
	say(os.Getpid())
	if len(os.Args) > 2 && os.Args[2] == "stay" {
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Minute)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // its end says that all have said who they are
	return 0
}

func exe() string { return "/proc/self/exe" }

func child(helper string, args ...string) *exec.Cmd {
	c := exec.Command(exe(), args...)
	c.Env = []string{"HELPER=" + helper, noNap}
	c.Stdout = os.Stdout
	return c
}

// say prints a pid as a line of its own in one write, so that lines of several
// processes do not mix.
func say(pid int) { os.Stdout.WriteString("pid " + strconv.Itoa(pid) + "\n") }
