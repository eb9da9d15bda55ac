package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// hipHeadersProbe makes clang's preprocessor tell which HIP its headers are of, and
// what of them is missing.
const hipHeadersProbe = `#if __has_include(<hip/hip_version.h>)
#include <hip/hip_version.h>
#else
llpatch_missing "hip/hip_version.h"
#endif
#if !__has_include(<hip/hip_runtime.h>)
llpatch_missing "hip/hip_runtime.h"
#endif
#if !__has_include(<hipblas/hipblas.h>)
llpatch_missing "hipblas/hipblas.h"
#endif
#if !__has_include(<rocblas/rocblas.h>)
llpatch_missing "rocblas/rocblas.h"
#endif
llpatch_versions HIP_VERSION_MAJOR HIP_VERSION_MINOR llpatch_end
`

const hipKernelProbe = "#include <hip/hip_runtime.h>\n__global__ void llpatch_probe(float *p) { p[threadIdx.x] = " +
	"sqrtf(p[threadIdx.x]); }\n"

// rocmProbe tries the hipcc that was found.
type rocmProbe struct {
	trial
	fact HIPFact
}

// probeHIP makes sure, before anything long is compiled, that hipcc belongs to one
// whole ROCm, and that its clang makes code for the targets that are asked for, which
// is read back from what it wrote. The error is a *BadToolkit.
func probeHIP(ctx context.Context, f Facts, tc spec.Toolchain, rec spec.Recipe) (HIPFact, error) {
	p := &rocmProbe{trial: trial{
		name: "hipcc", compiler: f.Tools["hipcc"], who: "its clang", env: planEnv(f, tc, 0),
		itself: "let hipcc and its clang be the compilers themselves, and not scripts that stand for them",
	}}
	end, err := p.begin(map[string]string{"headers.hip": hipHeadersProbe, "kernel.hip": hipKernelProbe})
	if err != nil {
		return HIPFact{}, err
	}
	defer end()
	p.fact.System = system("/")
	for _, step := range []func(context.Context) error{p.config, p.headers, p.libraries} {
		if err = step(ctx); err != nil {
			break
		}
	}
	if err == nil && rec.Verify.HIP != nil {
		err = p.targets(ctx, rec.Verify.HIP.Archs)
	}
	if ctx.Err() != nil {
		return p.fact, ctx.Err()
	}
	return p.fact, err
}

// system returns the ID that the os-release below root has, empty where there is none.
func system(root string) string {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
			if id, ok := strings.CutPrefix(s.Text(), "ID="); ok {
				return strings.Trim(id, `"'`)
			}
		}
	}
	return ""
}

const wholeROCm = "install the whole ROCm of this version; llpatch env create rocm makes a root that has one, and " +
	"--env rocm builds in that"

// config asks hipconfig, which lies beside hipcc, where everything is.
func (p *rocmProbe) config(ctx context.Context) error {
	tool := filepath.Join(filepath.Dir(p.compiler.Path), "hipconfig")
	if _, err := os.Stat(tool); err != nil {
		return p.bad(wholeROCm, "there is no hipconfig beside it")
	}
	for _, ask := range []struct {
		flag string
		to   *string
	}{{"--rocmpath", &p.fact.Root}, {"--hipclangpath", &p.fact.Clang}} {
		out, tail, err := p.run(ctx, tool, ask.flag)
		if endless(err) {
			return err
		}
		if *ask.to = strings.TrimSpace(out); err != nil || !filepath.IsAbs(*ask.to) {
			bad := p.bad(wholeROCm, "%s %s does not tell a folder", tool, ask.flag)
			bad.Tail = tail
			return bad
		}
	}
	dir := p.fact.Clang
	for _, name := range []string{"amdclang++", "clang++"} {
		p.fact.Clang = filepath.Join(dir, name)
		out, _, err := p.run(ctx, p.fact.Clang, "--version")
		if endless(err) {
			return err
		}
		if _, p.fact.Compiler = buildenv.VersionOf(out); err == nil && p.fact.Compiler != "" {
			return nil
		}
	}
	return p.bad(wholeROCm, "%s, where hipconfig has its clang, holds no amdclang++ or clang++ that runs", dir)
}

var hipVersionsRE = regexp.MustCompile(`llpatch_versions\s+(\d+)\s+(\d+)\s+llpatch_end`)

// clang is a command that compiles HIP with the ROCm that was found.
func (p *rocmProbe) clang(args ...string) []string {
	return append([]string{p.fact.Clang, "-x", "hip"}, args...)
}

// debianOf says which of Debian's packages has a header or a library.
var debianOf = map[string]string{
	"hip/hip_version.h": "libamdhip64-dev", "hip/hip_runtime.h": "libamdhip64-dev", "hipblas/hipblas.h": "libhipblas-dev",
	"rocblas/rocblas.h": "librocblas-dev",
	"libamdhip64.so":    "libamdhip64-dev", "libhipblas.so": "libhipblas-dev", "librocblas.so": "librocblas-dev",
}

func lacksPart(what string) string {
	return "install it: on Debian the package " + debianOf[what] +
		"; AMD's own packages are hip-dev, hipblas-dev and rocblas-dev of the same version"
}

// headers asks the preprocessor which HIP this is.
func (p *rocmProbe) headers(ctx context.Context) error {
	out, tail, err := p.run(ctx, p.clang("--cuda-host-only", "-nogpuinc", "-I"+filepath.Join(p.fact.Root, "include"),
		"-E", "-P", "headers.hip")...)
	if endless(err) {
		return err
	}
	if err != nil {
		bad := p.bad(wholeROCm, "its clang (%s) cannot preprocess a file", p.fact.Clang)
		bad.Tail = tail
		return bad
	}
	if m := missingRE.FindStringSubmatch(out); m != nil {
		return p.bad(lacksPart(m[1]), "this ROCm, in %s, has no header %s", p.fact.Root, m[1])
	}
	m := hipVersionsRE.FindStringSubmatch(out)
	if m == nil {
		return p.bad(p.itself, "its clang preprocesses nothing that could be told")
	}
	p.fact.Version = m[1] + "." + m[2]
	if says := majorMinor(p.compiler.Version); says != p.fact.Version {
		return p.bad("two ROCms are mixed: put the bin of one of them first on the PATH, and unset ROCM_PATH, HIP_PATH "+
			"and CPLUS_INCLUDE_PATH",
			"--version says HIP %s, and the headers in %s are of HIP %s", says, p.fact.Root, p.fact.Version)
	}
	return nil
}

// libraries looks for what the backend is linked with, and for what CMake finds it by.
func (p *rocmProbe) libraries(context.Context) error {
	dirs := []string{"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}
	for _, dir := range dirs {
		dir = filepath.Join(p.fact.Root, dir)
		if _, err := os.Stat(filepath.Join(dir, "libamdhip64.so")); err != nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(p.fact.Libs, real) {
			p.fact.Libs = append(p.fact.Libs, real)
		}
	}
	for _, lib := range []string{"libamdhip64.so", "libhipblas.so", "librocblas.so"} {
		there := slices.ContainsFunc(p.fact.Libs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, lib))
			return err == nil
		})
		if !there {
			return p.bad(lacksPart(lib), "this ROCm, in %s, has no %s to link with", p.fact.Root, lib)
		}
	}
	for _, name := range []string{"hip", "hipblas", "rocblas"} {
		there := slices.ContainsFunc(dirs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(p.fact.Root, dir, "cmake", name, name+"-config.cmake"))
			return err == nil
		})
		if !there {
			return p.bad(wholeROCm, "this ROCm, in %s, has no lib/cmake/%s/%s-config.cmake, by which CMake finds it",
				p.fact.Root, name, name)
		}
	}
	return nil
}

var (
	deviceLibRE  = regexp.MustCompile(`"([^"]+)/ocml\.bc"`)
	unknownGfxRE = regexp.MustCompile(`invalid target ID '|unknown target CPU|unsupported HIP gpu architecture|is not a recognized processor`)
	noDeviceRE   = regexp.MustCompile(`cannot find ROCm device library`)
)

// targets compiles a kernel for every target and reads the code back.
func (p *rocmProbe) targets(ctx context.Context, want []string) error {
	for _, gfx := range want {
		args := []string{"--offload-arch=" + gfx, "--cuda-device-only"}
		_, tail, err := p.run(ctx, p.clang(append(args, "-c", "-o", "kernel.o", "kernel.hip")...)...)
		if endless(err) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err != nil {
			return p.cannot(gfx, tail)
		}
		if err := p.readBack(gfx); err != nil {
			return err
		}
		if p.fact.DeviceLib == "" {
			_, tail, _ := p.run(ctx, p.clang(append(args, "-###", "-c", "-o", "x.o", "kernel.hip")...)...)
			if m := deviceLibRE.FindStringSubmatch(strings.Join(tail, "\n")); m != nil {
				p.fact.DeviceLib = m[1]
			}
		}
	}
	return nil
}

// cannot says why the smallest kernel does not compile for a target.
func (p *rocmProbe) cannot(gfx string, tail []string) error {
	said := strings.Join(tail, "\n")
	var bad *BadToolkit
	switch {
	case unknownGfxRE.MatchString(said):
		bad = p.bad("--gfx takes other targets; "+newerClang(gfx), "its clang %s (%s) does not know %s", p.fact.Compiler,
			p.fact.Clang, gfx)
	case noDeviceRE.MatchString(said):
		bad = p.bad("install the device library of this ROCm: on Debian rocm-device-libs, AMD's own package is "+
			"rocm-device-libs as well; or --gfx takes other targets",
			"its clang (%s) finds no device library for %s", p.fact.Clang, gfx)
	default:
		bad = p.bad(wholeROCm, "it cannot compile the smallest kernel for %s", gfx)
	}
	bad.Tail = tail
	return bad
}

// newerClang says from which release on LLVM's clang knows a target: tried with Debian's
// clang 19 and 21.
func newerClang(gfx string) string {
	name, _, _ := strings.Cut(gfx, ":")
	switch {
	case name == "gfx9-4-generic" || name == "gfx950" || name == "gfx1153":
		return "clang 21 knows it, and 19 does not"
	case strings.HasSuffix(name, "-generic") || strings.HasPrefix(name, "gfx120"):
		return "clang 19 and newer know it, and those of ROCm 6.4 and newer"
	}
	return "llpatch env create rocm makes a root with a newer one"
}

// readBack opens what clang wrote, and makes room for what it writes next.
func (p *rocmProbe) readBack(gfx string) error {
	const name = "kernel.o"
	f, err := p.wrote(name, func(f *binary.File) bool {
		return f.HIP != nil && len(f.HIP.Faults) == 0 && len(f.HIP.Code) == 1
	})
	if err != nil {
		return err
	}
	if made := f.HIP.Code[0].Target; made != gfx {
		return p.bad(p.itself, "its clang was asked for %s and made code for %s", gfx, made)
	}
	return os.Remove(filepath.Join(p.dir, name))
}
