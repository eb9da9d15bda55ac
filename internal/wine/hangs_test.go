//go:build linux

package wine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// fake starts a wine that is a shell script.
func fake(ctx context.Context, t *testing.T, script string) (*Windows, string, error) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "fake-wine")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := Start(ctx, Options{
		Program: program, Version: spec.Win7, Dir: dir,
		Env: []string{"PATH=/usr/bin:/bin", "MARK=" + dir}, Grace: 200 * time.Millisecond,
	})
	return w, dir, err
}

// running are the processes that have a folder in their environment.
func running(t *testing.T, dir string) (pids []string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if text, _ := os.ReadFile(f); strings.Contains(string(text), "MARK="+dir) {
			pids = append(pids, f)
		}
	}
	return pids
}

// Whatever a wine does, Start comes to an end, says what, and leaves nothing.
func TestBadWine(t *testing.T) {
	const hangs = `trap "" TERM INT HUP; case $2 in "") echo hi; sleep 300; sleep 300 ;; *) exit 5 ;; esac`
	for script, want := range map[string]string{
		`echo broken >&2; exit 3`: "broken",
		`kill -9 $$`:              "killed",
		`case $2 in /c) echo 5.1 ;; -v) ;; *) echo hi; cat ;; esac`: "is to be win7 (6.1.7601), and says: 5.1",
		`case $1 in winecfg) exit 4 ;; *) echo hi; cat ;; esac`:     "wine's winecfg: ",
		hangs: "exit code 5",
	} {
		start := time.Now()
		w, dir, err := fake(t.Context(), t, script)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "wine") {
			t.Errorf("%s: %v, %v", script, w, err)
		}
		if left := running(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", script, left)
		}
		if _, err := os.Stat(filepath.Join(dir, "wine")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its folder: %v", script, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %v", script, took)
		}
	}
}

// One that never greets ends with its context.
func TestWineHangs(t *testing.T) {
	for _, script := range []string{
		`exec sleep 300`, `trap "" TERM; sleep 300; sleep 300`,
		`case $2 in "") echo hi; cat ;; *) sleep 300 ;; esac`,
	} {
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		start := time.Now()
		_, dir, err := fake(ctx, t, script)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %v after %v", script, err, time.Since(start))
		}
		if left := running(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", script, left)
		}
		if _, err := os.Stat(filepath.Join(dir, "wine")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its folder: %v", script, err)
		}
	}
}
