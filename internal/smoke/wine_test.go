package smoke

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/wine"
)

// winProgram tells its version, or does what FAKE says: hang, or wait for Ctrl+C.
const winProgram = `
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static HANDLE told;
static BOOL WINAPI on(DWORD what) { printf("ctrl %lu\n", what); fflush(stdout); SetEvent(told); return TRUE; }
int main(void) {
	const char * fake = getenv("FAKE");
	if (fake && !strcmp(fake, "hang")) Sleep(INFINITE);
	if (fake && !strcmp(fake, "wait")) {
		told = CreateEventA(NULL, TRUE, FALSE, NULL);
		SetConsoleCtrlHandler(on, TRUE);
		puts("ready");
		fflush(stdout);
		return WaitForSingleObject(told, 60000) ? 9 : 0;
	}
	puts("version: 8390 (b6c83aad5-llp1)");
	return 0;
}
`

// realWine returns this machine's wine and a folder with a program for Windows by the
// name of llama-server.
func realWine(t *testing.T) (program, bin string) {
	t.Helper()
	program, found := wine.Find()
	cc, err := exec.LookPath("x86_64-w64-mingw32-gcc-posix")
	if !found || err != nil {
		t.Skip("no wine64 or no MinGW-w64 (sh scripts/setup win7): nothing ran through wine here")
	}
	bin = t.TempDir()
	src := filepath.Join(bin, "server.c")
	if err := os.WriteFile(src, []byte(winProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), cc, "-O1", "-static", "-o", filepath.Join(bin, "llama-server.exe"),
		src).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program, bin
}

// left lists the processes whose environment names a folder.
func left(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range list {
		if env, err := os.ReadFile(f); err == nil && strings.Contains(string(env), "WINEPREFIX="+dir) {
			all = append(all, filepath.Base(filepath.Dir(f)))
		}
	}
	return all
}

// A program for Windows 7 passes through wine, one that does not end fails, and
// nothing of wine is left.
func TestWine(t *testing.T) {
	program, bin := realWine(t)
	hang := check("version")
	hang.Env = map[string]string{"FAKE": "hang"}
	o := Options{
		Bin: bin, Work: t.TempDir(), Checks: []spec.Check{check("version"), hang},
		Want: Version{Build: 8390, Commit: "b6c83aad5-llp1"},
		Wine: &Wine{Program: program, Banner: "wine of this machine", Windows: spec.Win7}, Answer: 8 * time.Second,
	}
	r, err := Run(t.Context(), o)
	var failed *FailedChecks
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if r.Checks[0].Verdict != Passed || r.Checks[1].Verdict != Failed ||
		!strings.Contains(r.Checks[1].Detail, "took too long") {
		t.Errorf("got %+v", r.Checks)
	}
	if r.Place != "wine" || r.Checks[0].Place != "wine" || !strings.Contains(r.Wine, "6.1.7601: this is no Windows") ||
		!strings.Contains(r.Markdown(), r.Wine) {
		t.Errorf("place %q, wine %q", r.Place, r.Wine)
	}
	if _, err := os.Stat(filepath.Join(o.Work, "wine")); !os.IsNotExist(err) {
		t.Errorf("wine's folder: %v", err)
	}
	if pids := left(t, o.Work); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}

// first tells that something was written.
type first chan bool

func (f first) Write(p []byte) (int, error) {
	select {
	case f <- true:
	default:
	}
	return len(p), nil
}

// Ctrl+C reaches a program through wine, and wine's own processes are known.
func TestWineStops(t *testing.T) {
	program, bin := realWine(t)
	o := Options{
		Bin: bin, Work: t.TempDir(), Checks: []spec.Check{check("version")}, Env: []string{"FAKE=wait"},
		Wine: &Wine{Program: program, Banner: "wine", Windows: spec.Win7}, Answer: time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}
	s, err := newSession(o, &Report{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.startWine(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.stopWine(t.Context())
	path, err := s.program("llama-server")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(first, 1)
	log := filepath.Join(o.Work, "p.log")
	p, err := run.Start(t.Context(), run.Cmd{
		Argv: s.argv(path), Env: s.env(), Dir: o.Work, Stdout: ready,
		Stderr: new(strings.Builder), Log: log, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	if pids := s.winePids(); len(pids) < 3 { // cmd, the server, a service
		t.Errorf("wine's processes: %v", pids)
	}
	if err := p.Signal(s.politely()); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("after Ctrl+C: %v", err)
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "ctrl 0") {
		t.Errorf("the program was not told: %s, %v", text, err)
	}
}

// A wine that does not start, and one that is another Windows, are no verdict on the
// programs.
func TestWineCouldNotRun(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	script := "#!/bin/sh\ncase $* in\n*ver*) echo Microsoft Windows 10.0.19043;;\ncmd) echo hello; read x;;\nesac\n"
	if err := os.WriteFile(other, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		"/bin/false": "it does not start",
		"/no/wine":   "no such program",
		other:        "is to be win7 (6.1.7601), and says: Microsoft Windows 10.0.19043",
	} {
		o := Options{
			Bin: dir, Work: t.TempDir(), Checks: []spec.Check{check("version")},
			Wine: &Wine{Program: program, Windows: spec.Win7},
		}
		r, err := Run(t.Context(), o)
		var not *NotRun
		if !errors.As(err, &not) || !strings.Contains(err.Error(), want) || r.Checks[0].Verdict != Errored ||
			r.Checks[0].Place != "wine" {
			t.Errorf("%s: got %v", program, err)
		}
		if pids := left(t, o.Work); len(pids) > 0 {
			t.Errorf("%s: processes are left: %v", program, pids)
		}
	}
}

func TestWinePaths(t *testing.T) {
	log := strings.Join([]string{
		`00f4:trace:loaddll:build_module Loaded L"C:\\windows\\system32\\ntdll.dll" at 0000000170000000: builtin`,
		`00f4:trace:loaddll:build_module Loaded L"Z:\\b in\\ggml-cpu-haswell.dll" at 00000001E0A80000: native`,
		`00f4:trace:loaddll:free_modref Unloaded module L"Z:\\b in\\ggml-cpu-haswell.dll" : native`,
		`00f4:trace:loaddll:build_module Loaded L"Z:\\b in\\ggml-cpu-sse42.dll" at 00000001E0A80000: native`,
	}, "\n")
	if got := lastLoaded(log, "ggml-cpu"); got != "/b in/ggml-cpu-sse42.dll" {
		t.Errorf("got %q", got)
	}
	if got := lastLoaded(log, "ggml-cuda"); got != "" {
		t.Errorf("got %q", got)
	}
	if got := sim.UnixPath(`C:\x`); got != `C:\x` {
		t.Errorf("got %q, want it as it is (%s)", got, strconv.Quote(got))
	}
}
