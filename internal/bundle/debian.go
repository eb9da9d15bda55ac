package bundle

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

// ToolkitFolders are where NVIDIA's and AMD's installers put libraries, which not every
// loader is told of: patterns.
var ToolkitFolders = []string{"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/opt/cuda/lib64", "/opt/rocm/lib", "/opt/rocm-*/lib"}
