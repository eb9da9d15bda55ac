package sim

import (
	"bytes"
	"context"
	"embed"
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

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/run"
)

//go:embed c/*.c c/*.h c/hip c/mingw
var embedded embed.FS

// Options say what to build and where.
type Options struct {
	Src     string // a tree of llama.cpp, with ggml/src/ggml-cuda
	Out     string // folder that gets the libraries and objects, and keeps them for the next build
	Headers string // folder with NVIDIA's headers in include/, as scripts/cuda-headers makes it
	// folder with AMD's headers, as scripts/hip-headers makes it: the backend is ggml-hip, and the
	// libraries are HIP's; empty: CUDA
	HIP     string
	Windows bool     // DLLs for 64-bit Windows 7 and later, which wine runs, instead of libraries for Linux; not with HIP
	Clang   string   // clang++, a name or a path; empty: the newest on the PATH
	Jobs    int      // compilers at a time; 0: one a processor
	NoVMM   bool     // compile ggml-cuda with GGML_CUDA_NO_VMM, ggml-hip with GGML_HIP_NO_VMM
	Defines []string // NAME=VALUE, of the backend's files besides

	Logger   *slog.Logger // nil: none
	Log      string       // file that gets all output; empty: none
	Progress func(what string, done, total int64)
}

// Library is a simulated device and a ggml-cuda that uses it.
type Library struct {
	Dir      string // folder of the CUDA libraries
	Backend  string // libggml-cuda.so, libggml-hip.so or ggml-cuda.dll, host code only
	Objects  int    // that the backend is made of
	Compiled int    // of all objects, in this build
	// CUDA functions that the backend can reach and that are not simulated: they print their name
	// and fail
	Refused []string

	preload bool // of a tree with one library
}

// Env returns the variables with which a GGML_BACKEND_DL build of the same tag
// uses the library, no file of it being touched. A build for Windows runs through
// wine, whose drive Z is this machine's root. A build of ik_llama.cpp, which has one library,
// was compiled with the flags that docs/sim.md names.
func (l *Library) Env() []string {
	if filepath.Ext(l.Backend) == ".dll" {
		return []string{"GGML_BACKEND_PATH=" + WinePath(l.Backend), "WINEPATH=" + WinePath(l.Dir)}
	}
	if l.preload {
		return []string{"LD_PRELOAD=" + l.Backend, "LD_LIBRARY_PATH=" + l.Dir}
	}
	return []string{"GGML_BACKEND_PATH=" + l.Backend, "LD_LIBRARY_PATH=" + l.Dir}
}

// Build compiles the simulated device and the host code of o.Src's ggml-cuda
// into o.Out; what is there and has not changed is kept. It needs Linux on
// x86-64, clang++, Ninja and CMake, and for Windows MinGW-w64: what is missing is a *MissingTool.
func Build(ctx context.Context, o Options) (*Library, error) {
	b, unlock, err := open(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer unlock()
	p, err := ask(ctx, b.tools, o, b.cudart)
	if err != nil {
		return nil, err
	}
	if err := b.write(p); err != nil {
		return nil, err
	}
	if err := b.ninja(ctx, "objects"); err != nil {
		return nil, err
	}
	lib := &Library{
		Dir: filepath.Join(o.Out, "lib"), Backend: filepath.Join(o.Out, o.backend()), Objects: len(p.sources),
		preload: o.oneLibrary(),
	}
	if o.Windows {
		if lib.Refused, err = b.exports(ctx, p); err != nil {
			return nil, err
		}
		if err := b.ninja(ctx, o.backend()); err != nil {
			return nil, err
		}
		lib.Compiled = b.compiled
		return lib, nil
	}
	if lib.Refused, err = refused(o.Out, p, filepath.Join(lib.Dir, b.names.cudart)); err != nil {
		return nil, err
	}
	if err := writeChanged(filepath.Join(o.Out, "src", "refused.c"), refusals(lib.Refused)); err != nil {
		return nil, err
	}
	if err := b.ninja(ctx, o.backend()); err != nil {
		return nil, err
	}
	lib.Compiled = b.compiled
	return lib, unresolved(lib.Backend)
}

// BuildRuntime compiles the simulated device alone, for programs that are not
// llama.cpp; o.Src is not used. It returns the folder of the libraries.
func BuildRuntime(ctx context.Context, o Options) (dir string, err error) {
	b, unlock, err := open(ctx, &o)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := b.write(plan{}); err != nil {
		return "", err
	}
	if err := b.ninja(ctx, "objects"); err != nil {
		return "", err
	}
	if o.Windows {
		if _, err := b.exports(ctx, plan{}); err != nil {
			return "", err
		}
		if err := b.ninja(ctx, "libraries"); err != nil {
			return "", err
		}
	}
	return filepath.Join(o.Out, "lib"), nil
}

// backend is the file name of what is built.
func (o Options) backend() string {
	switch {
	case o.HIP != "":
		return "libggml-hip.so"
	case o.Windows:
		return "ggml-cuda.dll"
	}
	return "libggml-cuda.so"
}

type builder struct {
	o        Options
	tools    tools
	names    names
	cudart   int
	c        []string // the simulation's own C files, below src
	compiled int
}

// open checks what a build needs and locks its folder.
func open(ctx context.Context, o *Options) (*builder, func(), error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, nil, fmt.Errorf("the simulated device is built and run on Linux on x86-64, not on %s/%s", runtime.GOOS,
			runtime.GOARCH)
	}
	for _, p := range []*string{&o.Src, &o.Out, &o.Headers, &o.HIP} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, nil, err
		}
		*p = abs
	}
	if o.Out == "" || o.Headers == "" {
		return nil, nil, errors.New("sim: Out and Headers are needed")
	}
	if o.Windows && o.HIP != "" {
		return nil, nil, errors.New("simulated device: HIP's is made for Linux alone")
	}
	t, err := findTools(ctx, o.Clang)
	if o.Windows {
		err = errors.Join(err, t.forWindows(ctx, filepath.Join(o.Out, "src", "mingw")))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("simulated device: %w", err)
	}
	v, err := cudartVersion(o.Headers)
	if err != nil {
		return nil, nil, fmt.Errorf("simulated device: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(o.Out, "src"), 0o755); err != nil {
		return nil, nil, err
	}
	held, err := lock.Wait(ctx, filepath.Join(o.Out, ".lock"), false, nil)
	if err != nil {
		return nil, nil, err
	}
	if o.Logger != nil {
		o.Logger.Debug("simulated device", "out", o.Out, "clang", t.clang, "cuda headers", v)
	}
	b := &builder{o: *o, tools: t, names: namesOf(v), cudart: v}
	if o.HIP != "" {
		if err := hipHeaders(o.HIP); err != nil {
			return nil, nil, fmt.Errorf("simulated device: %w", err)
		}
		b.names = hipNames
	}
	if o.Windows {
		b.names = dllNames(v)
	}
	return b, func() { _ = held.Close() }, nil
}

// write puts the C files and build.ninja into the folder, touching only what differs.
func (b *builder) write(p plan) error {
	var sources []string
	err := fs.WalkDir(embedded, "c", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if name == "c/hip" && b.o.HIP == "" || name == "c/mingw" && !b.o.Windows {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(b.o.Out, "src", strings.TrimPrefix(name, "c")), 0o755)
		}
		if name == "c/linux.c" && b.o.Windows || name == "c/windows.c" && !b.o.Windows {
			return nil
		}
		data, err := fs.ReadFile(embedded, name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "c/")
		sources = append(sources, name)
		return writeChanged(filepath.Join(b.o.Out, "src", name), data)
	})
	if err != nil {
		return err
	}
	if err := writeChanged(filepath.Join(b.o.Out, "src", head), []byte(b.o.headText())); err != nil {
		return err
	}
	b.c = slices.DeleteFunc(slices.Clone(sources), func(f string) bool { return filepath.Ext(f) != ".c" })
	if b.o.Windows {
		return writeChanged(filepath.Join(b.o.Out, "build.ninja"), windowsNinja(b.tools, b.o, p, b.names, b.c))
	}
	if err := writeChanged(filepath.Join(b.o.Out, "src", "versions.map"), []byte(b.names.versions())); err != nil {
		return err
	}
	return writeChanged(filepath.Join(b.o.Out, "build.ninja"), ninjaFile(b.tools, b.o, p, b.names, sources))
}

func (b *builder) ninja(ctx context.Context, target string) error {
	jobs := b.o.Jobs
	if jobs <= 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	err := run.Run(ctx, run.Cmd{
		Argv: []string{b.tools.ninja, "-C", b.o.Out, "-j", strconv.Itoa(jobs), target}, Env: b.tools.env,
		Dir: b.o.Out, Stdout: run.NewLines(1<<10, b.told), Log: b.o.Log,
	})
	if err != nil {
		return fmt.Errorf("compile the simulated device: %w", err)
	}
	return nil
}

// writeChanged keeps the time of a file that already holds data, for Ninja.
func writeChanged(file string, data []byte) error {
	old, err := os.ReadFile(file)
	if err == nil && bytes.Equal(old, data) {
		return nil
	}
	return atomicfile.WriteFile(file, data, 0o644)
}

var stepRE = regexp.MustCompile(`^\[(\d+)/(\d+)\] (C|CHIP|CUDA|HIP|PCH|LINK) `)

// told reads a line of Ninja's, and counts what was compiled.
func (b *builder) told(line string) {
	m := stepRE.FindStringSubmatch(line)
	if m == nil {
		return
	}
	done, _ := strconv.ParseInt(m[1], 10, 64) // digits
	total, _ := strconv.ParseInt(m[2], 10, 64)
	if m[3] != "LINK" && m[3] != "PCH" {
		b.compiled++
	}
	if b.o.Progress != nil {
		b.o.Progress("simulated device", done, total)
	}
}
