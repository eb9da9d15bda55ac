package bundle

import (
	"regexp"
	"runtime"

	"github.com/llpatch/llpatch/internal/stage"
)

// This file is what check.sh and `llpatch doctor` know of Linux machines, once for both:
// shSettings writes it into the script. Which glibc, symbol versions and driver a build needs,
// both have from its files, by package binary.

// The ways out that check.sh and `llpatch doctor` name.
const (
	HintNewerSystem = "take a newer distribution, or build them on this one"
	HintGlibc       = "take a distribution with glibc, or a container of one"
	HintOtherBuild  = "take a build for it"
	HintNVIDIA      = "install NVIDIA's driver (a container needs --gpus all)"
	HintLibcuda     = "install all of NVIDIA's driver (Debian: libcuda1; " +
		"a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
	HintNewerDriver = "install a newer NVIDIA driver"
	HintAMD         = "load the kernel's amdgpu driver (modprobe amdgpu; " +
		"a container needs --device /dev/kfd --device /dev/dri)"
	HintNVIDIAGroup = "join the group that owns it (ls -l /dev/nvidiactl), then log in anew"
	HintAMDGroup    = "sudo usermod -aG render,video $(id -un), then log in anew"
	hintFull        = "take the full bundle of this release, which has them inside"
	hintROCm        = "take AMD's ROCm with libraries of these names"
)

// machines are the kinds of machine: as Go and uname name them, as ELF does, and the loader that
// the ABI of each has for a library that has no program beside it.
var machines = []struct{ arch, uname, elf, loader string }{
	{"amd64", "x86_64", "EM_X86_64", "/lib64/ld-linux-x86-64.so.2"},
	{"arm64", "aarch64", "EM_AARCH64", "/lib/ld-linux-aarch64.so.1"},
}

// Machine is the ELF machine of the processor that llpatch runs on, such as EM_X86_64; empty
// where no bundle is for it.
func Machine() string {
	for _, m := range machines {
		if m.arch == runtime.GOARCH {
			return m.elf
		}
	}
	return ""
}

// instructions are ggml's options for what the only variant of its code for the processor
// uses, and what /proc/cpuinfo calls that.
var instructions = map[string]string{
	"GGML_SSE42": "sse4_2", "GGML_AVX": "avx", "GGML_AVX2": "avx2", "GGML_BMI2": "bmi2", "GGML_FMA": "fma",
	"GGML_F16C":     "f16c",
	"GGML_AVX_VNNI": "avx_vnni", "GGML_AVX512": "avx512f", "GGML_AVX512_VBMI": "avx512vbmi",
	"GGML_AVX512_VNNI": "avx512_vnni", "GGML_AVX512_BF16": "avx512_bf16",
}

// debian names the Debian packages of libraries that builds of llama.cpp use.
var debian = map[string]string{
	"libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1", "libgomp.so.1": "libgomp1",
	"libssl.so.3": "libssl3", "libcrypto.so.3": "libssl3", "libssl.so.1.1": "libssl1.1", "libcurl.so.4": "libcurl4",
	"libvulkan.so.1": "libvulkan1", "libopenblas.so.0": "libopenblas0", "libOpenCL.so.1": "ocl-icd-libopencl1",
	"libcudart.so.11.0": "libcudart11.0", "libcublas.so.11": "libcublas11", "libcublasLt.so.11": "libcublaslt11",
	"libamdhip64.so.6": "libamdhip64-6", "libhipblas.so.2": "libhipblas2", "librocblas.so.4": "librocblas4", // Debian 14
	"libcudart.so.12": "libcudart12", "libcublas.so.12": "libcublas12", "libcublasLt.so.12": "libcublaslt12",
}

// DebianPackage names the Debian package that has a library; empty: not known.
func DebianPackage(lib string) string { return debian[lib] }

// rocmRE matches the libraries of ROCm.
var rocmRE = regexp.MustCompile(`^lib(amdhip64|hip|roc)`)

// Instead is another way to get a library than a package of the system; empty: there is none.
func Instead(lib string) string {
	switch {
	case rocmRE.MatchString(lib):
		return hintROCm
	case stage.CanCarry(lib):
		return hintFull
	}
	return ""
}

// ToolkitFolders are where NVIDIA's and AMD's installers put libraries, which not every
// loader is told of: patterns.
var ToolkitFolders = []string{
	"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/opt/cuda/lib64", "/opt/rocm/lib",
	"/opt/rocm/core/lib", "/opt/rocm/core-*/lib", // since ROCm 7.14 (https://github.com/ggml-org/llama.cpp/issues/25807)
	"/opt/rocm-*/lib",
}
