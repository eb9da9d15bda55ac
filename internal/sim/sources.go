package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// asker is a CMake project that reads the CMakeLists.txt of ggml-cuda or ggml-hip, or ik_llama.cpp's
// of its one library, so that the tag itself says which files and definitions it is made of. The
// commands that want a CUDA toolkit or a compiler do nothing there.
const asker = `cmake_minimum_required(VERSION 3.18)
project(llpatch-sim NONE)
set(CUDAToolkit_FOUND TRUE)
set(hip_VERSION 6.4)
foreach(command find_package enable_language include check_cxx_compiler_flag target_link_libraries target_compile_options
        target_compile_definitions target_compile_features target_include_directories target_link_directories set_target_properties)
    macro(${command})
    endmacro()
endforeach()
function(ggml_add_backend_library name)
    string(REPLACE ";" "\n" list "${ARGN}")
    file(WRITE ${CMAKE_BINARY_DIR}/sources.txt "${list}\n")
endfunction()
macro(add_library name)
    ggml_add_backend_library(${name} ${ARGN})
endmacro()
_include(${GGML}/cmake/common.cmake OPTIONAL)
add_subdirectory(${GGML}/src/${BACKEND} backend)
get_directory_property(list DIRECTORY ${GGML}/src/${BACKEND} COMPILE_DEFINITIONS)
string(REPLACE ";" "\n" list "${list}")
file(WRITE ${CMAKE_BINARY_DIR}/definitions.txt "${list}\n")
`

var (
	optionRE = regexp.MustCompile(`option\s*\(\s*(GGML_(?:CUDA|HIP)_\w+)\s+"[^"]*"\s+(ON|OFF)\s*\)`)
	cacheRE  = regexp.MustCompile(`set\s*\(\s*(GGML_CUDA_\w+)\s+"([^"]*)"\s+CACHE\b`)
)

// plan is what a tag's ggml-cuda is made of.
type plan struct {
	sources     []string // relative to ggml/src/ggml-cuda
	definitions []string
}

// ask runs CMake in a scratch folder of out.
func ask(ctx context.Context, t tools, o Options, cudart int) (plan, error) {
	src, out := o.Src, o.Out
	ggml := filepath.Join(src, "ggml")
	text, err := os.ReadFile(filepath.Join(ggml, "CMakeLists.txt"))
	if err != nil {
		return plan{}, fmt.Errorf("%s is not a llama.cpp tree with ggml/src/ggml-cuda: %w", src, err)
	}
	dir := filepath.Join(out, "ask")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return plan{}, err
	}
	if err := writeChanged(filepath.Join(dir, "CMakeLists.txt"), []byte(asker)); err != nil {
		return plan{}, err
	}
	backend := strings.TrimSuffix(strings.TrimPrefix(o.backend(), "lib"), filepath.Ext(o.backend()))
	if o.oneLibrary() {
		backend = ""
	}
	argv := []string{
		t.cmake, "-S", dir, "-B", filepath.Join(dir, "build"), "-G", "Ninja", "-DCMAKE_MAKE_PROGRAM=" + t.ninja,
		"-DGGML=" + ggml, "-DBACKEND=" + backend, "-DGGML_BACKEND_DL=ON",
		fmt.Sprintf("-DCUDAToolkit_VERSION=%d.%d", cudart/1000, cudart%1000/10),
	}
	for _, m := range slices.Concat(optionRE.FindAllStringSubmatch(string(text), -1),
		cacheRE.FindAllStringSubmatch(string(text), -1)) {
		argv = append(argv, "-D"+m[1]+"="+m[2])
	}
	argv = append(argv, "-DGGML_CUDA_GRAPHS=ON", "-DGGML_CUDA_NO_VMM="+onOff(o.NoVMM), "-DGGML_CUDA_NCCL=OFF",
		"-DGGML_CUDA_CUB_3DOT2=OFF",
		"-DGGML_HIP_GRAPHS=ON", "-DGGML_HIP_NO_VMM="+onOff(o.NoVMM), "-DGGML_HIP_ROCWMMA_FATTN=OFF", "-DGGML_HIP_RCCL=OFF",
		"-DGGML_CUDA=ON", "-DGGML_CUDA_USE_GRAPHS=ON") // of one library
	if err := run.Run(ctx, run.Cmd{Argv: argv, Env: t.env, Timeout: time.Minute}); err != nil {
		return plan{}, fmt.Errorf("the CMakeLists.txt of %s: %w", filepath.Join(ggml, "src", backend), err)
	}
	var p plan
	for _, f := range readList(filepath.Join(dir, "build", "sources.txt")) {
		if filepath.Ext(f) != ".cu" {
			continue
		}
		if !filepath.IsAbs(f) && backend != "ggml-cuda" { // of ggml-hip, or of one library
			f = filepath.Join(ggml, "src", backend, f)
		}
		if filepath.IsAbs(f) {
			if f, err = filepath.Rel(filepath.Join(ggml, "src", "ggml-cuda"), f); err != nil {
				return plan{}, err
			}
		}
		p.sources = append(p.sources, f)
	}
	p.definitions = slices.DeleteFunc(readList(filepath.Join(dir, "build", "definitions.txt")), func(d string) bool {
		return strings.Contains(d, "$<")
	})
	if _, err := os.Stat(filepath.Join(ggml, "src", "ggml-cuda", "graph.cuh")); err == nil && backend == "" {
		// ik_llama.cpp leaves graphs out before CUDA 12, and some of its later builds do not compile without them.
		p.definitions = append(p.definitions, "USE_CUDA_GRAPH=")
	}
	if len(p.sources) == 0 {
		return plan{}, fmt.Errorf("the CMakeLists.txt of %s lists no sources", filepath.Join(ggml, "src", backend))
	}
	return p, nil
}

func onOff(on bool) string {
	if on {
		return "ON"
	}
	return "OFF"
}

// readList returns the lines of a file that CMake wrote; none where it is not there.
func readList(file string) []string {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// oneLibrary reports whether the tree compiles ggml-cuda into one library with the rest of ggml, as
// ik_llama.cpp does. Its programs find the backend's functions in the first library that has them.
func (o Options) oneLibrary() bool {
	_, err := os.Stat(filepath.Join(o.Src, "ggml", "src", "ggml-cuda", "CMakeLists.txt"))
	return o.HIP == "" && errors.Is(err, fs.ErrNotExist)
}
