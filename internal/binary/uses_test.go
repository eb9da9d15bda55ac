package binary

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a library is shows in what it needs and exports, whatever it is called: the names are those of
// real files, of packages for Node, of wheels for Python and of Debian.
func TestUses(t *testing.T) {
	for needed, want := range map[string]string{
		"libggml-base.so.0 libvulkan.so.1 libc.so.6":              "vulkan",
		"libsycl.so.8 libmkl_core.so.2 libOpenCL.so.1 libsvml.so": "sycl",
		"libur_loader.so.0":                                "sycl",
		"libze_loader.so.1":                                "sycl",
		"libascendcl.so libnnopbase.so":                    "cann",
		"libmusa.so.1 libmublas.so.3 libmusart.so.3":       "musa",
		"libOpenCL.so.1":                                   "opencl",
		"libhipblas.so.2 librocblas.so.4 libamdhip64.so.6": "hip",
		"libcudart.so.12 libcublas.so.12 libcuda.so.1":     "cuda",
		"libamdhip64.so.7 libcuda.so.1":                    "cuda hip",
		"KERNEL32.dll vulkan-1.dll":                        "vulkan",
		"kernel32.dll OPENCL.DLL":                          "opencl",
		"sycl8.dll OpenCL.dll":                             "sycl",
		"cudart64_12.dll":                                  "cuda",
		"nvcuda.dll":                                       "cuda",
		"amdhip64_7.dll hipblas.dll":                       "hip",
		"amdhip64.dll":                                     "hip",
		"musart64_4.dll":                                   "musa",
		"/System/Library/Frameworks/Metal.framework/Versions/A/Metal":   "metal",
		"/System/Library/Frameworks/OpenCL.framework/Versions/A/OpenCL": "opencl",
		"@rpath/libvulkan.1.dylib":                                      "vulkan",
		"libgomp.so.1 libopenblas.so.0 libmetalink.so.3 libc.so.6":      "",
		"libvulkanhelper.so libcudart_stub.so":                          "",
		"libggml-vulkan.so.0":                                           "", // it is that library that needs Vulkan
	} {
		f := &File{Needed: strings.Fields(needed)}
		if got := strings.Join(f.usesOf(), " "); got != want {
			t.Errorf("%s: %q, want %q", needed, got, want)
		}
	}
	rpc := &File{exports: []Symbol{{"ggml_backend_init", ""}, {"ggml_backend_rpc_reg", ""}}}
	if got := strings.Join(rpc.usesOf(), " "); got != "rpc" {
		t.Errorf("rpc: %q", got)
	}
	for _, u := range uses {
		if got, ok := UseOf(u.Kind); !ok || got.On == "" {
			t.Errorf("%s: %v", u.Kind, got)
		}
	}
}

// A library is a backend by ggml_backend_init; ggml loads it by its name and, of several of one
// kind, by ggml_backend_score. auditwheel's names with a hash are those of variants.
func TestBackendOf(t *testing.T) {
	for _, c := range []struct{ name, exports, kind, why string }{
		{"libggml-vulkan.so", "ggml_backend_init", "vulkan", ""},
		{"libggml-cpu-haswell.so", "ggml_backend_init ggml_backend_score", "cpu", ""},
		{"libggml-hip-rocm7.so", "ggml_backend_init ggml_backend_score", "hip", ""},
		{"libggml-vulkan-05e8ee48.so", "ggml_backend_init", "vulkan", "only what has ggml_backend_score"},
		{"libggml-vulkan.so.0", "ggml_backend_init", "vulkan", "libggml-NAME.so"},
		{"libggml-cuda.dylib", "ggml_backend_init", "cuda", "libggml-NAME.so"},
		{"libfast.so", "ggml_backend_init", "cuda", "libggml-NAME.so"},
		{"libggml-fast.so", "ggml_backend_init", "cuda", "no backend called fast"},
		{"libggml-cuda.so", "ggml_backend_cuda_reg", "none", ""},
	} {
		f := &File{Needed: []string{"libcudart.so.12"}}
		for s := range strings.FieldsSeq(c.exports) {
			f.exports = append(f.exports, Symbol{Name: s})
		}
		b, ok := BackendOf("/x/"+c.name, f)
		if ok != (c.kind != "none") || ok && (b.Kind != c.kind || (b.Why == "") != (c.why == "") ||
			!strings.Contains(b.Why, c.why)) {
			t.Errorf("%s: %+v, %v", c.name, b, ok)
		}
	}
	win := &File{PE: &PE{}, exports: []Symbol{{"ggml_backend_init", ""}}}
	for name, loads := range map[string]bool{
		"ggml-vulkan.dll": true, "libggml-vulkan.dll": false, "ggml-vulkan-x.dll": false,
	} {
		if b, ok := BackendOf(name, win); !ok || b.Kind != "vulkan" || (b.Why == "") != loads {
			t.Errorf("%s: %+v, %v", name, b, ok)
		}
	}
}

// stubs compiles libraries and programs in a folder by a shell script, where so NAME C-SOURCE FLAGS makes one.
func stubs(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("sh", "-ec", `so() { n=$1; echo "$2" >s.c; shift 2; gcc -shared -fPIC -Wl,--no-as-needed -o "$n" s.c "$@"; }
`+script)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// Backends are found beside a program and where distributions have them, by what they export.
func TestBackendsInFolders(t *testing.T) {
	dir := stubs(t, `mkdir '[u]'; ln -s '[u]' usr; mkdir -p usr/bin usr/lib/x86_64-linux-gnu/ggml/backends0
i='int ggml_backend_init(void) { return 0; }'
so libvulkan.so.1 'int v;' -Wl,-soname,libvulkan.so.1
so usr/bin/libggml-rpc.so "$i int ggml_backend_rpc_reg;"
so usr/bin/libggml-base.so 'int b;'
so usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so "$i" -L. -l:libvulkan.so.1
ln -s libggml-vulkan.so usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan-1.so
echo text > usr/bin/libggml-cuda.so
mkdir usr/bin/libggml-hip.so usr/bin/ggml`)
	// One folder of them cannot be read.
	dirs := BackendFolders(filepath.Join(dir, "[u]", "bin"))
	if err := os.Remove(filepath.Join(dir, "usr/bin/ggml")); err != nil || len(dirs) != 4 {
		t.Fatal(dirs, err)
	}
	list, err := Backends(t.Context(), dirs...)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, b := range list {
		rel, err := filepath.Rel(dir, b.File)
		if err != nil {
			t.Fatal(err)
		}
		got += rel + " " + b.Kind + " " + map[bool]string{true: "loaded", false: "not"}[b.Why == ""] + "\n"
	}
	const at = "[u]/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan"
	if got != "[u]/bin/libggml-rpc.so rpc loaded\n"+at+"-1.so vulkan not\n"+at+".so vulkan loaded\n" {
		t.Error(got)
	}
}

// An addon takes what Node or Python gives it, which no library has.
func TestHost(t *testing.T) {
	dir := stubs(t, `so llama-addon.node 'int napi_create_int32(); int f(void) { return napi_create_int32(); } void napi_register_module_v1(void) {}'
so m.cpython-311.so 'int PyLong_FromLong(long); int PyInit_m(void) { return PyLong_FromLong(1); }'
so plain.so 'int x;'`)
	for name, want := range map[string]string{"llama-addon.node": "node", "m.cpython-311.so": "python", "plain.so": ""} {
		f, err := Inspect(filepath.Join(dir, name))
		if err != nil || f.Host != want {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	for symbol, want := range map[string]string{
		"napi_create_int32": "Node", "node_api_create_syntax_error": "Node", "PyLong_FromLong": "Python",
		"_PyObject_New": "Python", "Py_Initialize": "Python", "_Py_Dealloc": "Python", "PyramidDraw": "", "pyx": "",
		"napier": "", "cudaMalloc": "",
	} {
		if got, ok := FromHost(symbol); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", symbol, got, want)
		}
	}
}

// What is loaded with a program is not looked for by a backend that comes into it later.
func TestBackendFindsWhatIsLoaded(t *testing.T) {
	backend := &File{
		Name: "libggml-vulkan.so", Needed: []string{"libggml-base.so.0"}, exports: []Symbol{{Name: "ggml_backend_init"}},
	}
	base := &File{Name: "libggml-base.so.0", SOName: "libggml-base.so.0"}
	prog := &File{Name: "prog", Needed: []string{"libggml-base.so.0"}, RunPath: []string{"$ORIGIN"}}
	if lost := Unreachable([]*File{backend, base, prog}); len(lost) > 0 {
		t.Errorf("%v", lost)
	}
	if lost := Unreachable([]*File{backend, base}); len(lost) != 1 {
		t.Errorf("without a program: %v", lost)
	}
}

func TestWasmOfFile(t *testing.T) {
	dir := t.TempDir()
	for name, data := range wasms() {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]Wasm{
		"browser": {
			Kind: "module", Bits: 64, Imports: []string{"env"},
			For: "a browser or Node, with the JavaScript that was made with it (imports of env)",
		},
		"wasi": {
			Kind: "module", Bits: 32, Imports: []string{"wasi_snapshot_preview1"},
			For: "a runtime with WASI, or Node",
		},
		"alone":     {Kind: "module", Bits: 32, For: "any runtime"},
		"component": {Kind: "component", Bits: 32, For: "a runtime of the component model"},
	} {
		f, err := Inspect(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w := f.Wasm
		if w.Kind != want.Kind || w.Bits != want.Bits || w.For != want.For || !slices.Equal(w.Imports, want.Imports) {
			t.Errorf("%s: %+v", name, w)
		}
	}
	for _, name := range []string{"cut", "long name"} {
		if f, err := Inspect(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: %+v", name, f.Wasm)
		}
	}
}
