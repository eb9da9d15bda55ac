package binary

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Use is what a program computes with beside the processor, by ggml's name of the backend.
type Use struct {
	Kind string // such as vulkan
	On   string // what that runs on, in words
	libs *regexp.Regexp
}

// uses say by which library of a vendor each backend is known, on Linux, Windows and macOS: what
// ggml's CMakeLists.txt link it with.
var uses = []Use{
	{"cuda", "NVIDIA's cards, through CUDA", re(`lib(?:cudart|cublas|cublasLt|cuda)\.so|cudart64_|cublas64_|nvcuda\.dll`)},
	{"hip", "AMD's cards, through HIP", re(`lib(?:amdhip64|hipblas|rocblas)\.so|(?:amdhip64|(?:lib)?hipblas|rocblas)[_0-9]*\.dll`)},
	{"musa", "Moore Threads' cards, through MUSA", re(`lib(?:musa|musart|mublas|mublasLt)\.so|(?:musa|musart|mublas)[_0-9]*\.dll`)},
	{"vulkan", "any card that has a driver for Vulkan", re(`lib(?:vulkan|MoltenVK)\.(?:so|dylib|[0-9])|vulkan-1\.dll`)},
	{
		"sycl", "Intel's cards, and others that its SYCL has a driver for",
		re(`lib(?:sycl|ur_loader|ze_loader|ze_intel_gpu)\.so|(?:sycl[0-9]*|ur_loader|ze_loader)\.dll`),
	},
	{"cann", "Huawei's Ascend NPUs, through CANN", re(`libascendcl\.so|ascendcl\.dll`)},
	{"opencl", "cards that have a driver for OpenCL", re(`libOpenCL\.so|OpenCL\.dll|OpenCL$`)},
	{"metal", "Apple's GPU, through Metal", re(`Metal$`)},
	{"openvino", "what OpenVINO has a plugin for", re(`libopenvino[._]|openvino\.dll`)},
	{"hexagon", "Qualcomm's Hexagon NPU", re(`libcdsprpc\.so|libcdsprpc\.dll`)},
	{"zdnn", "IBM Z's accelerator", re(`libzdnn\.so`)},
	{"rpc", "other machines that run ggml's rpc-server", nil},
}

func re(names string) *regexp.Regexp { return regexp.MustCompile(`^(?i:` + names + `)`) }

// UseOf returns what ggml's backend of a name computes with; false for the processor's.
func UseOf(kind string) (Use, bool) {
	i := slices.IndexFunc(uses, func(u Use) bool { return u.Kind == kind })
	if i < 0 {
		return Use{}, false
	}
	return uses[i], true
}

// usesOf says by what the file needs and exports with which backends it computes, whatever it is called.
func (out *File) usesOf() (kinds []string) {
	for _, u := range uses {
		needs := u.libs != nil && slices.ContainsFunc(out.Needed, func(lib string) bool {
			return u.libs.MatchString(path.Base(lib))
		})
		// The symbol that registers a backend stands in what it is linked into.
		if needs || u.libs == nil && out.Exported("ggml_backend_"+u.Kind+"_reg") {
			kinds = append(kinds, u.Kind)
		}
	}
	if slices.Contains(kinds, "sycl") { // whose runtime and libraries need OpenCL
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "opencl" })
	}
	return kinds
}

// Exported reports whether others can use a symbol of the file. macOS begins C's names with "_".
func (out *File) Exported(name string) bool {
	if out.MachO != nil {
		name = "_" + name
	}
	_, found := slices.BinarySearchFunc(out.exports, name, func(s Symbol, n string) int {
		return strings.Compare(s.Name, n)
	})
	return found
}

// Host says which program loads the file and gives it what no library has: node or python; "" for
// none that is known.
func (out *File) hostOf() string {
	switch {
	case out.Exported("napi_register_module_v1") || strings.HasSuffix(out.SOName, ".node"):
		return "node"
	case slices.ContainsFunc(out.exports, func(s Symbol) bool {
		return strings.HasPrefix(strings.TrimPrefix(s.Name, "_"), "PyInit_")
	}):
		return "python"
	}
	return ""
}

// FromHost reports whether a program that loads others gives a symbol itself: Node the napi_ and
// its own (Node-API, "node_api.h"), Python what its headers declare (Python/C API, "Stable ABI").
func FromHost(symbol string) (host string, ok bool) {
	switch {
	case strings.HasPrefix(symbol, "napi_"), strings.HasPrefix(symbol, "node_api_"),
		strings.HasPrefix(symbol, "_ZN4node"), strings.HasPrefix(symbol, "_ZN2v8"), strings.HasPrefix(symbol, "uv_"):
		return "Node", true
	case pythonRE.MatchString(symbol):
		return "Python", true
	}
	return "", false
}

var pythonRE = regexp.MustCompile(`^_?Py(?:[A-Z][A-Za-z]*)?_`)
