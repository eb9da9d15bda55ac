package sim

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/wine"
)

// theWine is one Windows 7 for all tests.
var theWine struct {
	once    sync.Once
	dir     string
	program string
	windows *wine.Windows
	absent  bool
	err     error
}

// wine7 starts wine once for all tests and returns what makes a command of its programs.
func wine7(t *testing.T) func(ctx context.Context, argv ...string) *exec.Cmd {
	t.Helper()
	w := &theWine
	w.once.Do(func() {
		var found bool
		w.program, found = wine.Find()
		if _, err := exec.LookPath(mingwNames[0]); err != nil || !found {
			w.absent = true
			return
		}
		if w.dir, w.err = os.MkdirTemp("", "llpatch-wine-"); w.err != nil {
			return
		}
		w.windows, w.err = wine.Start(context.Background(), wine.Options{
			Program: w.program, Version: spec.Win7, Dir: w.dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + w.dir},
		})
	})
	if w.absent {
		t.Skip("no wine64 or no MinGW-w64 (sh scripts/setup win7): the simulated device was not tried on Windows")
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	return func(ctx context.Context, argv ...string) *exec.Cmd {
		argv = wine.Argv(w.program, argv...)
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Env = w.windows.Environ()
		return c
	}
}

// stopWine ends what wine7 started.
func stopWine() error {
	if theWine.dir == "" {
		return nil
	}
	var err error
	if theWine.windows != nil {
		err = theWine.windows.Stop(context.Background())
	}
	return errors.Join(err, os.RemoveAll(theWine.dir))
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
		argv = append(cudaFlags(tl, headers(t)), "-include", filepath.Join(out, "src", "launch.h"), "-std=gnu++17",
			"-Wno-unknown-cuda-version")
	}
	dir := t.TempDir()
	object, exe := filepath.Join(dir, "program.o"), filepath.Join(dir, "program.exe")
	argv = append(argv, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-isystem", filepath.Join(headers(t), "include"),
		"-c", src, "-o", object)
	libs, err := filepath.Glob(filepath.Join(out, "import", "libc*.a"))
	if err != nil {
		t.Fatal(err)
	}
	nv, err := filepath.Glob(filepath.Join(out, "import", "libnv*.a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{argv, slices.Concat([]string{tl.link, "-static", "-o", exe, object}, libs, nv,
		[]string{"-pthread"})} {
		if text, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", src, err, text)
		}
	}
	return exe
}

// runExe is runProgram for Windows: the paths are Windows's own.
func runExe(t *testing.T, exe string, env []string) (stdout string, events []Event, s State) {
	t.Helper()
	command, dir := wine7(t), t.TempDir()
	trace, state := filepath.Join(dir, "träce"), filepath.Join(dir, "state")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := command(ctx, exe)
	cmd.Env = slices.Concat(cmd.Env, []string{"WINEPATH=" + WinePath(filepath.Join(dlls(t), "lib"))},
		Device{Store: true}.Env(WinePath(trace), WinePath(state)), env)
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
			if testing.Short() && !slices.Contains([]string{"alloc", "bounds", "launch", "threads"}, name) {
				t.Skip("-short: four programs through wine (make test-all)")
			}
			got, events, s := runExe(t, compileExe(t, src), programEnv(t, src))
			kept(t, "testdata/programs/"+name+".txt", got)
			kept(t, "testdata/programs/"+name+".faults", faults(events))
			if n := uint64(strings.Count(faults(events), "\n")); n != s.Faults || s.Refusals != 0 {
				t.Errorf("%d faults in the trace, %d in the state, %d calls refused", n, s.Faults, s.Refusals)
			}
		})
	}
}

// A small backend is loaded as ggml loads one, finds ggml's base library in the program's
// folder and the device's on the path, and its stacks have names.
func TestBuildWindows(t *testing.T) {
	command := wine7(t)
	files := maps.Clone(small)
	files["ggml/src/ggml-cuda/two.cu"] = `#include <cublas_v2.h>
extern "C" void ggml_abort(const char *);
extern "C" int ggml_backend_try(int *p) {
    if (!p) ggml_abort("nothing");
    void *q;
    cublasHandle_t h;
    cudaMalloc(&q, 1 << 20);
    if (cublasCreate(&h)) return 1;
    return cudaMemcpyToArray(nullptr, 0, 0, p, 4, cudaMemcpyHostToDevice);
}
`
	o := Options{
		Src: tree(t, files), Out: filepath.Join(t.TempDir(), "out"), Headers: headers(t), Windows: true,
		NoVMM: true, Defines: []string{"LIKED=1"},
	}
	lib, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if lib.Objects != 4 || lib.Compiled < 4 || !slices.Equal(lib.Refused, []string{"cudaMemcpyToArray"}) ||
		filepath.Base(lib.Backend) != "ggml-cuda.dll" {
		t.Errorf("%+v", lib)
	}
	if again, err := Build(t.Context(), o); err != nil || again.Compiled != 0 {
		t.Errorf("nothing changed, and %d were compiled: %v", again.Compiled, err)
	}
	bin := filepath.Join(t.TempDir(), "bin")
	mingw := func(text string, args ...string) {
		t.Helper()
		args = append([]string{"-x", "c", source(t, text), "-x", "none"}, args...)
		if out, err := exec.CommandContext(t.Context(), mingwNames[0], args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	mingw("#include <stdlib.h>\nvoid ggml_abort(const char *w) { (void) w; exit(9); }\n", "-shared", "-o",
		filepath.Join(bin, ggmlBase))
	mingw(`#include <stdio.h>
#include <stdlib.h>
#include <windows.h>
int main(void) {
    int x = 0;
    LoadLibraryA("ggml-base.dll");
    HMODULE h = LoadLibraryA(getenv("GGML_BACKEND_PATH"));
    if (!h) { printf("error %lu\n", GetLastError()); return 1; }
    printf("%d\n", ((int (*)(int *))GetProcAddress(h, "ggml_backend_try"))(&x));
    return 0;
}
`, "-o", filepath.Join(bin, "main.exe"))
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := command(t.Context(), filepath.Join(bin, "main.exe"))
	cmd.Env = slices.Concat(cmd.Env, lib.Env(), Device{}.Env(WinePath(trace), ""))
	out, err := cmd.CombinedOutput()
	want := "llpatch-sim: cudaMemcpyToArray is not simulated\n801\n"
	if d := cmp.Diff(want, strings.ReplaceAll(string(out), "\r", "")); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	events, err := readTrace(trace)
	if err != nil {
		t.Fatal(err)
	}
	var names Symbols
	i := slices.IndexFunc(events, func(e Event) bool { return e.Name == "alloc" })
	if i < 0 || !strings.HasPrefix(stack(&names, events[i].Stack), "ggml_backend_try < main") {
		t.Errorf("allocated by %q of %d events", stack(&names, events[max(i, 0)].Stack), len(events))
	}
}

// What a ggml-cuda.dll that was linked against NVIDIA's own libraries wants is all there.
func TestExports(t *testing.T) {
	lib := filepath.Join(dlls(t), "lib")
	list, err := os.ReadFile("testdata/ggml-cuda.imports")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]map[string]bool{}
	for line := range strings.Lines(string(list)) {
		dll, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if has[dll] == nil {
			has[dll] = exported(t, filepath.Join(lib, dll))
		}
		if !has[dll][name] {
			t.Errorf("%s has no %s", dll, name)
		}
	}
	if len(has) != 3 {
		t.Errorf("%d libraries", len(has))
	}
	t.Logf("exported: %d of cudart64_110.dll, %d of cublas64_11.dll, %d of nvcuda.dll", len(has["cudart64_110.dll"]),
		len(has["cublas64_11.dll"]), len(has["nvcuda.dll"]))
}

// exported reads a DLL's exports through objdump, which is no part of this project.
func exported(t *testing.T, dll string) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "x86_64-w64-mingw32-objdump", "-p", dll).Output()
	if err != nil {
		t.Fatalf("%s: %v", dll, err)
	}
	_, table, _ := strings.Cut(string(out), "[Ordinal/Name Pointer] Table")
	names := map[string]bool{}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "[" {
			names[f[len(f)-1]] = true
		}
	}
	return names
}

// The state is read here while the program runs there; a second program cannot write it,
// nor can one start under settings that cannot be meant.
func TestOneWriterWindows(t *testing.T) {
	command := wine7(t)
	exe, state := compileExe(t, source(t, props)), filepath.Join(t.TempDir(), "state")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := func(env []string) *exec.Cmd {
		c := command(ctx, exe)
		c.Env = slices.Concat(c.Env, []string{"WINEPATH=" + WinePath(filepath.Join(dlls(t), "lib"))}, env)
		return c
	}
	first := start(Device{VRAMMiB: 250, CUDA: "11.4"}.Env("", WinePath(state)))
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	first.Stdout = &said
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if s, err := ReadState(state); err == nil && s.VRAMTotal == 250<<20 {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for setting, want := range map[string]string{
		"STATE=" + WinePath(state): "another process", "TRACE=Z:\\nowhere\\trace": "No such file",
		"VRAM=much": "is not a whole number", "VRMA=1": "is not a setting",
	} {
		if out, err := start([]string{"LLPATCH_SIM_" + setting}).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", setting, err, out)
		}
	}
	in.Close()
	if err := first.Wait(); err != nil || !strings.Contains(said.String(),
		"250 MiB, 86, 28 multiprocessors, runtime 11040") {
		t.Errorf("%v %q", err, said.String())
	}
}

// What is missing for Windows is told like the rest.
func TestLacksWindows(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	lacks := Lacks(t.Context(), Options{Windows: true})
	if len(lacks) != 4 || !strings.Contains(lacks[3].Error(), "apt-get install g++-mingw-w64-x86-64-posix") {
		t.Errorf("%v", lacks)
	}
	if lacks := Lacks(t.Context(), Options{}); len(lacks) != 3 {
		t.Errorf("%v", lacks)
	}
	if _, err := BuildRuntime(t.Context(), Options{
		Out: t.TempDir(), Headers: t.TempDir(), HIP: t.TempDir(),
		Windows: true,
	}); err == nil || !strings.Contains(err.Error(), "HIP's is made for Linux alone") {
		t.Errorf("%v", err)
	}
}
