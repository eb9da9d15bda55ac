package sim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// source writes a C file.
func source(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "source.c")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// tree writes a small tree with the build files of a ggml-cuda.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a tree") // with a blank in its name
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var small = map[string]string{
	"ggml/CMakeLists.txt": `option(GGML_CUDA_FA "x" ON)
set   (GGML_CUDA_LIMIT "128" CACHE STRING "x")
`,
	"ggml/src/ggml-cuda/CMakeLists.txt": `cmake_minimum_required(VERSION 3.18)
find_package(CUDAToolkit)
if (CUDAToolkit_FOUND)
    enable_language(CUDA)
    file(GLOB GGML_SOURCES_CUDA "*.cu")
    if (GGML_CUDA_FA)
        list(APPEND GGML_SOURCES_CUDA more/fa.cu ${CMAKE_CURRENT_SOURCE_DIR}/more/fb.cu)
    endif()
    ggml_add_backend_library(ggml-cuda ${GGML_SOURCES_CUDA})
    add_compile_definitions(LIMIT=${GGML_CUDA_LIMIT} TEXT="a,b c")
    if (GGML_CUDA_NO_VMM)
        add_compile_definitions(NO_VMM)
    endif()
    target_link_libraries(ggml-cuda PRIVATE CUDA::cudart)
endif()
`,
	"ggml/include/ggml.h":           "#pragma once\n#include <stdint.h>\nextern \"C\" int64_t ggml_time_us(void);\n",
	"ggml/src/ggml-cuda/common.cuh": "#pragma once\n#ifndef __CUDACC__\n#error this is not CUDA\n#endif\n",
	"ggml/src/ggml-cuda/one.cuh":    "#pragma once\n#define LENGTH 1\n",
	"ggml/src/ggml-cuda/one.cu": `#include "common.cuh"
#include "one.cuh"
static __global__ void k(int *p, int n) { p[0] = n; }
extern "C" int one(int *p) { k<<<LENGTH, LIMIT>>>(p, 1); return cudaGetLastError(); }
`,
	"ggml/src/ggml-cuda/two.cu": `extern "C" void ggml_abort();
extern "C" int two(int *p) { if (!p) ggml_abort(); return cudaMemcpyToArray(nullptr, 0, 0, p, 4, cudaMemcpyHostToDevice); }
extern "C" int look(int *) { const int64_t last = ggml_time_us(); return ggml_time_us() - last; }
`,
	"ggml/src/ggml-cuda/more/fa.cu":     "#ifndef NO_VMM\n#error NO_VMM\n#endif\n",
	"ggml/src/ggml-cuda/more/fb.cu":     "",
	"ggml/src/ggml-cuda/more/unused.cu": "#error it is not on the list\n",
}

func TestBuild(t *testing.T) {
	h := headers(t)
	src := tree(t, small)
	o := Options{Src: src, Out: filepath.Join(t.TempDir(), "out"), Headers: h, NoVMM: true}
	var last, total int64
	o.Progress = func(_ string, done, of int64) { last, total = done, of }
	build := func() *Library {
		t.Helper()
		lib, err := Build(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return lib
	}
	lib := build()
	if lib.Objects != 4 || lib.Compiled < 4 || !slices.Equal(lib.Refused, []string{"cudaMemcpyToArray"}) {
		t.Errorf("%+v", lib)
	}
	if last == 0 || last != total {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	if again := build(); again.Compiled != 0 {
		t.Errorf("nothing changed, and %d were compiled", again.Compiled)
	}
	time.Sleep(20 * time.Millisecond) // another time stamp
	if err := os.WriteFile(filepath.Join(src, "ggml/src/ggml-cuda/one.cuh"), []byte("#pragma once\n#define LENGTH 2\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if again := build(); again.Compiled != 1 {
		t.Errorf("a header that one file includes changed, and %d were compiled", again.Compiled)
	}

	// It is loaded as ggml loads a backend; the call that is not simulated says so.
	main := source(t, `#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
void ggml_abort(void) { abort(); }
int main(void) {
    int x = 0;
    void *h = dlopen(getenv("GGML_BACKEND_PATH"), RTLD_NOW | RTLD_LOCAL);
    if (!h) { puts(dlerror()); return 1; }
    printf("%d\n", ((int (*)(int *))dlsym(h, "one"))(&x));
    printf("%d\n", ((int (*)(int *))dlsym(h, "two"))(&x));
    printf("%d\n", ((int (*)(int *))dlsym(h, "look"))(&x)); // a microsecond a look
    return 0;
}
`)
	prog := filepath.Join(t.TempDir(), "main")
	if out, err := exec.CommandContext(t.Context(), "cc", "-rdynamic", "-o", prog, main,
		"-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), prog)
	cmd.Env = lib.Env()
	out, err := cmd.CombinedOutput()
	// standard output comes at the end, through a pipe
	want := "llpatch-sim: cudaMemcpyToArray is not simulated\n0\n801\n1\n"
	if d := cmp.Diff(want, string(out)); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// ik_llama.cpp compiles its backend into one library with the rest: the program's own library was
// compiled as if it were in there, and finds its functions in the one that is loaded before.
func TestBuildOneLibrary(t *testing.T) {
	h := headers(t)
	src := tree(t, map[string]string{
		"ggml/CMakeLists.txt": "option(GGML_CUDA_NO_VMM \"x\" OFF)\n",
		"ggml/src/CMakeLists.txt": `include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-fsycl SYCL)
if (GGML_CUDA)
    find_package(CUDAToolkit)
    enable_language(CUDA)
    file(GLOB GGML_SOURCES_CUDA "ggml-cuda/*.cu")
    list(APPEND GGML_SOURCES_CUDA "ggml-cuda.cu")
    add_compile_definitions(FIRST=1 $<$<CONFIG:Debug>:NOT_HERE>)
endif()
add_library(ggml ../include/ggml.h ggml.c ${GGML_SOURCES_CUDA})
target_compile_definitions(ggml PUBLIC GGML_USE_CUDA)
target_include_directories(ggml PUBLIC ../include)
target_link_directories(ggml PRIVATE /nowhere)
set_target_properties(ggml PROPERTIES POSITION_INDEPENDENT_CODE ON)
`,
		"ggml/src/ggml-cuda/common.cuh": "#pragma once\n",
		"ggml/src/ggml-cuda/graph.cuh":  "#pragma once\n",
		"ggml/src/ggml-cuda.cu": `#include "ggml-cuda/common.cuh"
extern "C" int ggml_own();
#ifdef USE_CUDA_GRAPH
extern "C" int ggml_backend_cuda_one() { void *p; return cudaMalloc(&p, 1) + ggml_own() + FIRST; }
#endif
`,
		"ggml/src/ggml-cuda/two.cu": "",
	})
	lib, err := Build(t.Context(), Options{Src: src, Out: t.TempDir(), Headers: h})
	if err != nil {
		t.Fatal(err)
	}
	if lib.Objects != 2 || len(lib.Refused) > 0 {
		t.Errorf("%+v", lib)
	}
	dir := t.TempDir()
	own := source(t, "int ggml_backend_cuda_one(void);\nint ggml_own(void) { return 40; }\nint ask(void) { return "+
		"ggml_backend_cuda_one() + 1; }\n")
	main := source(t, "int ask(void);\nint main(void) { return ask(); }\n")
	prog := filepath.Join(dir, "main")
	for _, argv := range [][]string{
		{"cc", "-shared", "-fPIC", "-o", filepath.Join(dir, "libggml.so"), own},
		{"cc", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o", prog, main, "-L" + dir, "-lggml", "-Wl,-rpath," + dir},
	} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.CommandContext(t.Context(), prog)
	cmd.Env = lib.Env()
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("%v", err)
	}
}

func TestBuildFails(t *testing.T) {
	h := headers(t)
	with := func(name, text string) map[string]string {
		files := map[string]string{}
		for k, v := range small {
			files[k] = v
		}
		files[name] = text
		return files
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no tree":            {nil, "is not a llama.cpp tree"},
		"an error in a file": {with("ggml/src/ggml-cuda/one.cu", "int one() { return missing; }\n"), "missing"},
		"nothing defines it": {with("ggml/src/ggml-cuda/one.cu",
			"extern \"C\" void ghost(); extern \"C\" void one() { ghost(); }\n"), "nothing defines ghost"},
		"no sources": {
			with("ggml/src/ggml-cuda/CMakeLists.txt", "cmake_minimum_required(VERSION 3.18)\n"),
			"lists no sources",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Build(t.Context(), Options{Src: tree(t, c.files), Out: t.TempDir(), Headers: h, NoVMM: true})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestMissingTools(t *testing.T) {
	var missing *MissingTool
	_, err := BuildRuntime(t.Context(), Options{Out: t.TempDir(), Headers: t.TempDir()})
	if !errors.As(err, &missing) || !strings.Contains(missing.Fix, "scripts/cuda-headers") {
		t.Errorf("no headers: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = BuildRuntime(t.Context(), Options{Out: t.TempDir(), Headers: t.TempDir()})
	for _, want := range []string{"apt-get install clang-19", "apt-get install ninja-build", "apt-get install cmake"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no tools: %v", err)
		}
	}
}
