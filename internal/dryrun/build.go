package dryrun

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/source"
)

//go:embed c
var embedded embed.FS

// Options say where a program is kept and how its build is shown.
type Options struct {
	Cache    string // folder for what was built
	Jobs     int    // compilers at a time; 0: one a processor
	Logger   *slog.Logger
	Progress func(what string, done, total int64) // may be nil
}

// Build returns the program for a tag whose tree is given. The first time it compiles the
// tag's libllama, which takes minutes; then it is kept in the cache, and needs no compiler. An
// interrupted build goes on where it stopped, and of two at a time one waits. The error may be
// an *Old, a *Missing, an *Uncut or a *Failed.
func Build(ctx context.Context, o Options, name string, tree *source.Tree) (Program, error) {
	text, err := tree.Read(header)
	if err != nil || !hasDryRun(text.Data) {
		return Program{}, &Old{Tag: name}
	}
	b := builder{Options: o, name: name, what: "its libllama and nothing else: 3 to 6 minutes of a processor"}
	b.source = func(ctx context.Context) (string, error) {
		dir := filepath.Join(b.work(), "src")
		_, err := tree.CheckoutOwn(ctx, dir, nil)
		return dir, err
	}
	return b.program(ctx, tree.ID())
}

// header is the file of a tree that says whether llama.cpp can lay a model out.
const header = "include/llama.h"

var noAllocRE = regexp.MustCompile(`(?m)^\s*bool no_alloc;`)

func hasDryRun(header []byte) bool { return noAllocRE.Match(header) }

// flags are CMake's: what is quick to compile, for the program runs for a moment.
var flags = []string{
	"-DCMAKE_BUILD_TYPE=", "-DCMAKE_C_FLAGS=-O0", "-DCMAKE_CXX_FLAGS=-O0", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=OFF",
	"-DGGML_OPENMP=OFF", "-DGGML_LLAMAFILE=OFF", "-DGGML_CPU_REPACK=OFF", "-DGGML_CCACHE=OFF", "-DGGML_METAL=OFF",
	"-DGGML_BLAS=OFF", "-DGGML_ACCELERATE=OFF",
}

type tools struct{ cmake, ninja, cxx string }

func findTools() (tools, error) {
	var t tools
	if runtime.GOOS == "windows" {
		return t, &Missing{"Linux", "run llpatch there, on the model or on a copy of its first megabytes"}
	}
	for _, want := range []struct {
		to    *string
		fix   string
		names []string
	}{
		{&t.cmake, "apt-get install cmake", []string{"cmake"}},
		{&t.ninja, "apt-get install ninja-build", []string{"ninja"}},
		{&t.cxx, "apt-get install g++", []string{"g++", "clang++"}},
	} {
		for _, name := range want.names {
			if file, err := run.LookPath(name, os.Getenv("PATH")); err == nil {
				*want.to = file
				break
			}
		}
		if *want.to == "" {
			return t, &Missing{strings.Join(want.names, " or "), want.fix}
		}
	}
	return t, nil
}

func env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "NINJA_STATUS=[%f/%t] "}
}

// builder makes a program below dir.
type builder struct {
	Options
	name   string // of the tag or the build, for what is told
	what   string // what is compiled, and how long that takes
	dir    string
	source func(context.Context) (string, error) // makes the tree, and returns its folder
	build  string                                // a build whose libraries are linked with; empty: the tree is compiled
	more   []string                              // options for CMake
}

func (b *builder) work() string { return filepath.Join(b.dir, "work") }
func (b *builder) log() string  { return filepath.Join(b.dir, "build.log") }

// program is what the cache has for a key, or what is built.
func (b *builder) program(ctx context.Context, of string) (Program, error) {
	key, err := b.key(of)
	if err != nil {
		return Program{}, err
	}
	b.dir = filepath.Join(b.Cache, "dryrun", key)
	p := Program{Path: filepath.Join(b.dir, "dryrun")}
	if p.built() {
		return p, nil
	}
	tools, err := findTools()
	if err != nil {
		return p, err
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return p, err
	}
	held, err := lock.Wait(ctx, filepath.Join(b.dir, ".lock"), false, func() {
		b.tell("another llpatch builds the dry run of " + b.name + ": waiting for it")
	})
	if err != nil {
		return p, err
	}
	defer func() { _ = held.Close() }() // gives the lock back
	if p.built() {
		return p, nil
	}
	b.tell("building the dry run of "+b.name+", once: "+b.what, "log", b.log())
	began := time.Now()
	made, err := b.make(ctx, tools)
	if err != nil {
		return p, err
	}
	// The last step: whoever finds the file finds it whole.
	if err := os.Rename(made, p.Path); err != nil {
		return p, err
	}
	b.tell("built the dry run of "+b.name, "took", time.Since(began).Round(time.Second).String())
	return p, os.RemoveAll(b.work())
}

func (p Program) built() bool {
	st, err := os.Stat(p.Path)
	return err == nil && st.Mode().IsRegular()
}

func (b *builder) tell(what string, args ...any) {
	if b.Logger != nil {
		b.Logger.Info(what, args...)
	}
}

// key names what a program is made of: the tree or the libraries, and our sources.
func (b *builder) key(of string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s/%s\n%q\n%q\n%q\n%q\n", of, runtime.GOOS, runtime.GOARCH, flags, b.more, roots, provided)
	err := fs.WalkDir(embedded, "c", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := embedded.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(data), data)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// make compiles the program below work, and returns its path.
func (b *builder) make(ctx context.Context, t tools) (string, error) {
	src, err := b.source(ctx)
	if err != nil {
		return "", err
	}
	ours := filepath.Join(b.work(), "c")
	cut, err := slice(filepath.Join(src, "ggml", "src", "ggml-cuda"))
	if err != nil {
		return "", &Uncut{Tag: b.name, Err: err}
	}
	for _, name := range []string{"CMakeLists.txt", "card.cpp", "card.h", "dryrun.cpp"} {
		data, err := embedded.ReadFile("c/" + name)
		if err == nil {
			err = update(filepath.Join(ours, name), data)
		}
		if err != nil {
			return "", err
		}
	}
	if err := update(filepath.Join(ours, "slice.inc"), []byte(cut)); err != nil {
		return "", err
	}
	jobs := b.Jobs
	if jobs <= 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	build := filepath.Join(b.work(), "build")
	argv := append([]string{
		t.cmake, "-S", ours, "-B", build, "-G", "Ninja", "-DCMAKE_MAKE_PROGRAM=" + t.ninja,
		"-DCMAKE_CXX_COMPILER=" + t.cxx, "-DTREE=" + src, "-DBUILD=" + b.build,
	}, flags...)
	argv = append(argv, b.more...)
	if err := b.step(ctx, argv); err != nil {
		return "", err
	}
	ninja := []string{t.ninja, "-C", build, "-j", strconv.Itoa(jobs)}
	// What was cut comes first: where it does not compile, there is no answer, and it takes seconds to know.
	if err := b.step(ctx, append(ninja, "card")); err != nil {
		var failed *run.Error
		if ctx.Err() == nil && errors.As(err, &failed) && cutRE.MatchString(strings.Join(failed.Tail, "\n")) {
			err = &Uncut{Tag: b.name, Err: err}
		}
		return "", err
	}
	return filepath.Join(build, "dryrun"), b.step(ctx, append(ninja, "dryrun"))
}

// cutRE matches what a compiler says against what was cut, and not against the disk or itself.
var cutRE = regexp.MustCompile(`(?:slice\.inc|card\.cpp):[0-9:]+ (?:fatal )?error: `)

// update writes a file unless it is so already: Ninja goes by its time.
func update(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, data, 0o644)
}

var stepRE = regexp.MustCompile(`^\[(\d+)/(\d+)\] `)

// step runs one command of the build.
func (b *builder) step(ctx context.Context, argv []string) error {
	told := func(line string) {
		if m := stepRE.FindStringSubmatch(line); m != nil && b.Progress != nil {
			done, _ := strconv.ParseInt(m[1], 10, 64) // digits
			total, _ := strconv.ParseInt(m[2], 10, 64)
			b.Progress("dry run of "+b.name, done, total)
		}
	}
	err := run.Run(ctx, run.Cmd{Argv: argv, Env: env(), Stdout: run.NewLines(1<<10, told), Log: b.log()})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return &Failed{Name: b.name, Log: b.log(), Err: err}
	}
	return nil
}

// existing are the libraries of a build that a program is linked with.
type existing struct {
	src      string   // CMAKE_HOME_DIRECTORY
	libs     string   // the folder that has libllama
	backends []string // the libraries of the host's backend, where it is in one of its own
	more     []string // what it was told of the card's attention, as options for CMake
}

var homeRE = regexp.MustCompile(`(?m)^CMAKE_HOME_DIRECTORY:INTERNAL=(.+?)\r?$`)

// look finds what a folder that CMake built llama.cpp in has.
func look(dir string) (existing, error) {
	var e existing
	cache, err := os.ReadFile(filepath.Join(dir, "CMakeCache.txt"))
	if err != nil {
		return e, fmt.Errorf("it is no folder that CMake built llama.cpp in: %w", err)
	}
	m := homeRE.FindSubmatch(cache)
	if m == nil {
		return e, errors.New("its CMakeCache.txt does not name the sources")
	}
	e.src = string(m[1])
	suffix := map[string]string{"darwin": ".dylib"}[runtime.GOOS]
	if suffix == "" {
		suffix = ".so"
	}
	e.libs = filepath.Join(dir, "bin")
	for _, lib := range []string{"libllama", "libggml", "libggml-base"} {
		if _, err := os.Stat(filepath.Join(e.libs, lib+suffix)); err != nil {
			return e, fmt.Errorf("its libraries are not built, or not shared ones (BUILD_SHARED_LIBS): %w", err)
		}
	}
	for _, o := range [][2]string{
		{"GGML_CUDA_FA_ALL_QUANTS:BOOL=ON", "-DGGML_CUDA_FA_ALL_QUANTS=ON"},
		{"GGML_CUDA_FA:BOOL=OFF", "-DGGML_CUDA_NO_FA=ON"},
	} {
		if strings.Contains(string(cache), o[0]) {
			e.more = append(e.more, o[1])
		}
	}
	// With GGML_BACKEND_DL one library a kind of processor; the baseline runs everywhere.
	found, err := fs.Glob(os.DirFS(e.libs), "libggml-cpu*.so")
	for _, want := range []string{"libggml-cpu.so", "libggml-cpu-x64.so"} {
		if slices.Contains(found, want) {
			found = []string{want}
		}
	}
	if strings.Contains(string(cache), "GGML_BACKEND_DL:BOOL=ON") {
		if len(found) == 0 {
			return e, errors.New("it has no libggml-cpu")
		}
		e.backends = []string{filepath.Join(e.libs, found[0])}
	}
	return e, err
}

// BuildWith returns a program that is linked with the shared libraries of a build of llama.cpp,
// a folder with a CMakeCache.txt: seconds, and the answer of that build, its changes included.
// The error may be those of Build, or an *Unusable.
func BuildWith(ctx context.Context, o Options, dir string) (Program, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Program{}, err
	}
	e, err := look(dir)
	if err != nil {
		return Program{}, &Unusable{Dir: dir, Err: err}
	}
	text, err := os.ReadFile(filepath.Join(e.src, header))
	if err != nil {
		return Program{}, &Unusable{Dir: dir, Err: fmt.Errorf("its sources are not there: %w", err)}
	}
	if !hasDryRun(text) {
		return Program{}, &Old{Tag: dir}
	}
	sum := sha256.New()
	for _, lib := range []string{"libllama", "libggml-base"} {
		found, err := fs.Glob(os.DirFS(e.libs), lib+".[sd]*")
		if err != nil || len(found) == 0 {
			return Program{}, &Unusable{Dir: dir, Err: errors.New("it has no " + lib)}
		}
		data, err := os.ReadFile(filepath.Join(e.libs, found[0]))
		if err != nil {
			return Program{}, &Unusable{Dir: dir, Err: err}
		}
		_, _ = sum.Write(data) // a hash takes anything
	}
	cut, err := slice(filepath.Join(e.src, "ggml", "src", "ggml-cuda"))
	if err != nil {
		return Program{}, &Uncut{Tag: dir, Err: err}
	}
	_, _ = sum.Write([]byte(cut)) // it is in none of these libraries
	b := builder{Options: o, name: dir, build: e.libs, more: e.more}
	b.what = "a file of ours, linked with its libraries: seconds"
	b.source = func(context.Context) (string, error) { return e.src, nil }
	p, err := b.program(ctx, fmt.Sprintf("%s %x", dir, sum.Sum(nil)))
	p.Backends = e.backends
	return p, err
}
