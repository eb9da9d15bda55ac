package run_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

func testContext() context.Context { return context.Background() }

// output collects what processes say, and may be read while they run.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) pids() []int {
	var pids []int
	for line := range strings.Lines(o.String()) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "pid "); ok && strings.HasSuffix(line, "\n") {
			if n, err := strconv.Atoi(s); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// startAndRead starts c and waits until n processes have said who they are.
func startAndRead(t *testing.T, c run.Cmd, n int) (*output, *run.Process) {
	t.Helper()
	out := &output{}
	c.Stdout = out
	p, err := run.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(out.pids()) >= n })
	return out, p
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited for 20 s in vain")
		}
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
	return !strings.HasPrefix(rest, " Z")
}

func wantGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is still alive", pid)
		}
	}
}

func TestStopEndsAStubbornProgram(t *testing.T) {
	c := cmd(t, "stubborn")
	c.Grace = 100 * time.Millisecond
	out, p := startAndRead(t, c, 1)
	if got := out.pids()[0]; got != p.Pid() {
		t.Errorf("Pid is %d, the program says %d", p.Pid(), got)
	}
	start := time.Now()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < 100*time.Millisecond || d > 5*time.Second {
		t.Errorf("ended after %v", d)
	}
	var e *run.Error
	if !errors.As(p.Wait(), &e) || e.Signal != "killed" {
		t.Errorf("got %v", p.Wait())
	}
	wantGone(t, out.pids())
}

func TestStopIsPoliteFirst(t *testing.T) {
	c := cmd(t, "polite")
	c.Grace = time.Minute
	_, p := startAndRead(t, c, 1)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var e *run.Error
	if !errors.As(p.Wait(), &e) || e.Exit != 7 {
		t.Errorf("got %v", p.Wait())
	}
}

// An impatient caller need not wait for the grace to end.
func TestStopWithAnEndedContext(t *testing.T) {
	c := cmd(t, "stubborn")
	c.Grace = time.Hour
	out, p := startAndRead(t, c, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	wantGone(t, out.pids())
}

// When the program ends well, what it left behind ends too, also what has left
// its session.
func TestNothingIsLeftBehind(t *testing.T) {
	for _, kind := range []string{"sleep", "stubborn", headless} {
		t.Run(kind, func(t *testing.T) {
			in, end := io.Pipe()
			c := cmd(t, "family", kind)
			c.Stdin, c.Grace = in, 100*time.Millisecond
			out, p := startAndRead(t, c, 3)
			end.Close()
			if err := p.Wait(); err != nil {
				t.Fatal(err)
			}
			wantGone(t, out.pids())
		})
	}
}

func TestCancelEndsTheWholeTree(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &output{}
	c := cmd(t, "family", "stubborn", "stay")
	c.Stdout, c.Grace = out, 100*time.Millisecond
	p, err := run.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(out.pids()) == 3 })
	cancel()
	if err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantGone(t, out.pids())
}

// kill -9 of the caller leaves nothing.
func TestCallerIsKilled(t *testing.T) {
	out := &output{}
	c := exec.Command(self(t))
	c.Env = []string{"HELPER=caller"}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Stdout = w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			_, _ = out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	await(t, func() bool { return len(out.pids()) == 3 })
	all := append(out.pids(), childrenOf(t, c.Process.Pid)...)
	if len(all) != 4 {
		t.Fatalf("the tree is %v, want 3 processes and a supervisor", all)
	}
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	await(t, func() bool {
		for _, pid := range all {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}

// A supervisor that is killed is an error of its own, and takes the program with it.
func TestSupervisorIsKilled(t *testing.T) {
	out, p := startAndRead(t, cmd(t, "stubborn"), 1)
	for _, pid := range childrenOf(t, os.Getpid()) {
		if b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); strings.HasPrefix(string(b),
			"llpatch-supervisor\x00") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "supervisor ended early") {
		t.Errorf("got %v", err)
	}
	await(t, func() bool { return !alive(out.pids()[0]) })
}

func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, s := range stats {
		b, err := os.ReadFile(s)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) > 1 && f[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(s)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// A lock handed over with Hold is free only when the last descendant is gone,
// also after the caller let go of it.
func TestHoldKeepsALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	c := cmd(t, "family", "stubborn", "stay")
	c.Hold, c.Grace = []*os.File{lock}, 300*time.Millisecond
	out, p := startAndRead(t, c, 3)
	lock.Close()

	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	free := func() bool { return syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
	if free() {
		t.Fatal("the lock is free while the tree lives")
	}
	for _, pid := range out.pids() {
		links, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if to, _ := os.Readlink(l); to == path {
				t.Errorf("process %d inherited the lock", pid)
			}
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop(context.Background()) }()
	for !free() {
		time.Sleep(time.Millisecond)
	}
	wantGone(t, out.pids())
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Programs started at once from many goroutines do not get each other's ends.
func TestManyAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c := cmd(t, "echo", strconv.Itoa(i))
			out, err := run.Output(t.Context(), c)
			if err != nil || strings.TrimSpace(string(out)) != strconv.Itoa(i) {
				t.Errorf("run %d: %q, %v", i, out, err)
			}
		})
	}
	wg.Wait()
}
