//go:build real

package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/wine"
)

const (
	promptTokens = 20000
	smallCardMiB = 250
)

// TestWindowsDevice reads a long prompt with a q8_0 cache through wine as Windows 7,
// on the simulated device's DLLs: b8390 takes ever more of its memory and dies on a small
// card; with ubatch-pool-purge, its default compiled in, it does neither.
func TestWindowsDevice(t *testing.T) {
	if os.Getenv("CUDA_HEADERS") == "" {
		t.Skip("NOT RUN: the simulated device on Windows, for want of CUDA_HEADERS (scripts/cuda-headers makes that folder)")
	}
	dir := t.TempDir()
	began := time.Now()
	patched, stock := bothTrees(t, dir, filepath.Join(dir, "cache"))
	t.Logf("trees: %v", time.Since(began).Round(time.Second))
	began = time.Now()
	bin := prefillExe(t, stock, filepath.Join(dir, "build"))
	t.Logf("libllama and ggml for Windows: %v", time.Since(began).Round(time.Second))
	model := filepath.Join(dir, "model.gguf")
	if _, err := gguf.WriteFile(t.Context(), model, gguf.Model{
		Layers: 2, Embd: 512, Heads: 4, KVHeads: 4, FF: 512,
		Context: 131072, Type: gguf.Q8_0, Seed: 1,
	}, nil); err != nil {
		t.Fatal(err)
	}
	program, found := wine.Find()
	if !found {
		t.Fatal("no wine (sh scripts/setup win7)")
	}
	w, err := wine.Start(t.Context(), wine.Options{
		Program: program, Version: spec.Win7, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	runs := prefill{argv: wine.Argv(program, filepath.Join(bin, "prefill.exe"), sim.WinePath(model),
		fmt.Sprint(promptTokens)), dir: dir, env: w.Environ()}
	for name, c := range map[string]struct {
		src     string
		defines []string
		grows   bool
	}{
		"stock":   {stock, nil, true},
		"patched": {patched, []string{"GGML_CUDA_POOL_TRIM_DEFAULT=1"}, false},
	} {
		began := time.Now()
		lib, err := sim.Build(t.Context(), sim.Options{
			Src: c.src, Out: filepath.Join(dir, "sim-"+name), Headers: os.Getenv("CUDA_HEADERS"), NoVMM: true, Windows: true,
			Defines: c.defines,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: ggml-cuda.dll of %d objects, host code: %v", name, lib.Objects, time.Since(began).Round(time.Second))
		began = time.Now()
		before, after, err := runs.on(t, lib, sim.Device{})
		grown := float64(after.VRAMPeak-before.VRAMUsed) / (1 << 20)
		t.Logf("%s: %.1f MiB at the start, %.1f MiB more at most, %d allocations, %d frees, %d launches, %d graph "+
			"launches: %v, %v", name,
			float64(before.VRAMUsed)/(1<<20), grown, after.Allocs-before.Allocs, after.Frees-before.Frees, after.Launches,
			after.GraphLaunches, err, time.Since(began).Round(time.Second))
		if err != nil || after.Launches == 0 || after.Faults > 0 || c.grows != (grown >= 257) {
			t.Errorf("%s: %.1f MiB, %+v, %v", name, grown, after, err)
		}
		before, after, err = runs.on(t, lib, sim.Device{VRAMMiB: smallCardMiB})
		t.Logf("%s on %d MiB: %.1f MiB at most, %d allocations failed: %v", name, smallCardMiB,
			float64(after.VRAMPeak)/(1<<20), after.Failed, err)
		if before.VRAMUsed == 0 || c.grows != (err != nil) || c.grows && after.Failed == 0 {
			t.Errorf("%s on %d MiB: %+v, %v", name, smallCardMiB, after, err)
		}
	}
}

// bothTrees writes b8390 with the fixes and without.
func bothTrees(t *testing.T, dir, cache string) (patched, stock string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	patched, stock = filepath.Join(dir, "patched"), filepath.Join(dir, "stock")
	c := exec.CommandContext(t.Context(), self, "-C", root, "apply", "b8390", "linux-cpu", "-o", patched, "--locked",
		"--json")
	c.Env = append(os.Environ(), "LLPATCH_CACHE="+cache)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("llpatch apply: %v", err)
	}
	var applied struct {
		Series struct {
			In []struct{ Fix, Patch string }
		}
	}
	if err := json.Unmarshal(out, &applied); err != nil || len(applied.Series.In) == 0 {
		t.Fatalf("llpatch apply: %v: %s", err, out)
	}
	sh(t, dir, "cp -r patched stock")
	for _, in := range slices.Backward(applied.Series.In) {
		sh(t, stock, fmt.Sprintf("GIT_CEILING_DIRECTORIES=%s git apply -R %s", dir, filepath.Join(root, in.Patch)))
	}
	return patched, stock
}

// prefillExe compiles libllama, ggml and the program that reads a prompt, and returns the
// folder of all. Of the code nothing is fast, and little runs: the layers are on the device.
func prefillExe(t *testing.T, src, out string) string {
	t.Helper()
	const flags = "-D_WIN32_WINNT=0x0601 -w"
	argv := []string{
		"cmake", "-S", src, "-B", out, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Windows", "-DCMAKE_SYSTEM_PROCESSOR=x86_64",
		"-DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix", "-DCMAKE_CXX_COMPILER=x86_64-w64-mingw32-g++-posix",
		"-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1 " + flags, "-DCMAKE_CXX_FLAGS=-O0 " + flags,
		"-DCMAKE_SHARED_LINKER_FLAGS=-static -Wl,--exclude-libs,ALL",
		"-DCMAKE_MODULE_LINKER_FLAGS=-static -Wl,--exclude-libs,ALL",
		"-DBUILD_SHARED_LIBS=ON", "-DGGML_BACKEND_DL=ON", "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF", "-DGGML_CCACHE=OFF",
		"-DLLAMA_OPENSSL=OFF",
		"-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TOOLS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_TESTS=OFF",
		"-DLLAMA_BUILD_SERVER=OFF",
	}
	run := func(argv ...string) {
		t.Helper()
		if text, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", argv[0], err, text)
		}
	}
	run(argv...)
	run("cmake", "--build", out, "--target", "llama", "ggml-cpu")
	bin := filepath.Join(out, "bin")
	run("x86_64-w64-mingw32-gcc-posix", "-O1", "-static", "-I"+filepath.Join(src, "include"), "-I"+
		filepath.Join(src, "ggml", "include"),
		"testdata/prefill/prefill.c", "-o", filepath.Join(bin, "prefill.exe"), filepath.Join(bin, "libllama.dll"),
		filepath.Join(bin, "ggml.dll"), filepath.Join(bin, "ggml-base.dll"))
	return bin
}

// prefill is the program that reads the prompt.
type prefill struct {
	argv []string
	dir  string
	env  []string
}

// on reads the prompt on a device. before is the device when the model is loaded,
// read while the program runs.
func (p prefill) on(t *testing.T, lib *sim.Library, d sim.Device) (before, after sim.State, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	state := filepath.Join(t.TempDir(), "state")
	c := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	c.Dir = p.dir
	c.WaitDelay = 10 * time.Second
	c.Env = slices.Concat(p.env, lib.Env(), d.Env("", sim.WinePath(state)))
	var errs strings.Builder
	c.Stderr = &errs
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && strings.TrimSpace(lines.Text()) != "ready" {
	}
	before, stateErr := sim.ReadState(state)
	if stateErr != nil {
		in.Close()
		_ = c.Wait()
		t.Fatalf("%v\n%s", stateErr, errs.String())
	}
	fmt.Fprintln(in)
	for lines.Scan() {
	}
	err = c.Wait()
	if after, stateErr = sim.ReadState(state); stateErr != nil {
		t.Fatal(stateErr)
	}
	if err != nil {
		text := errs.String()
		err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-300):])
	}
	return before, after, err
}
