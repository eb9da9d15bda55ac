package sim

import (
	"bufio"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEnv(t *testing.T) {
	if env := (Device{}).Env("", ""); len(env) != 0 {
		t.Error(env)
	}
	d := Device{
		VRAMMiB: 1, CC: "9.0", SMs: 2, VMM: true, CUDA: "12.4", DelayFrees: 3, FailAlloc: 4, Managed: "limited",
		ManagedMiB: 5,
		Store:      true, Count: 6, Reuse: true, Late: true, Occupancy: 7, OnFault: "error",
	}
	env := d.Env("t", "s")
	if len(env) != 17 {
		t.Errorf("%d variables for 15 fields and 2 files: %v", len(env), env)
	}
	// The device takes every one of them.
	out, err := start(t, append(d.Env("", ""), "LLPATCH_SIM_VRAM=200"))
	if err != nil || !strings.Contains(out, "200 MiB, 90, 2 multiprocessors, runtime 12040") {
		t.Errorf("%v\n%s", err, out)
	}
}

const props = `#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void) {
    struct cudaDeviceProp p;
    int v = 0;
    cudaError_t e = cudaGetDeviceProperties(&p, 0);
    if (e) { printf("%s\n", cudaGetErrorName(e)); return 1; }
    cudaRuntimeGetVersion(&v);
    printf("%zu MiB, %d, %d multiprocessors, runtime %d\n", p.totalGlobalMem >> 20, p.major * 10 + p.minor, p.multiProcessorCount, v);
    getchar();
    return 0;
}
`

func start(t *testing.T, env []string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), compile(t, source(t, props)))
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A setting that cannot be meant leaves no device.
func TestBadSettings(t *testing.T) {
	file := compile(t, source(t, props))
	for _, setting := range []string{
		"VRAM=much", "VRAM=0", "VRAM=-1", "CC=86", "CC=8.", "CUDA=11", "VMM=2", "MANAGED=some", "ON_FAULT=pray", "VRMA=100",
		"TRACE=/nowhere/trace", "STATE=/nowhere/state",
		"LATE=2", "LATE=-1", "LATE=+1", "LATE= 1", "LATE=1 ", "LATE=on", "LATE=0x1", "LATE=1\n",
		"LATE=99999999999999999999", "LATE=١", "late=1", "VRAM= -1",
	} {
		cmd := exec.CommandContext(t.Context(), file)
		cmd.Env = []string{"LLPATCH_SIM_" + setting}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "cudaErrorInitializationError") ||
			!strings.Contains(string(out), "llpatch-sim: ") {
			t.Errorf("%s: %v\n%s", setting, err, out)
		}
	}
}

// Two processes cannot write one trace or one state.
func TestOneWriter(t *testing.T) {
	file := compile(t, source(t, props))
	dir := t.TempDir()
	trace, state := filepath.Join(dir, "trace"), filepath.Join(dir, "state")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := exec.CommandContext(ctx, file)
	first.Env = Device{}.Env(trace, state)
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	first.Args = []string{file}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	// stdout is a pipe, so the line comes at the end; the state page is there before.
	for {
		if s, err := ReadState(state); err == nil && s.VRAMTotal == 12<<30 {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, env := range [][]string{Device{}.Env(trace, ""), Device{}.Env("", state)} {
		second := exec.CommandContext(ctx, file)
		second.Env = env
		if text, err := second.CombinedOutput(); err == nil || !strings.Contains(string(text), "another process") {
			t.Errorf("%v\n%s", err, text)
		}
	}
	in.Close()
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := first.Wait(); err != nil || !strings.Contains(line, "12288 MiB") {
		t.Errorf("%v %q", err, line)
	}
}

// A fault can cost the program its context, or its life.
func TestOnFault(t *testing.T) {
	file := compile(t, "testdata/programs/replay.c")
	for mode, want := range map[string]string{"error": "cudaErrorIllegalAddress", "abort": "freed: a fault each time"} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), file)
		cmd.Env = slices.Concat(Device{Store: true, OnFault: mode}.Env("", filepath.Join(dir, "state")), []string{"PATH="})
		out, err := cmd.Output()
		if mode == "error" && (err != nil || !strings.Contains(string(out), want)) {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
		if mode == "abort" && (err == nil || !strings.Contains(err.Error(), "aborted")) {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
		if s, err := ReadState(filepath.Join(dir, "state")); err != nil || s.Faults != 1 {
			t.Errorf("%s: %+v %v", mode, s, err)
		}
	}
}
