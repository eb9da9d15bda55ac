//go:build linux

package leak

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
)

// A run says what it is at, and its result how the program ended.
func TestStatus(t *testing.T) {
	o := options(t, "flat")
	o.Workload, o.Requests = "requests", 400
	state := filepath.Join(t.TempDir(), "none")
	o.Probe, o.Source = memory.Simulated(state), "simulated device"
	var mu sync.Mutex
	var lines []string
	o.Status = func(l string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, l)
	}
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	form := regexp.MustCompile(`^\d+s, RSS [0-9.]+ MiB, \d+ of 400 requests$`)
	if len(lines) < 2 || !form.MatchString(lines[len(lines)-1]) {
		t.Errorf("%q", lines)
	}
	if res.End != "" || res.ExitCode != nil { // SIGTERM ended it
		t.Errorf("end %q, exit code %v", res.End, res.ExitCode)
	}
}

func TestExitCode(t *testing.T) {
	o := options(t, "flat")
	o.Argv = []string{"/bin/sh", "-c", "sleep 1.5; exit 9"}
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode == nil || *res.ExitCode != 9 || !strings.Contains(res.Text(),
		"the program ended with exit code 9, by itself\n") {
		t.Errorf("%v\n%s", res.ExitCode, res.Text())
	}
}

// VRAM in a status is what is taken beyond the idle figure.
func TestStatusVRAM(t *testing.T) {
	w := &work{}
	rss, vram := int64(3<<30), int64(5<<20)
	w.latest.Store(&memory.Point{RSS: &rss, VRAM: &vram})
	w.total.Store(96)
	w.Requests.Store(7)
	if got, want := w.status(75*time.Second), "1m15s, RSS 3.00 GiB, VRAM 5.00 MiB, 7 of 96 requests"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What to do is said once.
func TestUnclearSaysOnce(t *testing.T) {
	o := options(t, "flat")
	o.Argv = []string{"/bin/sh", "-c", "sleep 0.3"}
	o.Every = 50 * time.Millisecond
	_, err := Run(t.Context(), o)
	var n *NotRun
	if !errors.As(err, &n) || strings.Count(err.Error(), "let it run longer") != 1 ||
		strings.Contains(err.Error(), ", or: ") {
		t.Errorf("%v", err)
	}
}

// A folder in which nothing was written is gone with those that were made for it.
func TestFolderGone(t *testing.T) {
	top := t.TempDir()
	made := filepath.Join(top, "dist", "leak")
	_, done, err := Folder(made, "p")
	if err != nil {
		t.Fatal(err)
	}
	done()
	if list, err := os.ReadDir(top); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := os.MkdirAll(made, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, done, err := Folder(made, "p")
	if err != nil {
		t.Fatal(err)
	}
	done()
	if _, err := os.Stat(made); err != nil {
		t.Errorf("a folder that was there: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
}
