//go:build linux

package memory

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// The programs that the tests watch are this test binary again, told by HELPER
// what to be.
func TestMain(m *testing.M) {
	run.Supervise()
	if h := os.Getenv("HELPER"); h != "" {
		os.Exit(helper(strings.Fields(h)))
	}
	flag.Parse()
	os.Exit(m.Run())
}

func helper(args []string) int {
	switch args[0] {
	case "work":
		return work(args[1:])
	case "hold": // MiB, and a child that holds as much
		keep := touch(atoi(args[1]) << 20)
		if len(args) > 2 {
			c := exec.Command("/proc/self/exe")
			c.Env = []string{"HELPER=hold " + args[1]}
			c.Stdin = os.Stdin
			out, err := c.StdoutPipe()
			if err != nil || c.Start() != nil {
				return 1
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				return 1
			}
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		keep[0] = 1
	}
	return 0
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// touch maps bytes and makes every page real.
func touch(n int) []byte { return touchAs(n, syscall.MAP_PRIVATE) }

func touchAs(n, flag int) []byte {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|flag)
	if err != nil {
		panic(err)
	}
	for i := 0; i < n; i += os.Getpagesize() {
		b[i] = 1
	}
	return b
}

// work is a program that serves requests: seed, requests, and bytes that each
// keeps for good. What else it takes it gives back: a start-up, a buffer a
// request of any size, and a cache that fills and is emptied.
func work(args []string) int {
	r := rand.New(rand.NewPCG(uint64(atoi(args[0])), 7))
	requests, keep, kind := atoi(args[1]), atoi(args[2]), args[3]
	touch(64 << 20)
	var cache [][]byte
	for i := range requests {
		if keep > 0 && kind == "shared" {
			touchAs(keep, syscall.MAP_SHARED)
		} else if keep > 0 {
			touch(keep)
		}
		switch kind {
		case "warm":
			if i == 8 {
				touch(128 << 20)
			}
		case "saw":
			if cache = append(cache, touch(2<<20)); len(cache) > 10+r.IntN(10) {
				for _, b := range cache {
					_ = syscall.Munmap(b)
				}
				cache = nil
			}
		}
		tmp := touch(1<<20 + r.IntN(1<<20))
		time.Sleep(time.Duration(4+r.IntN(8)) * time.Millisecond)
		_ = syscall.Munmap(tmp)
		fmt.Println("request")
	}
	return 0
}

// watch runs a helper under a sampler; each line that it prints is a request.
func watch(t *testing.T, o Options, helper string) Series {
	t.Helper()
	var requests atomic.Int64
	if o.Progress == nil {
		o.Progress = func() Progress { return Progress{Requests: requests.Load()} }
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"HELPER=" + helper, "GORACE=atexit_sleep_ms=0"}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s.Attach(c.Process.Pid)
	for sc := bufio.NewScanner(out); sc.Scan(); {
		requests.Add(1)
	}
	if err := c.Wait(); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) || e.ExitCode() != -1 {
			t.Fatal(err)
		}
	}
	return s.Stop()
}

// start starts a helper that runs until stop, and waits until it is ready.
func start(tb testing.TB, helper string) (pid int, stop func()) {
	tb.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"HELPER=" + helper, "GORACE=atexit_sleep_ms=0"}
	in, err := c.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Start(); err != nil {
		tb.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		tb.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			in.Close()
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	tb.Cleanup(stop)
	return c.Process.Pid, stop
}
