package build

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

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

// toolkitProbe tries the nvcc that was found.
type toolkitProbe struct {
	trial
	host ToolFact
	want *spec.CUDA // may be nil
}

func newToolkitProbe(f Facts, host string, env []string, rec spec.Recipe) *toolkitProbe {
	return &toolkitProbe{
		trial: trial{
			name: "nvcc", compiler: f.Tools["nvcc"], who: "it",
			itself: "let nvcc be the compiler itself, and not a script that stands for it", env: env,
		},
		host: f.Tools[host], want: rec.Verify.CUDA,
	}
}

// probeCUDA makes sure, before anything long is compiled, that nvcc is one whole
// toolkit, takes the host compiler, and makes code for the archs that are asked
// for, which is read back from what it wrote. The error is a *BadToolkit.
func probeCUDA(ctx context.Context, f Facts, tc spec.Toolchain, rec spec.Recipe) (CUDAFact, error) {
	p := newToolkitProbe(f, f.nvccHost(), planEnv(f, tc, 0), rec)
	end, err := p.begin(map[string]string{"headers.cu": headersProbe, "kernel.cu": kernelProbe})
	if err != nil {
		return CUDAFact{}, err
	}
	defer end()
	c, err := p.headers(ctx)
	p.want = p.want.For(c.Version)
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

// output runs nvcc.
func (p *toolkitProbe) output(ctx context.Context, args ...string) (out string, tail []string, err error) {
	return p.run(ctx, append([]string{p.compiler.Path}, args...)...)
}

var (
	hostTooNewRE = regexp.MustCompile(`unsupported GNU version! gcc versions later than (\d+) are not supported`)
	missingRE    = regexp.MustCompile(`llpatch_missing\s+"([^"]+)"`)
	versionsRE   = regexp.MustCompile(`llpatch_versions\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+llpatch_end`)
	markerRE     = regexp.MustCompile(`(?m)^# \d+ "([^"]+)/cuda_runtime\.h"`)
	lineMarkRE   = regexp.MustCompile(`(?m)^#.*$`)
)

// headers asks the preprocessor which toolkit this is, and where.
func (p *toolkitProbe) headers(ctx context.Context) (CUDAFact, error) {
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
			next = "install cuBLAS for developers: the package libcublas-dev of the same CUDA version, or Debian's " +
				"nvidia-cuda-dev"
		}
		return c, p.bad(next, "this CUDA has no header %s", m[1])
	}
	m := versionsRE.FindStringSubmatch(text)
	root := markerRE.FindStringSubmatch(out)
	if m == nil || root == nil {
		return c, p.bad(p.itself, "it preprocesses nothing that could be told: no compiler of NVIDIA's does this")
	}
	says := majorMinor(p.compiler.Version)
	for _, is := range []struct{ what, version string }{
		{"the compiler behind it", m[3] + "." + m[4]},
		{"the header cuda.h that it reads", packed(m[1])},
		{"the header cuda_runtime_api.h that it reads", packed(m[2])},
	} {
		if is.version != says {
			return c, p.bad("two toolkits are mixed: put the bin of one of them first on the PATH, and unset CUDA_HOME, "+
				"CPATH and CPLUS_INCLUDE_PATH",
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
func (p *toolkitProbe) libraries(c *CUDAFact) error {
	machine := map[string]string{"amd64": "x86_64-linux", "arm64": "sbsa-linux"}
	for _, dir := range []string{"lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "targets/" +
		machine["amd64"] + "/lib", "targets/" + machine["arm64"] + "/lib"} {
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
		"libcublas.so": "install cuBLAS for developers: the package libcublas-dev of the same CUDA version, or Debian's " +
			"nvidia-cuda-dev",
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
func (p *toolkitProbe) archs(ctx context.Context, c *CUDAFact) error {
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
	fault := *p.bad("", "")
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
		bad := p.bad("--cuda-archs takes other archs, such as --cuda-archs 86",
			"it cannot compile the smallest kernel for %s", strings.Join(slices.Concat(archs, ptx), " "))
		bad.Tail = tail
		return bad
	}
	return p.readBack(c, archs, ptx)
}

func keep(list []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.HasPrefix(s, prefix) })
}

// readBack opens what nvcc wrote.
func (p *toolkitProbe) readBack(c *CUDAFact, archs, ptx []string) error {
	made, err := p.wroteCUDA("kernel.fatbin", slices.Concat(archs, ptx))
	if err != nil {
		return err
	}
	for _, toolkit := range made.Toolkits {
		if toolkit != c.Version {
			return p.bad(p.itself, "--version says CUDA %s, and the code that it makes is CUDA %s's", c.Version, toolkit)
		}
	}
	return nil
}
