package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// workplace is a folder with the small upstream and its declarations.
type workplace struct {
	t   *testing.T
	dir string
}

func newWorkplace(t *testing.T) workplace {
	t.Helper()
	a, err := txtar.ParseFile("testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	if err := makeUpstream(filepath.Join(dir, "up")); err != nil {
		t.Fatal(err)
	}
	return workplace{t, dir}
}

// command is llpatch release, with its output in the returned buffer.
func (w workplace) command(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer) {
	w.t.Helper()
	self, err := exec.LookPath("llpatch")
	if err != nil {
		w.t.Fatal(err)
	}
	c := exec.CommandContext(ctx, self, append([]string{"-C", "decl", "release", "b101", "small", "--source", "up"},
		args...)...)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "LLPATCH_CACHE="+filepath.Join(w.dir, "cache"))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	return c, &out
}

func (w workplace) archive() []byte {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "dist/b101/small/llama-b101-llp1-bin-linux-cpu-x64.tar.gz"))
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

func (w workplace) mustRelease() []byte {
	w.t.Helper()
	c, out := w.command(w.t.Context())
	if err := c.Run(); err != nil {
		w.t.Fatalf("release: %v\n%s", err, out)
	}
	return w.archive()
}

// left lists the processes that work in the folder.
func (w workplace) left() (pids []string) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range dirs {
		cwd, _ := os.Readlink(filepath.Join(d, "cwd"))
		cmd, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		if strings.HasPrefix(cwd, w.dir) || bytes.Contains(cmd, []byte(w.dir)) {
			pids = append(pids, fmt.Sprintf("%s %q", filepath.Base(d), bytes.ReplaceAll(cmd, []byte{0}, []byte(" "))))
		}
	}
	return pids
}

// noneLeft fails where a process of the folder is alive 5 seconds later.
func (w workplace) noneLeft() {
	w.t.Helper()
	var left []string
	for range 100 {
		if left = w.left(); len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Errorf("left behind: %v", left)
}

// A chain that is stopped at any moment, by Ctrl-C or by kill -9, leaves no
// process, and the same command afterwards gives the same bytes as a chain
// that was never stopped.
func TestStoppedAnywhere(t *testing.T) {
	whole := newWorkplace(t)
	start := time.Now()
	want := whole.mustRelease()
	took := time.Since(start)

	for name, sig := range map[string]os.Signal{"interrupt": os.Interrupt, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			const moments = 10
			stopped := 0
			for i := range moments {
				w := newWorkplace(t)
				c, out := w.command(t.Context())
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				over := time.AfterFunc(took*time.Duration(i)/moments, func() { _ = c.Process.Signal(sig) })
				err := c.Wait()
				if over.Stop() { // on a busy machine the run that was measured is a slow one
					took = min(took, time.Since(start))
				}
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					stopped++
					if sig == os.Interrupt && exit.ExitCode() != 130 && exit.ExitCode() != -1 {
						t.Errorf("moment %d: exit %d, want 130\n%s", i, exit.ExitCode(), out)
					}
				}
				w.noneLeft()
				if got := w.mustRelease(); !bytes.Equal(got, want) {
					t.Errorf("moment %d: the archive differs from that of a whole run", i)
				}
				w.noneLeft()
			}
			if stopped < moments/2 {
				t.Errorf("only %d of %d runs were stopped", stopped, moments)
			}
		})
	}
}

// Two at once: one waits and says so, both succeed.
func TestTwoAtOnce(t *testing.T) {
	w := newWorkplace(t)
	var wg sync.WaitGroup
	outs := make([]string, 2)
	for i := range outs {
		c, out := w.command(t.Context())
		wg.Go(func() {
			if err := c.Run(); err != nil {
				t.Errorf("run %d: %v\n%s", i, err, out)
			}
			outs[i] = out.String()
		})
	}
	wg.Wait()
	if !strings.Contains(outs[0]+outs[1], "waiting for it") {
		t.Errorf("neither says that it waits:\n%s\n%s", outs[0], outs[1])
	}
	if len(w.archive()) == 0 {
		t.Error("no archive")
	}
}

// A file system that is full: an error that names the place, nothing half
// written, and the same command succeeds once there is room.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system; CI runs it as root")
	}
	for _, size := range []string{"40k", "120k", "200k"} {
		t.Run(size, func(t *testing.T) {
			w := newWorkplace(t)
			small := filepath.Join(w.dir, "dist")
			if err := os.Mkdir(small, 0o755); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", small).CombinedOutput(); err != nil {
				t.Fatalf("mount: %v %s", err, out)
			}
			t.Cleanup(func() { _ = exec.Command("umount", "-l", small).Run() })
			c, out := w.command(t.Context())
			err := c.Run()
			if err == nil {
				t.Fatalf("a release in %s succeeds", size)
			}
			if !strings.Contains(out.String(), "no space left on device") &&
				!strings.Contains(out.String(), "No space left on device") {
				t.Errorf("the error does not say that the disk is full:\n%s", out)
			}
			if found, _ := filepath.Glob(small + "/b101/small/*.tar.gz"); len(found) > 0 {
				t.Errorf("there is an archive: %v", found)
			}
			if out, err := exec.Command("mount", "-o", "remount,size=64m", small).CombinedOutput(); err != nil {
				t.Fatalf("remount: %v %s", err, out)
			}
			if len(w.mustRelease()) == 0 {
				t.Error("no archive")
			}
		})
	}
}
