package sim

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/golden"
)

// headers returns the folder of NVIDIA's headers.
func headers(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CUDA_HEADERS")
	if dir == "" {
		t.Skip("CUDA_HEADERS names no folder of CUDA headers (scripts/cuda-headers makes one): the simulated device " +
			"was not tried")
	}
	return dir
}

var theRuntime struct {
	once sync.Once
	out  string
	dir  string
	err  error
}

// runtimeDir builds the simulated device once for all tests.
func runtimeDir(t *testing.T) string {
	t.Helper()
	h := headers(t)
	theRuntime.once.Do(func() {
		if theRuntime.out, theRuntime.err = os.MkdirTemp("", "llpatch-sim-"); theRuntime.err != nil {
			return
		}
		theRuntime.dir, theRuntime.err = BuildRuntime(context.Background(), Options{Out: theRuntime.out, Headers: h})
	})
	if theRuntime.err != nil {
		t.Fatal(theRuntime.err)
	}
	return theRuntime.dir
}

// compile makes a program of one of testdata/programs.
func compile(t *testing.T, src string) string {
	t.Helper()
	dir := runtimeDir(t)
	tl, err := findTools(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{tl.clang, "-x", "c", "-std=gnu11"}
	if filepath.Ext(src) == ".cu" {
		argv = append(cudaFlags(tl, headers(t)), "-include", filepath.Join(dir, "..", "src", "launch.h"), "-std=gnu++17",
			"-Wno-unknown-cuda-version")
	}
	out := filepath.Join(t.TempDir(), "program")
	argv = append(argv, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-isystem", filepath.Join(headers(t), "include"), src,
		"-o", out, "-x", "none")
	libs, err := filepath.Glob(filepath.Join(dir, "*.so*"))
	if err != nil {
		t.Fatal(err)
	}
	argv = append(argv, libs...)
	argv = append(argv, "-pthread", "-Wl,-rpath,"+dir)
	if text, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", src, err, text)
	}
	return out
}

// runProgram runs a compiled program on a device and returns its output and trace.
func runProgram(t *testing.T, file string, env []string) (stdout string, events []Event, s State) {
	t.Helper()
	dir := t.TempDir()
	trace, state := filepath.Join(dir, "trace"), filepath.Join(dir, "state")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, file)
	cmd.Env = slices.Concat(Device{Store: true}.Env(trace, state), env)
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
	return string(out), events, s
}

func readTrace(file string) (events []Event, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for ev, err := range ReadTrace(f) {
		if err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	return events, nil
}

// programs are the sources in testdata/programs.
func programs(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, ext := range []string{"c", "cu"} {
		more, err := filepath.Glob("testdata/programs/*." + ext)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	if len(files) < 20 {
		t.Fatalf("%d programs", len(files))
	}
	return files
}

var envRE = regexp.MustCompile(`(?m)^// .*\benv: (.*)$`)

// programEnv reads the settings that a program asks for in its first lines.
func programEnv(t *testing.T, src string) []string {
	t.Helper()
	text, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	if m := envRE.FindSubmatch(text); m != nil {
		for w := range strings.FieldsSeq(string(m[1])) {
			env = append(env, "LLPATCH_SIM_"+w)
		}
	}
	return env
}

// Each program's output is the one that is kept beside it; for those that are
// not sim-only it is what a real card gave (docs/sim.md says which). What the
// simulation alone knows, its faults, is appended.
func TestPrograms(t *testing.T) {
	for _, src := range programs(t) {
		name := strings.TrimSuffix(filepath.Base(src), filepath.Ext(src))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, events, s := runProgram(t, compile(t, src), programEnv(t, src))
			kept(t, "testdata/programs/"+name+".txt", got)
			kept(t, "testdata/programs/"+name+".faults", faults(events))
			if n := uint64(strings.Count(faults(events), "\n")); n != s.Faults {
				t.Errorf("%d faults in the trace, %d in the state", n, s.Faults)
			}
			if s.Refusals != 0 {
				t.Errorf("%d calls were refused", s.Refusals)
			}
		})
	}
}

// faults lists the faults of a trace, without what differs from run to run.
func faults(events []Event) string {
	var b strings.Builder
	for _, ev := range events {
		if ev.Name != "fault" {
			continue
		}
		b.WriteString(ev.Kind)
		for _, key := range []string{"call", "exec", "alloc", "bytes", "offset", "freed"} {
			if v, ok := ev.Fields[key]; ok {
				b.WriteString(" " + key + "=" + v)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// kept compares with a kept file; one that would be empty is not kept.
func kept(t *testing.T, file, got string) {
	t.Helper()
	if got != "" {
		golden.Check(t, file, got)
		return
	}
	if golden.Update() {
		_ = os.Remove(file)
	}
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s: nothing came of it", file)
	}
}
