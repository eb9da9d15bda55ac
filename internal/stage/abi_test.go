package stage

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
)

func library(t *testing.T, file, source string, args ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-x", "c", "-o", file, "-", "-x", "none"}, args...)...)
	c.Stdin = strings.NewReader(source)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func inspect(t *testing.T, file string) *binary.File {
	t.Helper()
	f, err := binary.Inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A backend that takes a symbol of ggml's that the stock build lacks is no drop-in.
func TestABI(t *testing.T) {
	dir := t.TempDir()
	library(t, filepath.Join(dir, "libggml-base.so"),
		"int ggml_old(void) { return 1; }\nint ggml_other(void) { return 2; }\n")
	host := []*binary.File{inspect(t, filepath.Join(dir, "libggml-base.so"))}
	for source, want := range map[string]string{
		"int ggml_old(void);\nint cuInit(void);\nint x(void) { return ggml_old() + cuInit(); }\n":     "",
		"int ggml_old(void);\nint ggml_new(void);\nint x(void) { return ggml_old() + ggml_new(); }\n": "libggml-cuda.so: needs the symbol ggml_new, which the stock build of this tag does not have",
	} {
		lib := filepath.Join(dir, "libggml-cuda.so")
		library(t, lib, source)
		err := ABI(t.Context(), "libggml-cuda.so", inspect(t, lib), dir, host)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A backend for Windows may take C functions of ggml's DLLs alone, and what those have.
func TestABIOfDLLs(t *testing.T) {
	for want, functions := range map[string][]string{
		"": {"ggml_old"},
		"needs ggml_new of ggml-base.dll, which the stock build of this tag does not have": {"ggml_old", "ggml_new"},
		"takes _Z8ggml_abcv from ggml-base.dll, which is no C function":                    {"_Z8ggml_abcv"},
		"takes ?ggml_abc@@YAXXZ from ggml-base.dll, which is no C function":                {"?ggml_abc@@YAXXZ"},
	} {
		lib := &binary.File{PE: &binary.PE{Imports: []binary.ImportedDLL{
			{DLL: "KERNEL32.dll", Functions: []string{"_Zero", "GetLastError"}}, {DLL: "ggml-base.dll", Functions: functions},
		}}}
		err := abiPE("ggml-cuda.dll", lib.PE, map[string]bool{"ggml_old": true, "_Z8ggml_abcv": true})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCUDALibs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	library(t, at("lib/libcudart.so.11.0"), "int a;", "-Wl,-soname,libcudart.so.11.0")
	library(t, at("lib/stubs/libcuda-of-no-machine.so"), "int a;", "-Wl,-soname,libcuda-of-no-machine.so.1")
	library(t, at("lib/libcublasLt.so.11"), "int a;", "-Wl,-soname,libcublasLt.so.11")
	library(t, at("lib/libcublas.so.11"), "int a;", "-Wl,-soname,libcublas.so.11", "-Wl,--no-as-needed",
		at("lib/libcublasLt.so.11"))
	library(t, at("lib/stubs/libcufft.so"), "int a;", "-Wl,-soname,libcufft.so.9")
	needs := []*binary.File{{Needed: []string{
		"libc.so.6", "libcudart.so.11.0", "libcuda-of-no-machine.so.1",
		"libcublas.so.11", "libcufft.so.10", "libcusolver.so.11",
	}}}
	l, err := CUDALibraries(at("out"), needs, build.CUDAFact{Version: "11.8", Libs: []string{at("lib"), at("lib/stubs")}})
	if err != nil {
		t.Fatal(err)
	}
	// A library that another needs is led to as well.
	for name, want := range map[string]string{
		"cuda/libcudart.so.11.0": "lib/libcudart.so.11.0", "cuda/libcublas.so.11": "lib/libcublas.so.11",
		"cuda/libcublasLt.so.11":          "lib/libcublasLt.so.11",
		"stub/libcuda-of-no-machine.so.1": "lib/stubs/libcuda-of-no-machine.so",
	} {
		if to, err := os.Readlink(at(filepath.Join("out", name))); err != nil || to != at(want) {
			t.Errorf("%s leads to %s, %v", name, to, err)
		}
	}
	for _, want := range []string{
		"the toolkit's stub stands for libcuda-of-no-machine.so.1", "is libcufft.so.9",
		"libcusolver.so.11 is neither on this machine nor in the toolkit",
	} {
		if !slices.ContainsFunc(l.How, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q does not say %q", l.How, want)
		}
	}
	// A stub is nothing for programs that run on a card.
	if want := []string{"LD_LIBRARY_PATH=" + at("out/cuda")}; !slices.Equal(l.CardEnv, want) {
		t.Errorf("card %q", l.CardEnv)
	}
	if l, err := CUDALibraries(at("out"), needs, build.CUDAFact{}); err != nil || l.HostEnv != nil {
		t.Errorf("a build without CUDA: %+v, %v", l, err)
	}
}
