package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// clangKernel needs none of CUDA's headers: the header without which they do not
// compile for MinGW lies in the tree. Clang starts a kernel by this function.
const clangKernel = `struct dim3 { unsigned x, y, z; };
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, decltype(sizeof 0), struct CUstream_st *);
__attribute__((global)) void llpatch_probe(float *p) { p[0] *= 2; }
`

// clangNeeds is what clang, and the tree's search for CUDA, read of a CUDA folder.
var clangNeeds = []string{
	"include/cuda.h", "include/cuda_runtime_api.h", "include/cublas_api.h", "include/cublas_v2.h",
	"include/curand_mtgp32_kernel.h",
	"nvvm/libdevice/libdevice.10.bc", "bin/ptxas", "bin/fatbinary",
}

const wholeCUDA = "CUDA_HOME names a folder with all of bin, include and nvvm of CUDA 11: llpatch env create " +
	"cuda-11.4-redist makes one of NVIDIA's archives, scripts/cuda-headers --tools DIR one of Debian's packages " +
	"(11.2); a root with one is made by llpatch env create win7-cuda-11.8, for --env win7-cuda-11.8"

// clangProbe tries the clang and the CUDA folder that were found.
type clangProbe struct {
	trial
	ptxas ToolFact
	fact  CUDAFact
}

// probeClang makes sure, before anything long is compiled, that the folder of ptxas is
// one whole CUDA, and that clang makes code with it for the archs that are asked for,
// which is read back from what it wrote. The error is a *BadToolkit.
func probeClang(ctx context.Context, f Facts, tc spec.Toolchain, rec spec.Recipe) (CUDAFact, error) {
	p := &clangProbe{
		trial: trial{name: "clang", compiler: f.Tools["clang"], who: "it", itself: "let clang and ptxas be the programs " +
			"themselves, and not scripts that stand for them", env: planEnv(f, tc, 0)},
		ptxas: f.Tools["ptxas"],
	}
	end, err := p.begin(map[string]string{"kernel.cu": clangKernel})
	if err != nil {
		return CUDAFact{}, err
	}
	defer end()
	err = p.folder()
	if err == nil && rec.Verify.CUDA != nil {
		err = p.archs(ctx, *rec.Verify.CUDA)
	}
	if _, ok := f.Tools["nvcc"]; ok && err == nil {
		err = p.nvcc(ctx, f, rec)
	}
	if ctx.Err() != nil {
		return p.fact, ctx.Err()
	}
	return p.fact, err
}

// nvcc tries the nvcc that compiles for the card where clang compiles for the
// processor, and notes llpatch itself, which joins the two.
func (p *clangProbe) nvcc(ctx context.Context, f Facts, rec spec.Recipe) error {
	nvcc := f.Tools["nvcc"]
	if says := majorMinor(nvcc.Version); says != p.fact.Version {
		return p.bad("put the parts of one CUDA into the folder that CUDA_HOME names", "nvcc (%s) is of CUDA %s, and the "+
			"headers that clang reads, in %s, are of CUDA %s", nvcc.Path, says, p.fact.Root, p.fact.Version)
	}
	t := newToolkitProbe(f, hostRole, p.env, rec)
	end, err := t.begin(map[string]string{"kernel.cu": kernelProbe})
	if err != nil {
		return err
	}
	defer end()
	if err := t.archs(ctx, &p.fact); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f.Tools["llpatch"] = ToolFact{Path: self}
	return nil
}

var cudaVersionRE = regexp.MustCompile(`(?m)^#define CUDA_VERSION ([0-9]{4,6})\b`)

// folder looks into the CUDA that ptxas belongs to.
func (p *clangProbe) folder() error {
	p.fact.Root = filepath.Dir(filepath.Dir(p.ptxas.Path))
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(p.fact.Root, name))
		return err == nil
	}
	for _, name := range clangNeeds {
		if !has(name) {
			return p.bad(wholeCUDA, "the CUDA folder %s, which %s belongs to, has no %s", p.fact.Root, p.ptxas.Path, name)
		}
	}
	if !has("lib64") && !has("lib") {
		return p.bad("make an empty folder lib64 in it",
			"the CUDA folder %s has no lib64, without which CMake takes it for no CUDA", p.fact.Root)
	}
	// Headers of another compiler would come before MinGW's.
	if has("include/stdio.h") {
		return p.bad(wholeCUDA, "the CUDA headers lie in %s among those of this system's C library, which are not "+
			"for Windows", filepath.Join(p.fact.Root, "include"))
	}
	text, err := os.ReadFile(filepath.Join(p.fact.Root, "include/cuda.h"))
	if err != nil {
		return err
	}
	m := cudaVersionRE.FindSubmatch(text)
	if m == nil {
		return p.bad(wholeCUDA, "%s names no CUDA_VERSION", filepath.Join(p.fact.Root, "include/cuda.h"))
	}
	p.fact.Version = packed(string(m[1]))
	if says := majorMinor(p.ptxas.Version); says != p.fact.Version {
		return p.bad("put the parts of one CUDA into the folder that CUDA_HOME names", "two toolkits are mixed in %s: its "+
			"ptxas is of CUDA %s, and its cuda.h of CUDA %s", p.fact.Root, says, p.fact.Version)
	}
	return nil
}

var (
	noTargetRE    = regexp.MustCompile(`unable to create target|unknown target triple|No available targets are compatible`)
	unknownArchRE = regexp.MustCompile(`unsupported CUDA gpu architecture|is not defined for option 'gpu-name'|does not support target`)
)

// archs compiles a kernel for every arch and reads the code back.
func (p *clangProbe) archs(ctx context.Context, want spec.CUDA) error {
	for _, ptx := range want.PTX {
		if sm := strings.Replace(ptx, "compute_", "sm_", 1); !slices.Contains(slices.Concat(want.Archs, want.AtLeast), sm) {
			return p.bad("name "+sm+" as well, or no PTX",
				"clang makes PTX for %s together with machine code for %s, which is not asked for", ptx, sm)
		}
	}
	args := []string{
		p.compiler.Path, "-x", "cuda", "--cuda-path=" + p.fact.Root, "-nocudainc", "-nocudalib",
		"--no-cuda-include-ptx=all", "-Wno-unknown-cuda-version",
	}
	for _, a := range slices.Concat(want.Archs, want.AtLeast) {
		args = append(args, "--cuda-gpu-arch="+a)
	}
	for _, a := range want.PTX {
		args = append(args, "--cuda-include-ptx="+strings.Replace(a, "compute_", "sm_", 1))
	}
	_, tail, err := p.run(ctx, append(args, "-c", "-o", "kernel.o", "kernel.cu")...)
	if ctx.Err() != nil || endless(err) {
		return errors.Join(err, ctx.Err())
	}
	if err != nil {
		return p.cannot(want, tail)
	}
	_, err = p.wroteCUDA("kernel.o", slices.Concat(want.Archs, want.AtLeast, want.PTX))
	return err
}

// cannot says why the smallest kernel does not compile.
func (p *clangProbe) cannot(want spec.CUDA, tail []string) error {
	said := strings.Join(tail, "\n")
	archs := strings.Join(slices.Concat(want.Archs, want.AtLeast), " ")
	var bad *BadToolkit
	switch {
	case noTargetRE.MatchString(said):
		bad = p.bad("install a clang with LLVM's target NVPTX, such as Debian's clang-19",
			"it was built without NVPTX, LLVM's target for NVIDIA's cards")
	case unknownArchRE.MatchString(said):
		bad = p.bad("--cuda-archs takes other archs, such as --cuda-archs 86-real",
			"it, or ptxas %s, does not know one of %s", p.ptxas.Version, archs)
	default:
		bad = p.bad(wholeCUDA, "it cannot compile the smallest kernel for %s with the CUDA in %s", archs, p.fact.Root)
	}
	bad.Tail = tail
	return bad
}
