package build

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// Every object of a build for Windows 7 is compiled for it, or the build stops before it compiles; what builds
// itself is named.
func TestWindowsOfObjects(t *testing.T) {
	if _, err := exec.LookPath("x86_64-w64-mingw32-gcc-posix"); err != nil {
		t.Skip("no MinGW (sh scripts/setup win7)")
	}
	const flag, project = "-D_WIN32_WINNT=0x0601", `cmake_minimum_required(VERSION 3.14)
project(small C CXX)
option(SMALL_LOUD "print more" OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(greet STATIC sub/greet.c sub/more.cpp)
add_executable(small main.c)
target_link_libraries(small PRIVATE greet)
file(WRITE ${CMAKE_BINARY_DIR}/info "${LLAMA_BUILD_NUMBER} ${LLAMA_BUILD_COMMIT} ${SMALL_LOUD}")
`
	for what, c := range map[string]struct {
		more   string // of CMakeLists.txt
		cflags []string
		fails  string // empty: it does not
		file   string
		says   string // in the log
	}{
		"all are":     {"", []string{flag}, "", "", "objects=3"},
		"spelled so":  {"", []string{"-D_WIN32_WINNT=0x601"}, "", "", "objects=3"},
		"the last is": {"target_compile_definitions(greet PRIVATE _WIN32_WINNT=0x0602)", []string{flag}, "", "", "objects=3"},
		"none is":     {"", nil, "is compiled without _WIN32_WINNT", "sub/greet.c", ""},
		"another value for one target": {
			"target_compile_options(greet PRIVATE -D_WIN32_WINNT=0x0A00)",
			[]string{flag},
			"is compiled with _WIN32_WINNT=0x0A00, and not with 0x0601, Windows 7's (CMakeFiles/greet.dir/sub/greet.c.obj; " +
				"2 of 3 objects); look for who says so: the CMakeLists.txt of its folder", "sub/greet.c", "",
		},
		"another for one file": {
			"set_source_files_properties(sub/more.cpp PROPERTIES COMPILE_OPTIONS -U_WIN32_WINNT)",
			[]string{flag},
			"is compiled without _WIN32_WINNT, which upstream's headers then take for Windows 10's", "sub/more.cpp", "",
		},
		"a build of its own": {
			`include(ExternalProject)
ExternalProject_Add(vendored SOURCE_DIR ${CMAKE_SOURCE_DIR}/vendored INSTALL_COMMAND "")
add_custom_target(other COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR}/elsewhere DEPENDS ${CMAKE_SOURCE_DIR}/main.c)`,
			[]string{flag},
			"", "", "build=vendored",
		},
	} {
		t.Run(what, func(t *testing.T) {
			in := smallInput(t, t.TempDir())
			in.Recipe.OS = spec.Win7
			in.Toolchain.CFlags = c.cflags
			in.Toolchain.CMake = spec.Options{"CMAKE_SYSTEM_NAME": "Windows"}
			in.Facts.Tools["cc"] = ToolFact{Path: "/usr/bin/x86_64-w64-mingw32-gcc-posix"}
			in.Facts.Tools["cxx"] = ToolFact{Path: "/usr/bin/x86_64-w64-mingw32-g++-posix"}
			write(t, in.Source, map[string]string{
				"CMakeLists.txt": project + c.more, "sub/greet.c": "int greet(void) { return 0; }\n",
				"sub/more.cpp": "int more() { return 0; }\n", "main.c": "int greet(void); int main(void) { return greet(); }\n",
				"vendored/CMakeLists.txt": "cmake_minimum_required(VERSION 3.14)\nproject(vendored NONE)\n",
			})
			var log bytes.Buffer
			o := RunOptions{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			p := mustPlan(t, in)
			for range 2 { // the second time nothing is configured
				err := Objects(t.Context(), p, o, nil)
				if c.fails == "" {
					if err != nil || !strings.Contains(log.String(), c.says) {
						t.Errorf("%v\n%s", err, log.String())
					}
					continue
				}
				f := wantFailed(t, err)
				if f.Kind != KindWindows || f.File != c.file || !strings.Contains(f.Error(), c.fails) {
					t.Errorf("%v", f)
				}
			}
			if what == "a build of its own" && !strings.Contains(log.String(), "build=CMakeFiles/other") {
				t.Error(log.String())
			}
			in.Recipe.OS = spec.Linux
			if err := Objects(t.Context(), mustPlan(t, in), o, nil); err != nil {
				t.Errorf("for Linux: %v", err)
			}
		})
	}
}

// Which value counts, for each compiler.
func TestWinnt(t *testing.T) {
	for command, want := range map[string]string{
		"gcc -O2 -c x.c":                                                          "",
		"gcc -D_WIN32_WINNT=0x0601 -c x.c":                                        "0x0601",
		"gcc -D _WIN32_WINNT=0x0601 -c x.c":                                       "0x0601",
		"gcc -D_WIN32_WINNT -c x.c":                                               "1",
		"gcc -D_WIN32_WINNT_MAX=3 -c x.c":                                         "",
		"gcc -DX_WIN32_WINNT=3 -c x.c":                                            "",
		"gcc -D_WIN32_WINNT=1 -D_WIN32_WINNT=2":                                   "2",
		"gcc -D_WIN32_WINNT=1 -U_WIN32_WINNT":                                     "",
		"gcc -U_WIN32_WINNT '-D_WIN32_WINNT=3' -c":                                "3",
		`cl /D_WIN32_WINNT=0x0601 /c x.c`:                                         "0x0601",
		`cl /D "_WIN32_WINNT=0x0601" /c x.c`:                                      "0x0601",
		`nvcc -D_WIN32_WINNT=0x0601 -Xcompiler=-D_WIN32_WINNT=0x0A00,-O2 -c x.cu`: "0x0A00",
	} {
		if got := winnt(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// Objects of CUDA count; assembler, resources, what is linked and what has no command do not.
func TestWinntOf(t *testing.T) {
	var db compileDB
	if err := json.Unmarshal([]byte(`[
{"file": "/s/a.cu", "output": "a.cu.obj", "command": "clang++ -D_WIN32_WINNT=0x0601 -x cuda -c /s/a.cu"},
{"file": "/s/b.cu", "output": "b.cu.obj", "command": "llpatch join-cuda clang++ -x cuda -c /s/b.cu"},
{"file": "/s/f.cu", "output": "f.cu.obj", "command": "nvcc -c /s/f.cu -o f.o && ccache clang++ -D_WIN32_WINNT=0x0601 -x cuda --cuda-host-only -S /s/f.cu -o f.ll && llpatch join-cuda f.o f.ll && clang++ -c f.ll -o f.cu.obj && rm -f f.o"},
{"file": "/s/g.cu", "output": "g.cu.obj", "command": "nvcc -D_WIN32_WINNT=0x0601 -c /s/g.cu -o g.o && clang++ -x cuda --cuda-host-only -S /s/g.cu -o g.ll && clang++ -c g.ll -o g.cu.obj"},
{"file": "/s/c.c", "command": "cl /D_WIN32_WINNT=0x0601 /c /s/c.c"},
{"file": "/s/d.S", "output": "d.S.obj", "command": "gcc -c /s/d.S"},
{"file": "/s/e.rc", "output": "e.rc.res", "command": "windres"},
{"file": "a.cu.obj", "output": "bin/x.exe", "command": "g++ a.cu.obj"},
{"file": "/s/embed.cpp", "output": "embed", "command": "c++ -o embed /s/embed.cpp"},
{"file": "CMakeFiles/x.util", "output": "x", "command": ""},
{"file": "x", "output": "sub/src/deep-stamp/Release/deep-build", "command": "cd x && make"}
]`), &db); err != nil {
		t.Fatal(err)
	}
	objects, wrong, builds := db.winntOf()
	if objects != 5 || len(wrong) != 2 || db[wrong[0]].File != "/s/b.cu" || db[wrong[1]].File != "/s/g.cu" ||
		len(builds) != 1 || builds[0] != "deep" {
		t.Errorf("%d objects, wrong %v, builds %v", objects, wrong, builds)
	}
}

// Any text is read or refused, and none passes in which an object has no value.
func FuzzCompileDB(f *testing.F) {
	f.Add([]byte(`[{"file": "a.c", "output": "a.obj", "command": "gcc -D_WIN32_WINNT=0x0601"}]`))
	f.Add([]byte(`[{"file": "a.c", "output": "a.obj", "command": "gcc /U _WIN32_WINNT"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if newBuilder(Plan{Windows: spec.Win7}, RunOptions{}).judgeWindows(text) != nil {
			return
		}
		var db compileDB
		if err := json.Unmarshal(text, &db); err != nil {
			t.Fatal(err)
		}
		for _, c := range db {
			if strings.HasSuffix(c.File, ".c") && strings.HasSuffix(c.Output, ".obj") && c.Command != "" &&
				!strings.Contains(c.Command, "_WIN32_WINNT") && !strings.HasSuffix(c.Output, "-build") {
				t.Errorf("%q", text)
			}
		}
	})
}
