package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// headersProbe makes nvcc's preprocessor tell which toolkit its headers are of,
// and what of them is missing.
const headersProbe = `#if __has_include(<cuda.h>)
#include <cuda.h>
#else
llpatch_missing "cuda.h"
#endif
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#else
llpatch_missing "cublas_v2.h"
#endif
llpatch_versions CUDA_VERSION CUDART_VERSION __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__ llpatch_end
`

const kernelProbe = "__global__ void llpatch_probe(float *p) { p[threadIdx.x] *= 2; }\n"

// probePatience is what the smallest compilation may take on a loaded machine.
const probePatience = 5 * time.Minute

// toolkitProbe tries the nvcc that was found.
type toolkitProbe struct {
	nvcc, host ToolFact
	env        []string
	dir        string
	want       *spec.CUDA // may be nil
}

// probeCUDA makes sure, before anything long is compiled, that nvcc is one whole
// toolkit, takes the host compiler, and makes code for the archs that are asked
// for, which is read back from what it wrote. The error is a *BadToolkit.
func probeCUDA(ctx context.Context, f Facts, tc spec.Toolchain, rec spec.Recipe) (CUDAFact, error) {
	dir, err := os.MkdirTemp("", "llpatch-nvcc-")
	if err != nil {
		return CUDAFact{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, text := range map[string]string{"headers.cu": headersProbe, "kernel.cu": kernelProbe} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return CUDAFact{}, err
		}
	}
	p := toolkitProbe{nvcc: f.Tools["nvcc"], host: f.Tools["cxx"], env: planEnv(f, tc, 0), dir: dir, want: rec.Verify.CUDA}
	c, err := p.headers(ctx)
	if err == nil {
		err = p.libraries(&c)
	}
	if err == nil {
		// It came with one of the 11.x; a toolkit that lacks the help lacks no more.
		help, _, herr := p.output(ctx, "--help")
		if endless(herr) {
			err = herr
		}
		c.ObjTemp = herr == nil && strings.Contains(help, "--objdir-as-tempdir")
		c.Seed = herr == nil && strings.Contains(help, "--frandom-seed")
	}
	if err == nil {
		err = p.archs(ctx, &c)
	}
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	return c, err
}

func (p toolkitProbe) bad(next, format string, args ...any) *BadToolkit {
	return &BadToolkit{Nvcc: p.nvcc.Path, Version: p.nvcc.Version, Why: fmt.Sprintf(format, args...), Next: next}
}

// output runs nvcc and returns what it wrote, and the first lines of its messages.
// The error is a *BadToolkit where it wrote without end.
func (p toolkitProbe) output(ctx context.Context, args ...string) (out string, tail []string, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stderr := messages{stop: stop}
	stdout, err := run.Output(ctx, run.Cmd{
		Argv: append([]string{p.nvcc.Path}, args...), Env: p.env, Dir: p.dir, Timeout: probePatience, Stderr: &stderr,
	})
	if errors.Is(err, run.ErrTooMuch) {
		return "", nil, p.bad("let nvcc be the compiler itself, and not a script that stands for it", "with %s it %v", strings.Join(args, " "), run.ErrTooMuch)
	}
	lines := strings.Split(strings.TrimSpace(stderr.text.String()), "\n")
	return string(stdout), lines[:min(len(lines), tailLines)], err
}

// endless reports whether output refused what nvcc wrote.
func endless(err error) bool {
	var bad *BadToolkit
	return errors.As(err, &bad)
}

// messages keeps the beginning of a program's messages, and stops a program that
// does not end with them.
type messages struct {
	text strings.Builder
	all  int
	stop context.CancelCauseFunc
}

// maxMessages is more than twelve lines of a compiler with long paths.
const maxMessages = 64 << 10

// Write takes the next bytes; it never fails.
func (m *messages) Write(b []byte) (int, error) {
	m.text.Write(b[:min(len(b), maxMessages-m.text.Len())])
	if m.all += len(b); m.all > run.MaxOutput {
		m.stop(run.ErrTooMuch)
	}
	return len(b), nil
}

var (
	hostTooNewRE = regexp.MustCompile(`unsupported GNU version! gcc versions later than (\d+) are not supported`)
	missingRE    = regexp.MustCompile(`llpatch_missing\s+"([^"]+)"`)
	versionsRE   = regexp.MustCompile(`llpatch_versions\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+llpatch_end`)
	markerRE     = regexp.MustCompile(`(?m)^# \d+ "([^"]+)/cuda_runtime\.h"`)
	lineMarkRE   = regexp.MustCompile(`(?m)^#.*$`)
)

// headers asks the preprocessor which toolkit this is, and where.
func (p toolkitProbe) headers(ctx context.Context) (CUDAFact, error) {
	var c CUDAFact
	out, tail, err := p.output(ctx, "-ccbin", p.host.Path, "-E", "headers.cu")
	if m := hostTooNewRE.FindStringSubmatch(strings.Join(tail, "\n")); m != nil {
		return c, p.bad(fmt.Sprintf("on Debian and Ubuntu: sudo apt-get install -y g++-%s", m[1]),
			"it does not take %s, which is GCC %s: its own header allows GCC %s at most", p.host.Path, p.host.Version, m[1])
	}
	if endless(err) {
		return c, err
	}
	if err != nil {
		bad := p.bad("install the whole toolkit of this version", "it cannot preprocess a file that includes its own headers")
		bad.Tail = tail
		return c, bad
	}
	text := lineMarkRE.ReplaceAllString(out, "")
	if m := missingRE.FindStringSubmatch(text); m != nil {
		next := "install the toolkit's headers; on Debian: sudo apt-get install -y nvidia-cuda-dev"
		if m[1] == "cublas_v2.h" {
			next = "install cuBLAS for developers: the package libcublas-dev of the same CUDA version, or Debian's nvidia-cuda-dev"
		}
		return c, p.bad(next, "this CUDA has no header %s", m[1])
	}
	m := versionsRE.FindStringSubmatch(text)
	root := markerRE.FindStringSubmatch(out)
	if m == nil || root == nil {
		return c, p.bad("let nvcc be the compiler itself, and not a script that stands for it", "it preprocesses nothing that could be told: no compiler of NVIDIA's does this")
	}
	says := majorMinor(p.nvcc.Version)
	for _, is := range []struct{ what, version string }{
		{"the compiler behind it", m[3] + "." + m[4]}, {"the header cuda.h that it reads", packed(m[1])}, {"the header cuda_runtime_api.h that it reads", packed(m[2])},
	} {
		if is.version != says {
			return c, p.bad("two toolkits are mixed: put the bin of one of them first on the PATH, and unset CUDA_HOME, CPATH and CPLUS_INCLUDE_PATH",
				"--version says CUDA %s, and %s is of CUDA %s", says, is.what, is.version)
		}
	}
	c.Version = says
	include, err := filepath.EvalSymlinks(root[1])
	if err != nil {
		include = root[1]
	}
	c.Root = filepath.Dir(include)
	// The headers of NVIDIA's own packages lie in targets/<machine>/include.
	if top := filepath.Dir(filepath.Dir(c.Root)); path.Base(filepath.Dir(c.Root)) == "targets" {
		c.Root = top
	}
	return c, nil
}

// majorMinor cuts 11.8.89 to 11.8.
func majorMinor(v string) string {
	parts := strings.SplitN(v, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// packed reads CUDA_VERSION: 11080 is 11.8.
func packed(digits string) string {
	n, _ := strconv.Atoi(digits) // a regexp's digits
	return fmt.Sprintf("%d.%d", n/1000, n%1000/10)
}

// libraries looks for what the backend is linked with.
func (p toolkitProbe) libraries(c *CUDAFact) error {
	machine := map[string]string{"amd64": "x86_64-linux", "arm64": "sbsa-linux"}
	for _, dir := range []string{"lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "targets/" + machine["amd64"] + "/lib", "targets/" + machine["arm64"] + "/lib"} {
		dir = filepath.Join(c.Root, dir)
		if _, err := os.Stat(filepath.Join(dir, "libcudart.so")); err != nil {
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || slices.Contains(c.Libs, real) {
			continue
		}
		c.Libs = append(c.Libs, real)
	}
	for _, dir := range slices.Clone(c.Libs) {
		if _, err := os.Stat(filepath.Join(dir, "stubs", "libcuda.so")); err == nil {
			c.Libs = append(c.Libs, filepath.Join(dir, "stubs"))
		}
	}
	for lib, next := range map[string]string{
		"libcudart.so": "install the toolkit's libraries; on Debian: sudo apt-get install -y nvidia-cuda-dev",
		"libcublas.so": "install cuBLAS for developers: the package libcublas-dev of the same CUDA version, or Debian's nvidia-cuda-dev",
	} {
		if !slices.ContainsFunc(c.Libs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, lib))
			return err == nil
		}) {
			return p.bad(next, "this CUDA, in %s, has no %s to link with", c.Root, lib)
		}
	}
	return nil
}

// archs compiles a kernel for every arch and reads the code back.
func (p toolkitProbe) archs(ctx context.Context, c *CUDAFact) error {
	out, _, err := p.output(ctx, "--list-gpu-code")
	if err == nil {
		for _, a := range strings.Fields(out) {
			if strings.HasPrefix(a, "sm_") && !slices.Contains(c.Archs, a) {
				c.Archs = append(c.Archs, a)
			}
		}
	} else if ctx.Err() != nil {
		return ctx.Err()
	} else if endless(err) {
		return err
	}
	archs, ptx := []string{}, []string{}
	if p.want != nil {
		archs, ptx = slices.Concat(p.want.Archs, p.want.AtLeast), p.want.PTX
	}
	if len(archs)+len(ptx) == 0 {
		return nil
	}
	var known []string
	for _, a := range c.Archs {
		known = append(known, a, strings.Replace(a, "sm_", "compute_", 1))
	}
	fault := BadToolkit{Nvcc: p.nvcc.Path, Version: p.nvcc.Version}
	for _, want := range slices.Concat(archs, ptx) {
		if err := fault.unknownArchs([]string{want}, keep(known, want[:strings.IndexByte(want, '_')+1])); err != nil {
			return err
		}
	}
	args := []string{"-ccbin", p.host.Path, "-fatbin", "-o", "kernel.fatbin"}
	for _, a := range archs {
		args = append(args, "-gencode", "arch="+strings.Replace(a, "sm_", "compute_", 1)+",code="+a)
	}
	for _, a := range ptx {
		args = append(args, "-gencode", "arch="+a+",code="+a)
	}
	_, tail, err := p.output(ctx, append(args, "kernel.cu")...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if endless(err) {
		return err
	}
	if err != nil {
		bad := p.bad("--cuda-archs takes other archs, such as --cuda-archs 86", "it cannot compile the smallest kernel for %s", strings.Join(slices.Concat(archs, ptx), " "))
		bad.Tail = tail
		return bad
	}
	return p.readBack(c, archs, ptx)
}

func keep(list []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.HasPrefix(s, prefix) })
}

// readBack opens what nvcc wrote.
func (p toolkitProbe) readBack(c *CUDAFact, archs, ptx []string) error {
	const next = "let nvcc be the compiler itself, and not a script that stands for it"
	f, err := binary.Inspect(filepath.Join(p.dir, "kernel.fatbin"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return p.bad(next, "it says that it compiled a kernel, and wrote nothing")
	case err != nil:
		return p.bad(next, "it says that it compiled a kernel, and what it wrote is no device code: %v", err)
	case f.CUDA == nil || len(f.CUDA.Faults) > 0:
		return p.bad(next, "it says that it compiled a kernel, and what it wrote is no whole device code")
	}
	var have []string
	for _, code := range f.CUDA.Code {
		have = append(have, code.Arch)
	}
	for _, want := range slices.Concat(archs, ptx) {
		if !slices.Contains(have, want) {
			return p.bad(next, "it was asked for %s and made code for %s", want, strings.Join(have, " "))
		}
	}
	for _, made := range f.CUDA.Toolkits {
		if made != c.Version {
			return p.bad(next, "--version says CUDA %s, and the code that it makes is CUDA %s's", c.Version, made)
		}
	}
	return nil
}
