package build

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// Probe looks at this machine: the toolchain's programs on the PATH and their
// versions, the headers of the recipe's optional features, processors and
// memory. The error is a *MissingTools that lists every program that is missing
// or too old, or a *Fault where the toolchain is for another kind of machine.
func Probe(ctx context.Context, tc spec.Toolchain, rec spec.Recipe) (Facts, error) {
	f := Facts{
		OS: runtime.GOOS, Arch: runtime.GOARCH,
		// Go takes the affinity mask and a container's processor quota into account.
		Cores:     runtime.GOMAXPROCS(0),
		MemoryMiB: freeMemory("/") >> 20,
		Tools:     map[string]ToolFact{}, Headers: map[string]bool{}, Env: map[string]string{},
	}
	if err := checkMachine(tc, f); err != nil {
		return f, err
	}
	for _, name := range append([]string{"HOME"}, tc.Inherit...) {
		if v, ok := os.LookupEnv(name); ok {
			f.Env[name] = v
		}
	}
	path := os.Getenv("PATH")
	missing := &MissingTools{Toolchain: tc.Name}
	for _, role := range slices.Sorted(maps.Keys(tc.Programs)) {
		fact, why, err := findTool(ctx, tc.Programs[role], path)
		if err != nil {
			return f, err
		}
		if why != "" {
			t := tc.Programs[role]
			missing.Tools = append(missing.Tools, MissingTool{Role: role, Names: t.Names, Debian: t.Debian, Why: why})
			continue
		}
		f.Tools[role] = fact
	}
	if len(missing.Tools) > 0 {
		return f, missing
	}
	// Without a home a compiler cache has no folder to use.
	if f.Env["HOME"] != "" {
		for _, name := range []string{"ccache", "sccache"} {
			if p, err := run.LookPath(name, path); err == nil {
				f.Launcher = p
				break
			}
		}
	}
	for _, o := range rec.Optional {
		if _, done := f.Headers[o.Header]; done {
			continue
		}
		ok, err := hasHeader(ctx, f, tc, o.Header)
		if err != nil {
			return f, err
		}
		f.Headers[o.Header] = ok
	}
	return f, nil
}

// findTool returns the first program of t that is there and new enough, or why none is.
func findTool(ctx context.Context, t spec.Tool, path string) (fact ToolFact, why string, err error) {
	why = "not on the PATH"
	for _, name := range t.Names {
		file, err := lookReal(name, path)
		if err != nil {
			continue
		}
		out, err := run.Output(ctx, run.Cmd{
			Argv: []string{file, "--version"}, Env: []string{"LC_ALL=C", "PATH=" + path}, Timeout: time.Minute,
		})
		if ctx.Err() != nil {
			return ToolFact{}, "", ctx.Err()
		}
		if err != nil {
			why = fmt.Sprintf("%s --version: %v", file, err)
			continue
		}
		banner, v := versionOf(string(out))
		if t.Min != "" {
			if v == "" {
				why = fmt.Sprintf("%s names no version that can be read, and %s or newer is needed", file, t.Min)
				continue
			}
			if older(v, t.Min) {
				why = fmt.Sprintf("%s is version %s, and %s or newer is needed", file, v, t.Min)
				continue
			}
		}
		return ToolFact{Path: file, Version: v, Banner: banner}, "", nil
	}
	return ToolFact{}, why, nil
}

// lookReal is run.LookPath past the folders in which every compiler is a link
// to a compiler cache: the cache is put before the real one by the plan.
func lookReal(name, path string) (string, error) {
	dirs := filepath.SplitList(path)
	for i := range dirs {
		file, err := run.LookPath(name, dirs[i])
		if err != nil {
			continue
		}
		real, err := filepath.EvalSymlinks(file)
		if err != nil || slices.Contains([]string{"ccache", "sccache", "distcc", "icecc"}, filepath.Base(real)) {
			continue
		}
		return file, nil
	}
	return "", fmt.Errorf("%s: %w", name, run.ErrNotFound)
}

var (
	// A package's own version stands in parentheses before the program's.
	bracketRE = regexp.MustCompile(`\([^)]*\)`)
	versionRE = regexp.MustCompile(`\b([0-9]+(?:\.[0-9]+){1,3})`)
)

// versionOf returns the first line of what --version prints, and the version in it.
func versionOf(out string) (banner, v string) {
	banner, _, _ = strings.Cut(strings.TrimSpace(out), "\n")
	banner = strings.TrimSpace(banner)
	if m := versionRE.FindStringSubmatch(bracketRE.ReplaceAllString(banner, "")); m != nil {
		v = m[1]
	}
	return banner, v
}

func older(v, than string) bool {
	a, err1 := version.NewVersion(v)
	b, err2 := version.NewVersion(than)
	return err1 == nil && err2 == nil && a.LessThan(b)
}

// hasHeader asks the compiler itself, because it alone knows where it looks.
func hasHeader(ctx context.Context, f Facts, tc spec.Toolchain, header string) (bool, error) {
	cc, ok := f.Tools["cc"]
	if !ok {
		return false, fmt.Errorf("toolchain %s has no program cc to look for %s with", tc.Name, header)
	}
	argv := append([]string{cc.Path}, tc.CFlags...)
	err := run.Run(ctx, run.Cmd{
		Argv: append(argv, "-x", "c", "-E", "-"), Env: planEnv(f, tc, 0),
		Stdin: strings.NewReader("#include <" + header + ">\n"), Timeout: time.Minute,
	})
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil, nil
}
