package build

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// Probe looks at this machine: the toolchain's programs on the PATH and their
// versions, the headers of the recipe's optional features, processors and
// memory. The error is a *MissingTools that lists every program that is missing
// or too old, a *BadToolkit where nvcc or hipcc is there and will not do, or a *Fault where
// the toolchain is for another kind of machine.
func Probe(ctx context.Context, tc spec.Toolchain, rec spec.Recipe) (Facts, error) {
	f, err := look(ctx, tc, rec)
	if filepath.Base(f.Launcher) == "ccache" && !canCache(f.Env) {
		f.Launcher = "" // every command through it would fail
	}
	return f, err
}

// look is Probe wherever it runs, also in a build root.
func look(ctx context.Context, tc spec.Toolchain, rec spec.Recipe) (Facts, error) {
	f := Facts{
		OS: runtime.GOOS, Arch: runtime.GOARCH,
		// Go takes the affinity mask and a container's processor quota into account.
		Cores:     runtime.GOMAXPROCS(0),
		MemoryMiB: FreeMemory(),
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
	for _, role := range roles(tc) {
		t := tc.Programs[role]
		if t.Optional && len(candidates(t, path)) == 0 {
			continue
		}
		because := ""
		if nvcc, ok := f.Tools["nvcc"]; ok && hostOfNvcc(f, tc, role) {
			t, because = forNvcc(t, nvcc)
		}
		fact, why, err := findTool(ctx, t, because, path)
		if err != nil {
			return f, err
		}
		if why != "" {
			missing.Tools = append(missing.Tools, MissingTool{
				Role: role, Names: t.Names, Debian: t.Debian, Why: why,
				Hint: t.Hint,
			})
			continue
		}
		f.Tools[role] = fact
	}
	if len(missing.Tools) > 0 {
		return f, missing
	}
	_, clang := f.Tools["clang"]
	if _, ok := f.Tools["nvcc"]; ok && !clang {
		var err error
		if f.CUDA, err = probeCUDA(ctx, f, tc, rec); err != nil {
			return f, err
		}
	}
	if clang {
		var err error
		if f.CUDA, err = probeClang(ctx, f, tc, rec); err != nil {
			return f, err
		}
	}
	if _, ok := f.Tools["hipcc"]; ok {
		var err error
		if f.HIP, err = probeHIP(ctx, f, tc, rec); err != nil {
			return f, err
		}
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

// FindTool looks on this machine for one program of a toolchain, whatever it is for.
// The error is a *MissingTools where it is not there, or none of its versions will do.
func FindTool(ctx context.Context, tc spec.Toolchain, role string) (ToolFact, error) {
	t := tc.Programs[role]
	fact, why, err := findTool(ctx, t, "", os.Getenv("PATH"))
	if err == nil && why != "" {
		err = &MissingTools{Toolchain: tc.Name, Tools: []MissingTool{{
			Role: role, Names: t.Names, Debian: t.Debian, Why: why,
			Hint: t.Hint,
		}}}
	}
	return fact, err
}

// roles are the programs that a toolchain builds with, in the order in which they
// are looked for: nvcc first, because it says which host compilers will do, and then a
// host compiler of its own, with which the others are free.
func roles(tc spec.Toolchain) []string {
	all := slices.Sorted(maps.Keys(tc.Programs))
	all = slices.DeleteFunc(all, func(role string) bool { return tc.Programs[role].For == spec.ForSmoke })
	for _, first := range []string{hostRole, "nvcc"} {
		if i := slices.Index(all, first); i > 0 {
			all = slices.Insert(slices.Delete(all, i, i+1), 0, first)
		}
	}
	return all
}

// hostRole is the role of the host compiler of nvcc where the programs are compiled by
// another. Where clang compiles CUDA too, only the device code of what it makes is taken.
const hostRole = "nvcc-host"

// nvccHost is the role of the compiler that nvcc calls for what runs on the processor.
func (f Facts) nvccHost() string {
	if f.Tools[hostRole].Path != "" {
		return hostRole
	}
	return "cxx"
}

// hostOfNvcc reports whether the program of a role must be one that nvcc takes.
func hostOfNvcc(f Facts, tc spec.Toolchain, role string) bool {
	if t, own := tc.Programs[hostRole]; role == hostRole || own && (!t.Optional || f.nvccHost() == hostRole) {
		return role == hostRole
	}
	return role == "cc" || role == "cxx"
}

// forNvcc limits a host compiler to what nvcc takes, and says so.
func forNvcc(t spec.Tool, nvcc ToolFact) (limited spec.Tool, because string) {
	most := hostLimit(nvcc.Version)
	if most == 0 || t.Max != "" && older(t.Max, fmt.Sprint(most)) {
		return t, ""
	}
	t.Max = fmt.Sprint(most)
	t.Debian = fmt.Sprintf("%s-%d", t.Debian, most)
	return t, fmt.Sprintf(" that nvcc %s (%s) takes", nvcc.Version, nvcc.Path)
}

// findTool returns the first program of t that is there and of a version that is
// wanted, or why none is; because says who sets t.Max.
func findTool(ctx context.Context, t spec.Tool, because, path string) (fact ToolFact, why string, err error) {
	why = "not on the PATH"
	if len(t.Dirs) > 0 {
		why += " nor in " + strings.Join(t.Dirs, ", ")
	}
	for _, file := range candidates(t, path) {
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
		banner, v := buildenv.VersionOf(string(out))
		switch two := toolkitVersions(string(out)); {
		case len(two) > 1:
			why = fmt.Sprintf("%s --version names more than one version: %s", file, strings.Join(two, ", "))
			continue
		case t.Min != "" && v == "":
			why = fmt.Sprintf("%s names no version that can be read, and %s or newer is needed", file, t.Min)
			continue
		case t.Min != "" && older(v, t.Min):
			why = fmt.Sprintf("%s is version %s, and %s or newer is needed", file, v, t.Min)
			continue
		case t.Max != "" && beyond(v, t.Max):
			why = fmt.Sprintf("%s is version %s, and %s is the newest%s", file, v, t.Max, because)
			continue
		}
		return ToolFact{Path: file, Version: v, Banner: banner}, "", nil
	}
	return ToolFact{}, why, nil
}

// candidates are the files that may be the program: by each of its names the first
// on the PATH, and after those, or before, what lies in its own folders.
func candidates(t spec.Tool, path string) []string {
	var files []string
	add := func(file string, err error) {
		if err == nil && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	onPath := func() {
		for _, name := range t.Names {
			add(lookReal(name, path))
		}
	}
	if t.First != spec.FirstDirs {
		onPath()
	}
	for _, dir := range t.Dirs {
		if name, rest, ok := strings.Cut(dir, "/"); ok && strings.HasPrefix(name, "$") {
			value := os.Getenv(name[1:])
			if value == "" {
				continue
			}
			dir = filepath.Join(value, rest)
		}
		found, _ := filepath.Glob(dir) // the pattern was checked when it was read
		slices.SortFunc(found, newest)
		for _, at := range found {
			for _, name := range t.Names {
				add(lookReal(name, at))
			}
		}
	}
	onPath()
	return files
}

// beyond reports whether a version is above a limit, which counts as far as it is
// written: 13.5 is not beyond 13.
func beyond(v, limit string) bool {
	parts := strings.Split(v, ".")
	n := strings.Count(limit, ".") + 1
	return older(limit, strings.Join(parts[:min(n, len(parts))], "."))
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

// toolkitVersions are the different versions that nvcc --version names: one, but for a
// script that asks several.
func toolkitVersions(out string) (all []string) {
	for _, m := range buildenv.ToolkitRE.FindAllStringSubmatch(out, -1) {
		if !slices.Contains(all, m[1]) {
			all = append(all, m[1])
		}
	}
	return all
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
