package sim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hipHeadersDir returns the folder of AMD's headers.
func hipHeadersDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HIP_HEADERS")
	if dir == "" {
		t.Skip("HIP_HEADERS names no folder of HIP headers (scripts/hip-headers makes one): the simulated HIP device " +
			"was not tried")
	}
	return dir
}

// A small ggml-hip, whose functions main calls one after the other.
var smallHIP = map[string]string{
	"ggml/CMakeLists.txt": `option(GGML_HIP_NO_VMM "x" ON)
option(GGML_HIP_GRAPHS "x" OFF)
`,
	"ggml/src/ggml-hip/CMakeLists.txt": `cmake_minimum_required(VERSION 3.18)
find_package(hip REQUIRED)
if (${hip_VERSION} VERSION_LESS 6.1)
    message(FATAL_ERROR "too old")
endif()
file(GLOB SOURCES "../ggml-cuda/*.cu")
ggml_add_backend_library(ggml-hip ${SOURCES} ../ggml-cuda/more/listed.cu)
if (NOT GGML_BACKEND_DL)
    target_compile_definitions(ggml PUBLIC GGML_USE_CUDA)
endif()
if (GGML_HIP_GRAPHS)
    add_compile_definitions(GRAPHS)
endif()
if (GGML_HIP_NO_VMM)
    add_compile_definitions(NO_VMM)
endif()
target_link_libraries(ggml-hip PRIVATE hip::host)
`,
	"ggml/src/ggml-cuda/common.cuh": "#pragma once\n#include <hip/hip_runtime.h>\n#include " +
		"<hipblas/hipblas.h>\n#include <stdio.h>\n",
	"ggml/src/ggml-cuda/one.cu": `#include "common.cuh"
#if !defined(GRAPHS) || !defined(NO_VMM)
#error definitions
#endif
struct view { int n; float *p; };
static __global__ void k(view v) { v.p[0] = v.n; }
extern "C" void device() {
    hipDeviceProp_t p;
    int vmm = -1, managed = -1;
    size_t free, total;
    printf("%d", hipGetDeviceProperties(&p, 0));
    printf(" %d %d", hipDeviceGetAttribute(&vmm, hipDeviceAttributeVirtualMemoryManagementSupported, 0), vmm);
    printf(" %d %d", hipDeviceGetAttribute(&managed, hipDeviceAttributeManagedMemory, 0), managed);
    printf(" %d", hipMemGetInfo(&free, &total));
    printf(" %s %d.%d %zu %zu %d %zu\n", p.gcnArchName, p.major, p.minor, p.totalGlobalMem >> 20, total >> 20, p.multiProcessorCount, p.sharedMemPerBlock);
}
extern "C" void spill() {
    void *a = nullptr, *b = nullptr, *c = nullptr;
    hipPointerAttribute_t is;
    printf("%d", hipMalloc(&a, (size_t) 15 << 30));
    printf(" %d", hipMalloc(&b, (size_t) 2 << 30));
    printf(" %s", hipGetErrorString(hipGetLastError()));
    printf(" %d", hipMallocManaged(&c, (size_t) 20 << 30, hipMemAttachGlobal));
    printf(" %d", hipMemAdvise(c, (size_t) 20 << 30, hipMemAdviseSetCoarseGrain, 0));
    printf(" %d", hipMemset(c, 0, (size_t) 20 << 30)); // as a cache is cleared: it costs the host nothing
    printf(" %d", ((char *) c)[(size_t) 19 << 30]);
    printf(" %d %d", hipPointerGetAttributes(&is, c), is.isManaged);
    printf(" %d %d", hipPointerGetAttributes(&is, a), is.isManaged);
    printf(" %d %d\n", hipFree(a), hipFree(c));
}
extern "C" void rules() { // docs/sim.md has the source of each
    hipStream_t s;
    hipGraph_t g;
    void *a = nullptr, *b = nullptr, *c = nullptr;
    int n = 0;
    printf("%d", hipMallocManaged(&a, 0, hipMemAttachGlobal));
    hipStreamCreateWithFlags(&s, hipStreamNonBlocking);
    hipMalloc(&a, 4096);
    hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed);
    printf(" %d %d %d", hipMalloc(&b, 4096), hipMallocManaged(&c, 4096, hipMemAttachGlobal), hipFree(c)); // allowed
    printf(" %d", hipStreamEndCapture(s, &g));
    hipStreamBeginCapture(s, hipStreamCaptureModeThreadLocal);
    printf(" %d %d", hipFree(b), hipStreamEndCapture(s, &g)); // not
    hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed);
    printf(" %d %d", hipMemcpy(&n, a, 4, hipMemcpyDeviceToHost), hipStreamEndCapture(s, &g));
    hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed);
    printf(" %d %d", hipMemset(a, 0, 4), hipStreamEndCapture(s, &g));
    hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed);
    printf(" %d %d", hipDeviceSynchronize(), hipStreamEndCapture(s, &g));
    printf(" %d %d %d\n", hipMemcpy(&n, a, 4, hipMemcpyDeviceToHost), hipFree(a), hipFree(b));
}
extern "C" void more() { // managed memory takes none of the card's
    void *a = nullptr, *b = nullptr;
    printf("%d", hipMallocManaged(&a, (size_t) 90 << 20, hipMemAttachGlobal));
    printf(" %d\n", hipMallocManaged(&b, (size_t) 20 << 20, hipMemAttachGlobal));
}
extern "C" void graph() {
    hipStream_t s;
    hipGraph_t g;
    hipGraphExec_t x;
    view v = {1, nullptr};
    hipStreamCreateWithFlags(&s, hipStreamNonBlocking);
    printf("%d", hipMalloc(&v.p, 4096));
    printf(" %d", hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    k<<<1, 1, 0, s>>>(v); // the pointer is inside a structure
    printf(" %d", hipStreamEndCapture(s, &g));
    printf(" %d", hipGraphInstantiate(&x, g, nullptr, nullptr, 0));
    printf(" %d", hipGraphLaunch(x, s));
    printf(" %d", hipFree(v.p));
    printf(" %d", hipGraphLaunch(x, s)); // over freed memory
    printf(" %d %d %d\n", hipGraphExecDestroy(x), hipGraphDestroy(g), hipStreamDestroy(s));
}
extern "C" void late() {
    hipStream_t s;
    hipGraph_t g;
    hipGraphExec_t x, y;
    view v = {1, nullptr};
    hipStreamCreateWithFlags(&s, hipStreamNonBlocking);
    hipMalloc(&v.p, 4096);
    hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed);
    k<<<1, 1, 0, s>>>(v);
    hipStreamEndCapture(s, &g);
    hipGraphInstantiate(&x, g, nullptr, nullptr, 0);
    hipGraphInstantiate(&y, g, nullptr, nullptr, 0);
    hipGraphLaunch(x, s);
    hipStreamSynchronize(s);
    printf("%d", hipGraphExecDestroy(x));
    hipGraphLaunch(y, s);
    printf(" %d", hipGraphExecDestroy(y)); // under way
    printf(" %d\n", hipFree(v.p)); // and so is what it uses
}
`,
	"ggml/src/ggml-cuda/two.cu": `#include "common.cuh"
extern "C" void blas() {
    hipblasHandle_t h;
    float one = 1, *m = nullptr;
    printf("%d", hipblasCreate(&h));
    printf(" %d", hipMalloc(&m, 3 * 64 * 64 * 4));
    printf(" %d", hipblasSgemm(h, HIPBLAS_OP_T, HIPBLAS_OP_N, 64, 64, 64, &one, m, 64, m + 64 * 64, 64, &one, m + 2 * 64 * 64, 64));
    printf(" %d", hipblasGemmEx(h, HIPBLAS_OP_N, HIPBLAS_OP_N, 64, 64, 64, &one, m, HIPBLAS_R_16F, 64, m, HIPBLAS_R_16F, 64, &one, m, HIPBLAS_R_32F, 64, HIPBLAS_R_32F, HIPBLAS_GEMM_DEFAULT));
    printf(" %d", hipblasSgemm(h, HIPBLAS_OP_N, HIPBLAS_OP_N, 64, 64, 64, &one, m, 64, m, 64, &one, m + 2 * 64 * 64, 65)); // beyond its end
    printf(" %d\n", hipblasDestroy(h));
}
extern "C" void lacking() { printf("%d\n", hipProfilerStart()); }
`,
	"ggml/src/ggml-cuda/more/listed.cu": "#include \"../common.cuh\"\n",
	"ggml/src/ggml-cuda/more/unused.cu": "#error it is not on the list\n",
}

func TestBuildHIP(t *testing.T) {
	o := Options{
		Src: tree(t, smallHIP), Out: filepath.Join(t.TempDir(), "out"), Headers: headers(t),
		HIP: hipHeadersDir(t), NoVMM: true,
	}
	lib, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if lib.Objects != 3 || filepath.Base(lib.Backend) != "libggml-hip.so" ||
		!slices.Equal(lib.Refused, []string{"hipProfilerStart"}) {
		t.Errorf("%+v", lib)
	}
	for _, name := range []string{"libamdhip64.so.6", "libhipblas.so.2", "librocblas.so.4"} {
		if _, err := os.Stat(filepath.Join(lib.Dir, name)); err != nil {
			t.Error(err)
		}
	}
	if again, err := Build(t.Context(), o); err != nil || again.Compiled != 0 {
		t.Errorf("nothing changed, and %+v was compiled: %v", again, err)
	}
	main := source(t, `#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **names) {
    void *h = dlopen(getenv("GGML_BACKEND_PATH"), RTLD_NOW | RTLD_LOCAL);
    if (!h) { puts(dlerror()); return 1; }
    for (int i = 1; i < n; i++) ((void (*)(void))dlsym(h, names[i]))();
    return 0;
}
`)
	prog := filepath.Join(t.TempDir(), "main")
	if out, err := exec.CommandContext(t.Context(), "cc", "-o", prog, main, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	state := filepath.Join(t.TempDir(), "state")
	run := func(d Device, names ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), prog, names...)
		cmd.Env = slices.Concat(lib.Env(), d.Env("", state))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", names, err)
		}
		return string(out)
	}
	// The card is gfx1201 with 16 GiB and no mapped memory; what does not fit may spill.
	want := "0 0 0 0 1 0 gfx1201 12.0 16384 16384 32 65536\n" +
		"0 2 out of memory 0 0 0 0 0 1 0 0 0 0\n" +
		"0 0 0 0 0 0 0 0 0 0\n" +
		"0 0 0 0 0 0\n801\n"
	if d := cmp.Diff(want, run(Device{}, "device", "spill", "graph", "blas", "lacking")); d != "" {
		t.Error(d)
	}
	st, err := ReadState(state)
	if err != nil {
		t.Fatal(err)
	}
	// One launch over freed memory, one operand beyond its allocation.
	if st.StaleReplays != 1 || st.Faults != 2 || st.Refusals != 1 || st.Failed != 1 || st.GraphLaunches != 2 {
		t.Errorf("%+v", st)
	}
	// Freeing is allowed in a relaxed capture, and in no other; what waits for the device breaks each.
	if got := run(Device{}, "rules"); got != "1 0 0 0 0 900 901 906 901 906 901 900 901 0 0 0\n" {
		t.Errorf("the rules: %s", got)
	}
	if got := run(Device{VRAMMiB: 1000, ManagedMiB: 100}, "more"); got != "0 2\n" {
		t.Errorf("a host of 100 MiB: %s", got)
	}
	// A graph and its memory are let go under its launch.
	for _, d := range []Device{{}, {Late: true}} {
		out := run(d, "late")
		if st, err = ReadState(state); err != nil || out != "0 0 0\n" || d.Late != (st.Faults == 2) ||
			d.Late == (st.Faults == 0) {
			t.Errorf("late: %t: %q, %+v, %v", d.Late, out, st, err)
		}
	}
	if got := run(Device{GFX: "gfx90a", VRAMMiB: 1000, SMs: 104},
		"device"); got != "0 0 0 0 1 0 gfx90a 9.0 1000 1000 104 65536\n" {
		t.Errorf("another card: %s", got)
	}
	cmd := exec.CommandContext(t.Context(), prog, "device")
	cmd.Env = append(lib.Env(), "LLPATCH_SIM_GFX=sm_86")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out),
		"LLPATCH_SIM_GFX=sm_86 is not a card such as gfx1201") {
		t.Errorf("%v %s", err, out)
	}
}

func TestMissingHIPHeaders(t *testing.T) {
	var missing *MissingTool
	_, err := BuildRuntime(t.Context(), Options{Out: t.TempDir(), Headers: headers(t), HIP: t.TempDir()})
	if !errors.As(err, &missing) || !strings.Contains(missing.Fix, "scripts/hip-headers") {
		t.Errorf("%v", err)
	}
}
