//go:build real

package llpatch_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	llpatch "github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

var cublas = flag.Bool("cublas", false, "fetch cuBLAS's DLLs too, 427 MB")

func TestMain(m *testing.M) {
	run.Supervise()
	os.Exit(m.Run())
}

// declared are the functions that headers declare with a macro before their names, or
// give another name, as the import libraries of the target are made of
// (patches/win7-cuda-clang, FindCUDAToolkit.cmake).
func declared(t *testing.T, macro string, headers ...string) []string {
	t.Helper()
	dir := os.Getenv("CUDA_HEADERS")
	if dir == "" {
		t.Fatal("CUDA_HEADERS names no folder of CUDA headers; scripts/cuda-headers makes one")
	}
	var names []string
	for _, h := range headers {
		data, err := os.ReadFile(filepath.Join(dir, "include", h))
		if err != nil {
			t.Fatal(err)
		}
		for _, re := range []string{
			macro + `[ \t]+(_*cu[A-Za-z0-9_]+)`,
			`(?m)^[ \t]*#[ \t]*define[ \t]+_*cu[A-Za-z0-9_]+[ \t]+(_*cu[A-Za-z0-9_]+)[ \t]*$`,
		} {
			for _, m := range regexp.MustCompile(re).FindAllSubmatch(data, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NVIDIA's own DLLs, which a full bundle for Windows 7 carries: every function that can be
// linked with is there but those named here, and Windows 7 with VxKex NEXT has what they need.
func TestNVIDIA(t *testing.T) {
	repo, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	d, err := repo.Buildenv("win7-cuda-runtime")
	if err != nil {
		t.Fatal(err)
	}
	if !*cublas {
		small := func(name string) bool {
			return name == "nvidia-cuda-runtime-cu11==11.8.89" || name == "nvidia-cuda-runtime-cu11"
		}
		lock, wheels := *d.Lock, *d.Wheels
		wheels.Packages = slices.DeleteFunc(slices.Clone(wheels.Packages), func(p string) bool { return !small(p) })
		lock.Packages = slices.DeleteFunc(slices.Clone(lock.Packages), func(p buildenv.Package) bool {
			return !small(p.Name)
		})
		d.Lock, d.Wheels, d.Holds = &lock, &wheels, []string{"nvidia/cuda_runtime/bin/cudart64_110.dll"}
	}
	made, err := buildenv.Create(t.Context(), d, buildenv.Options{Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d wheels, %d bytes downloaded, %.0f s", made.Packages, made.Downloaded, made.Seconds)
	var files []*binary.File
	for _, c := range []struct {
		dll, macro     string
		headers, lacks []string
		most           int // fewer are declared, or the headers were not read
	}{
		{
			"nvidia/cuda_runtime/bin/cudart64_110.dll", "CUDARTAPI",
			[]string{"cuda_runtime_api.h", "cuda_profiler_api.h", "crt/host_runtime.h", "crt/device_functions.h"},
			[]string{"cudaDeviceGetNvSciSyncAttributes"},
			250, // of Tegra's Linux alone
		},
		{"nvidia/cublas/bin/cublas64_11.dll", "CUBLASWINAPI", []string{"cublas_api.h"}, nil, 250},
		{"nvidia/cublas/bin/cublasLt64_11.dll", "", nil, nil, 0},
	} {
		if !*cublas && c.macro != "CUDARTAPI" {
			continue
		}
		f, err := binary.Inspect(filepath.Join(made.Root, c.dll))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		if c.macro == "" {
			continue
		}
		want := declared(t, c.macro, c.headers...)
		lacks := slices.DeleteFunc(slices.Clone(want), func(n string) bool {
			return slices.Contains(binary.Names(f.Exports()), n)
		})
		if len(want) < c.most || !slices.Equal(lacks, c.lacks) {
			t.Errorf("%s: %d functions are declared, and these are not exported: %q; want %q", c.dll, len(want), lacks, c.lacks)
		}
		t.Logf("%s: %d functions are declared, %d exported, not exported: %q", c.dll, len(want), f.ExportCount, lacks)
	}
	if w := binary.JudgeWindows7(files, spec.Win7VxKex); w.Faulty() {
		t.Errorf("with VxKex NEXT: %v", &binary.Lacking{Windows7: w})
	}
	// What the user is told VxKex NEXT for (docs/win7.md).
	if w := binary.JudgeWindows7(files, spec.Win7); len(w.Missing) != 14 {
		t.Errorf("on a bare Windows 7 %d are missing: %v", len(w.Missing), &binary.Lacking{Windows7: w})
	}
}
