package build

import (
	"fmt"
	"slices"
	"strings"
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
	archs := in.Recipe.Verify.CUDA.CMakeArchs()
	switch asked, ok := o[archsOption]; {
	case ok && archs != nil:
		return key("cmake."+archsOption, "%s is not to be set beside verify.cuda.archs, from which every plan takes it", archsOption)
	case ok && slices.ContainsFunc([]string{"", "native", "all", "all-major"}, func(v string) bool { return v == asked.Value }):
		return key("cmake."+archsOption, "%s is %q: what that is depends on the machine that builds; name the archs", archsOption, asked.Value)
	case !ok && archs == nil:
		return key("verify.cuda", "it builds the backend cuda and names no archs: verify.cuda.archs is missing")
	case archs != nil:
		o.set(archsOption, strings.Join(archs, ";"), "what verify.cuda asks for")
	}
	nvcc, found := in.Facts.Tools["nvcc"]
	if !found {
		return toolchainFault(in.Toolchain, "program", "it brings no program nvcc, and %s builds the backend cuda", in.Recipe.Name)
	}
	cxx, found := in.Facts.Tools["cxx"]
	if !found {
		return toolchainFault(in.Toolchain, "program", "it brings no program cxx, without which nvcc takes any host compiler that it finds")
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
	o.set("CMAKE_CUDA_HOST_COMPILER", cxx.Path, why)
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
	for _, f := range prefixMaps(in.Source, in.Dir) {
		flags = append(flags, "-Xcompiler="+f)
	}
	o.set("CMAKE_CUDA_FLAGS", strings.Join(flags, " "), "no folder of this machine in the binaries")
	if in.Facts.Launcher != "" {
		o.set("CMAKE_CUDA_COMPILER_LAUNCHER", in.Facts.Launcher, "compiler cache")
	}
	return nil
}
