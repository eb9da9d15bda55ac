package smoke

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/spec"
)

// allocates 3 MiB of the device's memory, and frees what it never had.
const cudaProgram = `
#include <windows.h>
#include <stdio.h>
int main(void) {
	HMODULE h = LoadLibraryA("cudart64_110.dll");
	if (!h) { printf("error %lu\n", GetLastError()); return 1; }
	void * p = NULL;
	int made = ((int (*)(void **, size_t)) GetProcAddress(h, "cudaMalloc"))(&p, 3 << 20);
	int freed = ((int (*)(void *)) GetProcAddress(h, "cudaFree"))((char *) p + 256);
	printf("%d %d\n", made, freed);
	return 0;
}
`

// A check's simulated device is found through wine, and its accounts are read here, in a
// folder with any letters.
func TestWineDevice(t *testing.T) {
	headers := os.Getenv("CUDA_HEADERS")
	if headers == "" {
		t.Skip("CUDA_HEADERS names no folder of CUDA headers (scripts/cuda-headers makes one): the simulated device was " +
			"not tried through wine")
	}
	wine, bin := realWine(t)
	libs, err := sim.BuildRuntime(t.Context(), sim.Options{Out: t.TempDir(), Headers: headers, Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(bin, "cuda.c")
	if err := os.WriteFile(src, []byte(cudaProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "x86_64-w64-mingw32-gcc-posix", "-static", "-o",
		filepath.Join(bin, "cuda.exe"), src).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := Options{
		Bin: bin, Work: filepath.Join(t.TempDir(), "a wörk"), Checks: []spec.Check{{Name: "prefill-vram", Device: spec.Sim}},
		SimEnv: []string{"WINEPATH=" + sim.WinePath(libs)}, Wine: &Wine{Program: wine, Banner: "wine", Windows: spec.Win7},
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
	s.current = o.Checks[0]
	dev, err := s.opened(sim.Device{VRAMMiB: 250})
	if err != nil {
		t.Fatal(err)
	}
	path, err := s.program("cuda")
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Output(t.Context(), run.Cmd{Argv: s.argv(path), Env: s.env(), Dir: s.o.Work, Timeout: time.Minute})
	if err != nil || strings.TrimSpace(string(out)) != "0 1" {
		t.Fatalf("%q, %v", out, err)
	}
	st, err := sim.ReadState(dev.state)
	if err != nil || st.VRAMTotal != 250<<20 || st.VRAMUsed != 3<<20 || st.Faults != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if kind, got := dev.first("fault"); kind != "free" || got != "free of 3145728 bytes (allocation 1) cudaFree" {
		t.Errorf("first fault: %s: %s", kind, got)
	}
}
