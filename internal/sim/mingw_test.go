package sim

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wine is a Windows 7 of this test's own: a folder, and one of wine's programs that
// stays, so that the others find its server running.
type wine struct {
	program string
	env     []string
}

var theWine struct {
	once   sync.Once
	dir    string
	wine   wine
	stays  *exec.Cmd
	input  io.Closer
	absent bool
	err    error
}

// wine7 starts wine once for all tests.
func wine7(t *testing.T) wine {
	t.Helper()
	w := &theWine
	w.once.Do(func() {
		for _, name := range []string{"wine64", "wine", "/usr/lib/wine/wine64"} {
			if p, err := exec.LookPath(name); err == nil {
				w.wine.program = p
				break
			}
		}
		if _, err := exec.LookPath(mingwNames[0]); err != nil || w.wine.program == "" {
			w.absent = true
			return
		}
		if w.dir, w.err = os.MkdirTemp("", "llpatch-wine-"); w.err != nil {
			return
		}
		w.wine.env = []string{
			"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + w.dir, "WINEPREFIX=" + filepath.Join(w.dir, "prefix"), "WINEARCH=win64", "WINEDEBUG=-all",
			"WINEDLLOVERRIDES=mscoree=;mshtml=;winemenubuilder.exe=",
		}
		w.stays = w.wine.command(context.Background(), "cmd")
		if w.input, w.err = w.stays.StdinPipe(); w.err != nil {
			return
		}
		if w.err = w.stays.Start(); w.err != nil {
			return
		}
		w.err = w.wine.command(context.Background(), "winecfg", "-v", "win7").Run()
	})
	if w.absent {
		t.Skip("no wine64 or no MinGW-w64 (sh scripts/setup win7): the simulated device was not tried on Windows")
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.wine
}

// stopWine ends what wine7 started.
func stopWine() {
	if theWine.input != nil {
		_ = theWine.input.Close()
		_ = theWine.stays.Wait()
	}
	if theWine.dir == "" {
		return
	}
	server := exec.Command("wineserver", "-w") // waits for its end
	if p, err := exec.LookPath("/usr/lib/wine/wineserver"); err == nil {
		server.Path, server.Err = p, nil
	}
	server.Env = theWine.wine.env
	_ = server.Run()
	_ = os.RemoveAll(theWine.dir)
}

func (w wine) command(ctx context.Context, argv ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, w.program, argv...)
	c.Env = w.env
	return c
}

var theDLLs struct {
	once sync.Once
	out  string
	err  error
}

// dlls builds the simulated device's DLLs once for all tests and returns the folder of the build.
func dlls(t *testing.T) string {
	t.Helper()
	h := headers(t)
	theDLLs.once.Do(func() {
		if theDLLs.out, theDLLs.err = os.MkdirTemp("", "llpatch-sim-dll-"); theDLLs.err != nil {
			return
		}
		_, theDLLs.err = BuildRuntime(context.Background(), Options{Out: theDLLs.out, Headers: h, Windows: true})
	})
	if theDLLs.err != nil {
		t.Fatal(theDLLs.err)
	}
	return theDLLs.out
}

// compileExe makes a program for Windows of one of testdata/programs.
func compileExe(t *testing.T, src string) string {
	t.Helper()
	out := dlls(t)
	tl, err := findTools(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := tl.forWindows(t.Context(), filepath.Join(out, "src", "mingw")); err != nil {
		t.Fatal(err)
	}
	argv := slices.Concat([]string{tl.clang}, tl.target, []string{"-x", "c", "-std=gnu11"})
	if filepath.Ext(src) == ".cu" {
		argv = append(cudaFlags(tl, headers(t), filepath.Join(out, "src")), "-std=gnu++17", "-Wno-unknown-cuda-version")
	}
	dir := t.TempDir()
	object, exe := filepath.Join(dir, "program.o"), filepath.Join(dir, "program.exe")
	argv = append(argv, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-isystem", filepath.Join(headers(t), "include"), "-c", src, "-o", object)
	libs, err := filepath.Glob(filepath.Join(out, "import", "libc*.a"))
	if err != nil {
		t.Fatal(err)
	}
	nv, err := filepath.Glob(filepath.Join(out, "import", "libnv*.a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{argv, slices.Concat([]string{tl.link, "-static", "-o", exe, object}, libs, nv, []string{"-pthread"})} {
		if text, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", src, err, text)
		}
	}
	return exe
}

// runExe is runProgram for Windows: the paths are Windows's own.
func runExe(t *testing.T, exe string, env []string) (stdout string, events []Event, s State) {
	t.Helper()
	w, dir := wine7(t), t.TempDir()
	trace, state := filepath.Join(dir, "träce"), filepath.Join(dir, "state")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := w.command(ctx, exe)
	cmd.Env = slices.Concat(cmd.Env, []string{"WINEPATH=" + WinePath(filepath.Join(dlls(t), "lib"))}, Device{Store: true}.Env(WinePath(trace), WinePath(state)), env)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs.Bytes())
	}
	if events, err = readTrace(trace); err != nil {
		t.Fatal(err)
	}
	if s, err = ReadState(state); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n"), events, s
}

// Each program does through wine what it does on Linux.
func TestProgramsWindows(t *testing.T) {
	for _, src := range programs(t) {
		name := strings.TrimSuffix(filepath.Base(src), filepath.Ext(src))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, events, s := runExe(t, compileExe(t, src), programEnv(t, src))
			kept(t, "testdata/programs/"+name+".txt", got)
			kept(t, "testdata/programs/"+name+".faults", faults(events))
			if n := uint64(strings.Count(faults(events), "\n")); n != s.Faults || s.Refusals != 0 {
				t.Errorf("%d faults in the trace, %d in the state, %d calls refused", n, s.Faults, s.Refusals)
			}
		})
	}
}
