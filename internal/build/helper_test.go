package build

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

func TestMain(m *testing.M) {
	run.Supervise()
	if len(os.Args) == 2 && os.Args[1] == InsideCommand { // as llpatch on another machine
		if err := AnswerProbe(context.Background(), os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// gcc is the toolchain of the tests: the compilers of this machine.
func gcc() spec.Toolchain {
	return spec.Toolchain{
		Name: "gcc", OS: runtime.GOOS, Arch: runtime.GOARCH, JobMiB: 100,
		Programs: map[string]spec.Tool{
			"cmake": {Names: []string{"cmake"}, Min: "3.14", Debian: "cmake"},
			"ninja": {Names: []string{"ninja", "ninja-build"}, Min: "1.10", Debian: "ninja-build"},
			"cc":    {Names: []string{"gcc", "cc"}, Debian: "gcc"},
			"cxx":   {Names: []string{"g++", "c++"}, Debian: "g++"},
		},
	}
}

// The small upstream: a program, a library beside it, an option, and the two
// variables that every plan sets.
var small = map[string]string{
	"CMakeLists.txt": `cmake_minimum_required(VERSION 3.14)
project(small C)
option(SMALL_LOUD "print more" OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
configure_file(info.h.in ${CMAKE_BINARY_DIR}/info.h)
add_library(greet SHARED greet.c)
set_target_properties(greet PROPERTIES VERSION 0.0.${LLAMA_BUILD_NUMBER} SOVERSION 0)
add_executable(small main.c)
target_include_directories(small PRIVATE ${CMAKE_BINARY_DIR})
target_link_libraries(small PRIVATE greet)
if (SMALL_LOUD)
  target_compile_definitions(small PRIVATE LOUD)
endif()
`,
	"info.h.in": "#define NUMBER \"@LLAMA_BUILD_NUMBER@\"\n#define COMMIT \"@LLAMA_BUILD_COMMIT@\"\n",
	"main.c": `#include <assert.h>
#include <stdio.h>
#include "info.h"
const char *greet(void);
int main(int argc, char **argv) {
    assert(argc > 0 && argv);
    printf("%s %s %s %s\n", greet(), NUMBER, COMMIT, __FILE__);
    return 0;
}
`,
	"greet.c": "const char *greet(void) { return __FILE__; }\n",
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// smallInput is a plan's input for the small upstream, written below dir.
func smallInput(t *testing.T, dir string) Input {
	t.Helper()
	tc := gcc()
	facts, err := Probe(t.Context(), tc, spec.Recipe{})
	if err != nil {
		t.Fatal(err)
	}
	// The tests are about compiling, not about a cache that hides it.
	facts.Launcher = ""
	in := Input{
		Tag: "b100", Build: 100, Commit: strings.Repeat("c0ffee00", 5), Time: time.Unix(1700000000, 0),
		Tree: strings.Repeat("7ree0000", 5), Revision: 1, Toolchain: tc, Facts: facts,
		Recipe: spec.Recipe{
			Name: "small", Upstream: spec.LlamaCpp, Range: tag.MustParseRange(">= 1"),
			Programs: []string{"small"}, Backends: []string{"cpu"}, CMake: spec.Options{"SMALL_LOUD": true},
		},
		Source: filepath.Join(dir, "src"), Dir: filepath.Join(dir, "build"),
	}
	write(t, in.Source, small)
	return in
}

func mustPlan(t *testing.T, in Input) Plan {
	t.Helper()
	p, err := NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustRun(t *testing.T, p Plan) Artifacts {
	t.Helper()
	art, err := Run(t.Context(), p, RunOptions{Log: p.Dir + ".log", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return art
}

func wantFailed(t *testing.T, err error) *Failed {
	t.Helper()
	var f *Failed
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a *Failed", err)
	}
	return f
}

// fakes writes files of which some stand for programs: those that begin as a script can
// be run. words are what is replaced in all of them, each followed by its value.
func fakes(t *testing.T, dir string, files map[string]string, words ...string) {
	t.Helper()
	replace := strings.NewReplacer(words...)
	for name, text := range files {
		files[name] = replace.Replace(text)
	}
	write(t, dir, files)
	for name, text := range files {
		if strings.HasPrefix(text, "#!") {
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}
