package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/run"
)

// MissingTool is what a build of the simulation lacks, and where it comes from.
type MissingTool struct {
	What string // such as "clang++ 17 or newer"
	Why  string
	Fix  string // such as "apt-get install clang-19"
}

// Error says what is missing and what to do.
func (e *MissingTool) Error() string {
	return fmt.Sprintf("%s: %s (%s)", e.What, e.Why, e.Fix)
}

// ExitCode is exit.NotRun.
func (e *MissingTool) ExitCode() int { return exit.NotRun }

// Hint says what to do.
func (e *MissingTool) Hint() string { return e.Fix }

// oldestClang is the first that compiles CUDA 11 headers beside libstdc++ 12:
// they make __noinline__ a macro, which older ones do not hide from it.
const oldestClang = 17

var clangNames = []string{"clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++-18", "clang++-17", "clang++"}

type tools struct {
	clang, ninja, cmake string
	env                 []string

	link   string   // for Windows: MinGW's compiler, which links
	target []string // for Windows: what makes clang compile for it
}

func findTools(ctx context.Context, clang string) (tools, error) {
	path := os.Getenv("PATH")
	t := tools{env: []string{"PATH=" + path, "LC_ALL=C", "NINJA_STATUS=[%f/%t] "}}
	names := clangNames
	if clang != "" {
		names = []string{clang}
	}
	why := "not on the PATH"
	for _, name := range names {
		file, err := run.LookPath(name, path)
		if err != nil {
			continue
		}
		v, err := clangVersion(ctx, file, t.env)
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
		if err == nil && v >= oldestClang {
			t.clang = file
			break
		}
		why = fmt.Sprintf("%s is version %d", file, v)
		if err != nil {
			why = fmt.Sprintf("%s: %v", file, err)
		}
	}
	var missing []error
	if t.clang == "" {
		missing = append(missing, &MissingTool{
			fmt.Sprintf("clang++ %d or newer", oldestClang), why,
			"apt-get install clang-19",
		})
	}
	for _, p := range []struct {
		to             *string
		name, package_ string
	}{{&t.ninja, "ninja", "ninja-build"}, {&t.cmake, "cmake", "cmake"}} {
		file, err := run.LookPath(p.name, path)
		if err != nil {
			missing = append(missing, &MissingTool{p.name, "not on the PATH", "apt-get install " + p.package_})
		}
		*p.to = file
	}
	return t, errors.Join(missing...)
}

// clangVersion asks the compiler for its major version.
func clangVersion(ctx context.Context, file string, env []string) (int, error) {
	out, err := run.Output(ctx, run.Cmd{Argv: []string{file, "-dumpversion"}, Env: env, Timeout: time.Minute})
	if err != nil {
		return 0, err
	}
	major, _, _ := strings.Cut(strings.TrimSpace(string(out)), ".")
	return strconv.Atoi(major)
}

var cudartVersionRE = regexp.MustCompile(`(?m)^#define\s+CUDART_VERSION\s+(\d+)`)

// cudartVersion reads the version of the headers in dir, such as 11020.
func cudartVersion(dir string) (int, error) {
	file := filepath.Join(dir, "include", "cuda_runtime_api.h")
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, &MissingTool{"CUDA headers", err.Error(), "scripts/cuda-headers " + dir}
	}
	m := cudartVersionRE.FindSubmatch(data)
	if m == nil {
		return 0, fmt.Errorf("%s names no CUDART_VERSION", file)
	}
	return strconv.Atoi(string(m[1]))
}

// hipHeaders makes sure that a folder holds AMD's headers, as clang wants them.
func hipHeaders(dir string) error {
	for _, name := range []string{"include/hip/hip_runtime_api.h", "include/hipblas/hipblas.h", "share/hip/version"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return &MissingTool{"HIP headers", err.Error(), "scripts/hip-headers " + dir}
		}
	}
	return nil
}
