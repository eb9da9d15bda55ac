package build

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// archsOption is what CMake calls the archs that device code is made for.
const archsOption = "CMAKE_CUDA_ARCHITECTURES"

// cuda adds what a plan for nvcc has. Its archs are always named: without them
// upstream's build takes those of the cards of the machine that builds, or a list
// of its own that changes from tag to tag.
func (o options) cuda(in Input) error {
	if !slices.Contains(in.Recipe.Backends, "cuda") {
		return nil
	}
	key := func(key, format string, args ...any) error {
		return &Fault{File: "recipes/" + in.Recipe.Name + ".toml", Key: key, Msg: fmt.Sprintf(format, args...)}
	}
	archs := in.Recipe.Verify.CUDA.For(in.Facts.CUDA.Version).CMakeArchs()
	switch asked, ok := o[archsOption]; {
	case ok && archs != nil:
		return key("cmake."+archsOption, "%s is not to be set beside verify.cuda.archs, from which every plan takes it",
			archsOption)
	case ok && slices.ContainsFunc([]string{"", "native", "all", "all-major"}, func(v string) bool {
		return v == asked.Value
	}):
		return key("cmake."+archsOption, "%s is %q: what that is depends on the machine that builds; name the archs",
			archsOption, asked.Value)
	case !ok && archs == nil:
		return key("verify.cuda", "it builds the backend cuda and names no archs: verify.cuda.archs is missing")
	case archs != nil:
		o.set(archsOption, strings.Join(archs, ";"), "what verify.cuda asks for")
	}
	if _, ok := in.Facts.Tools["clang"]; ok {
		return o.clang(in)
	}
	if len(in.Toolchain.CUDAFlags) > 0 {
		return toolchainFault(in.Toolchain, "cudaflags", "cudaflags is for clang, and it brings no program clang")
	}
	nvcc, found := in.Facts.Tools["nvcc"]
	if !found {
		return toolchainFault(in.Toolchain, "program", "it brings no program nvcc, and %s builds the backend cuda",
			in.Recipe.Name)
	}
	host, found := in.Facts.Tools[in.Facts.nvccHost()]
	if !found {
		return toolchainFault(in.Toolchain, "program",
			"it brings no program cxx, without which nvcc takes any host compiler that it finds")
	}
	for _, dir := range []string{in.Source, in.Dir} {
		if strings.Contains(dir, ",") { // what follows -Xcompiler is split there
			return &BadFolder{dir, `holds ',', which nvcc would misread; choose another folder`}
		}
	}
	why := "toolchain " + in.Toolchain.Name
	o.set("CMAKE_CUDA_COMPILER", nvcc.Path, why)
	if msvc(in.Toolchain) {
		return nil // nvcc takes the cl.exe that Visual Studio set up, and flags from the environment
	}
	o.set("CMAKE_CUDA_HOST_COMPILER", host.Path, why)
	if in.Facts.CUDA.Root != "" {
		o.set("CUDAToolkit_ROOT", in.Facts.CUDA.Root, "the toolkit of "+nvcc.Path)
	}
	var flags []string
	if in.Facts.CUDA.ObjTemp {
		// Else each object file has the number of a process in its symbols.
		flags = append(flags, "--objdir-as-tempdir")
	}
	if in.Facts.CUDA.Seed {
		// Else the number of a process is in names, and decides about registers. One seed
		// for all files will do: the names have a hash of the file's path as well.
		flags = append(flags, "--frandom-seed=llpatch")
	}
	flags = append(flags, in.Recipe.CUDAFlags...)
	for _, f := range prefixMaps(in.Source, in.Dir) {
		flags = append(flags, "-Xcompiler="+f)
	}
	o.set("CMAKE_CUDA_FLAGS", strings.Join(flags, " "), "no folder of this machine in the binaries")
	if in.Facts.Launcher != "" {
		o.set("CMAKE_CUDA_COMPILER_LAUNCHER", in.Facts.Launcher, "compiler cache")
	}
	return nil
}

// clang adds what a plan has whose CUDA is compiled by clang for MinGW. Which CUDA
// that reads, the tree's own FindCUDAToolkit is told (docs/fixes/win7-cuda-clang.md).
func (o options) clang(in Input) error {
	for _, dir := range []string{in.Source, in.Dir, in.Facts.CUDA.Root} {
		if strings.ContainsAny(dir, " ;:") {
			return &BadFolder{dir, "holds a space, ';' or ':', which the commands that compile CUDA would misread; choose " +
				"another folder"}
		}
	}
	if _, ok := in.Facts.Tools["ptxas"]; !ok {
		return toolchainFault(in.Toolchain, "program",
			"it brings no program ptxas, by which the CUDA that clang reads is found")
	}
	root := in.Facts.CUDA.Root
	o.set("CMAKE_CUDA_COMPILER", in.Facts.Tools["clang"].Path, "toolchain "+in.Toolchain.Name)
	o.set("CUDAToolkit_ROOT", root, "the folder of "+in.Facts.Tools["ptxas"].Path)
	flags := slices.Concat(in.Toolchain.CUDAFlags, in.Recipe.CUDAFlags, prefixMaps(in.Source, in.Dir))
	o.set("CMAKE_CUDA_FLAGS", strings.Join(flags, " "), "toolchain "+in.Toolchain.Name+", recipe "+in.Recipe.Name+
		", no folder of this machine in the binaries")
	host := ""
	if launcher := in.Facts.Launcher; launcher != "" {
		host = launcher
		if filepath.Base(launcher) == "ccache" {
			// Clang preprocesses CUDA once for the host and once for each arch, which is more
			// than ccache can take as one text; it does take the list of headers, and must be
			// told what else of CUDA decides the code.
			host = strings.Join([]string{
				"/usr/bin/env", "CCACHE_DEPEND=1",
				"CCACHE_EXTRAFILES=" + root + "/bin/ptxas:" + root + "/nvvm/libdevice/libdevice.10.bc", launcher,
			}, ";")
		}
		o.set("CMAKE_CUDA_COMPILER_LAUNCHER", host, "compiler cache")
	}
	if _, ok := in.Facts.Tools["nvcc"]; !ok {
		return nil
	}
	if in.Facts.Tools[hostRole].Path == "" || in.Facts.Tools["llpatch"].Path == "" {
		return toolchainFault(in.Toolchain, "program",
			"it brings nvcc beside clang, and no program %s that nvcc takes as its host compiler", hostRole)
	}
	for _, role := range []string{"nvcc", hostRole, "llpatch"} {
		if tool := in.Facts.Tools[role]; strings.ContainsAny(tool.Path, " ;:\"'`$\\&|<>()*?") {
			return &BadToolkit{
				Name: role, Path: tool.Path, Version: tool.Version,
				Why:  "its path holds a letter that the commands which compile CUDA would misread",
				Next: "put it into a folder with a plain name",
			}
		}
	}
	if host != "" {
		// CMake puts it before the first command, which is nvcc's.
		o.set("CMAKE_CUDA_COMPILER_LAUNCHER", in.Facts.Launcher, "compiler cache")
	}
	o.set("CMAKE_CUDA_COMPILE_OBJECT", strings.Join(in.joined(strings.ReplaceAll(host, ";", " ")), ";"),
		"nvcc compiles for the card, clang for the processor")
	return nil
}

// joined are the commands that make one object where nvcc compiles for the card, as
// CMake fills them in. Each has its own way to be kept in a compiler cache; host is
// what comes before clang's.
func (in Input) joined(host string) []string {
	tools, src := in.Facts.Tools, in.Source+"/ggml"
	nvcc := []string{
		tools["nvcc"].Path, "-c", "-ccbin", tools[hostRole].Path, "-std=c++17", "-O3", "-DNDEBUG", "-use_fast_math",
		"-extended-lambda", "-w", "-Xcompiler=-w",
	}
	for _, a := range in.Recipe.Verify.CUDA.Archs {
		nvcc = append(nvcc, "-gencode=arch="+strings.Replace(a, "sm_", "compute_", 1)+",code="+a)
	}
	for _, a := range in.Recipe.Verify.CUDA.PTX {
		nvcc = append(nvcc, "-gencode=arch="+a+",code="+a)
	}
	nvcc = append(nvcc, in.Recipe.CUDAFlags...)
	nvcc = append(nvcc, "<DEFINES>", "-I"+src+"/src/ggml-cuda", "-I"+src+"/src", "-I"+src+"/include", "<SOURCE>", "-o",
		"<OBJECT>.nvcc.o")
	clang := []string{
		"<CMAKE_CUDA_COMPILER>", "<DEFINES>", "<INCLUDES>", "<FLAGS>", "-x", "cuda", "--cuda-host-only",
		"-D__CUDA_ARCH_LIST__=" + archList(*in.Recipe.Verify.CUDA),
		"-Xclang", "-fcuda-include-gpubinary", "-Xclang", src + "/src/ggml-cuda/mingw/device-code", "-S", "-emit-llvm",
		"<SOURCE>", "-o", "<OBJECT>.ll",
	}
	if host != "" {
		clang = append([]string{host}, clang...)
	}
	return []string{
		strings.Join(nvcc, " "),
		strings.Join(clang, " "),
		tools["llpatch"].Path + " " + JoinCommand + " <OBJECT>.nvcc.o <OBJECT>.ll",
		"<CMAKE_CUDA_COMPILER> --target=x86_64-w64-mingw32 -O3 -w -c <OBJECT>.ll -o <OBJECT>",
		"rm -f <OBJECT>.nvcc.o <OBJECT>.ll <OBJECT>.fatbin",
	}
}

// archList is what nvcc defines as __CUDA_ARCH_LIST__ and clang does not: CUB has it in
// the names of its kernels, and ggml-cuda asks it which code there is.
func archList(want spec.CUDA) string {
	var list []int
	for _, a := range slices.Concat(want.Archs, want.PTX) {
		list = append(list, 10*numbers(a)[0])
	}
	slices.Sort(list)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(list)), " ", ","), "[]")
}
