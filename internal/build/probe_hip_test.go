package build

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// A ROCm 6.4 of scripts, which answer what a plan's probe asks; the words in capitals
// are replaced. What clang "writes" is a bundle that clang 21 made: gfx1201.
const (
	fakeHipcc     = "#!/bin/sh\necho 'HIP version: 6.4.43484-9999'\n"
	fakeHipconfig = `#!/bin/sh
case $1 in
--rocmpath) printf %s "ROOT" ;;
--hipclangpath) printf %s "ROOT/llvm/bin" ;;
*) exit 2 ;;
esac
`
	fakeHipClang = `#!/bin/sh
case " $* " in
*" --version "*) echo "AMD clang version 19.0.0git" ;;
*" -E "*) echo 'llpatch_versions 6 4 llpatch_end' ;;
*" -### "*) echo ' "-mlink-builtin-bitcode" "ROOT/amdgcn/bitcode/ocml.bc" ' >&2 ;;
*" -c "*)
	while [ "$1" != -o ]; do shift; done
	cp BUNDLE "$2" ;;
esac
`
)

// rocm is a folder with a fake ROCm, and a toolchain of which nothing else is taken.
func rocm(t *testing.T, change func(files map[string]string)) (spec.Toolchain, spec.Recipe, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := filepath.Abs("../binary/testdata/hip/version4.hipfb")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"bin/hipcc": fakeHipcc, "bin/hipconfig": fakeHipconfig, "llvm/bin/clang++": fakeHipClang,
		"bin/gcc":   "#!/bin/sh\necho 'gcc (Debian 12.2.0-14) 12.2.0'\n",
		"bin/g++":   "#!/bin/sh\necho 'g++ (Debian 12.2.0-14) 12.2.0'\n",
		"bin/cmake": "#!/bin/sh\necho cmake version 3.28.1\n", "bin/ninja": "#!/bin/sh\necho 1.11.1\n",
		"lib/libamdhip64.so": "", "lib/libhipblas.so": "", "lib/librocblas.so": "",
	}
	for _, name := range []string{"hip", "hipblas", "rocblas"} {
		files["lib/cmake/"+name+"/"+name+"-config.cmake"] = ""
	}
	if change != nil {
		change(files)
	}
	fakes(t, dir, files, "ROOT", dir, "BUNDLE", bundle)
	tc := spec.Toolchain{
		Name: "fake", OS: runtime.GOOS, Arch: runtime.GOARCH, JobMiB: 100,
		Programs: map[string]spec.Tool{
			"cmake": {Names: []string{"cmake"}}, "ninja": {Names: []string{"ninja"}},
			"hipcc": {Names: []string{"hipcc"}, Min: "6.1", Max: "7", Debian: "hipcc", Dirs: []string{"$ROCM_PATH/bin"}},
			"cc":    {Names: []string{"gcc"}}, "cxx": {Names: []string{"g++"}},
		},
	}
	rec := spec.Recipe{
		Name: "fake", Backends: []string{"hip"},
		Verify: spec.Verify{HIP: &spec.HIP{Files: []string{"x"}, Archs: []string{"gfx1201"}}},
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
	t.Setenv("ROCM_PATH", "")
	return tc, rec, dir
}

func TestProbeHIP(t *testing.T) {
	tc, rec, dir := rocm(t, nil)
	f, err := Probe(t.Context(), tc, rec)
	if err != nil {
		t.Fatal(err)
	}
	h := f.HIP
	if h.Version != "6.4" || h.Root != dir || h.Clang != filepath.Join(dir, "llvm/bin/clang++") ||
		h.Compiler != "19.0.0" ||
		h.DeviceLib != filepath.Join(dir, "amdgcn/bitcode") || !slices.Equal(h.Libs, []string{filepath.Join(dir, "lib")}) {
		t.Errorf("%+v", h)
	}
	if got := f.Tools["hipcc"]; got.Version != "6.4.43484" {
		t.Errorf("hipcc %+v", got)
	}
	// AMD's own clang is taken first, and a ROCm beside the PATH is found.
	tc, rec, dir = rocm(t, func(files map[string]string) {
		files["opt/bin/hipcc"], files["opt/bin/hipconfig"] = files["bin/hipcc"], files["bin/hipconfig"]
		files["llvm/bin/amdclang++"] = files["llvm/bin/clang++"]
		delete(files, "bin/hipcc")
	})
	t.Setenv("ROCM_PATH", filepath.Join(dir, "opt"))
	if f, err = Probe(t.Context(), tc, rec); err != nil || f.Tools["hipcc"].Path != filepath.Join(dir, "opt/bin/hipcc") ||
		filepath.Base(f.HIP.Clang) != "amdclang++" {
		t.Errorf("beside the PATH: %+v, %v", f.HIP, err)
	}
}

// What is wrong with a ROCm is said before anything is compiled, with what to do.
func TestProbeRefusesROCm(t *testing.T) {
	clang := func(old, with string) func(files map[string]string) {
		return func(files map[string]string) {
			files["llvm/bin/clang++"] = strings.Replace(files["llvm/bin/clang++"], old, with, 1)
		}
	}
	without := func(names ...string) func(files map[string]string) {
		return func(files map[string]string) {
			for _, name := range names {
				delete(files, name)
			}
		}
	}
	const compile = "cp BUNDLE \"$2\""
	for name, c := range map[string]struct {
		change    func(files map[string]string)
		archs     []string
		say, next string
	}{
		"no hipconfig": {without("bin/hipconfig"), nil, "there is no hipconfig beside it", "llpatch env create rocm"},
		"no clang":     {without("llvm/bin/clang++"), nil, "holds no amdclang++ or clang++ that runs", "whole ROCm"},
		"a mute hipconfig": {func(files map[string]string) {
			files["bin/hipconfig"] = "#!/bin/sh\nexit 1\n"
		}, nil, "--rocmpath does not tell a folder", "whole ROCm"},
		"no header": {
			clang("echo 'llpatch_versions 6 4 llpatch_end'", `echo 'llpatch_missing "hipblas/hipblas.h"'`),
			nil, "has no header hipblas/hipblas.h", "libhipblas-dev",
		},
		"another version": {
			clang("_versions 6 4", "_versions 5 7"), nil, "--version says HIP 6.4, and the headers in",
			"two ROCms are mixed",
		},
		"no preprocessor": {
			clang("echo 'llpatch_versions 6 4 llpatch_end'", "exit 1"), nil, "cannot preprocess a file",
			"whole ROCm",
		},
		"a script": {
			clang("echo 'llpatch_versions 6 4 llpatch_end'", "echo hello"), nil,
			"preprocesses nothing that could be told", "not scripts",
		},
		"no library": {without("lib/librocblas.so"), nil, "has no librocblas.so to link with", "librocblas-dev"},
		"no CMake files": {
			without("lib/cmake/hipblas/hipblas-config.cmake"), nil,
			"has no lib/cmake/hipblas/hipblas-config.cmake", "whole ROCm",
		},
		"an old clang": {
			clang(compile, `echo "clang++: error: invalid target ID 'gfx1201'; format is" >&2; exit 1`), nil,
			"does not know gfx1201", "clang 19 and newer",
		},
		"a generic one": {
			clang(compile, `echo "clang++: error: invalid target ID 'gfx12-generic'" >&2; exit 1`),
			[]string{"gfx12-generic"},
			"does not know gfx12-generic", "clang 19 and newer",
		},
		"no device code": {
			clang(compile, `echo "clang++: error: cannot find ROCm device library for gfx1201" >&2; exit 1`),
			nil, "finds no device library for gfx1201", "rocm-device-libs",
		},
		"cannot compile": {
			clang(compile, `echo "error: something else" >&2; exit 1`), nil,
			"cannot compile the smallest kernel for gfx1201", "whole ROCm",
		},
		"writes nothing": {clang(compile, ":"), nil, "wrote nothing", "not scripts"},
		"writes rubbish": {clang(compile, `echo rubbish > "$2"`), nil, "is no device code", "not scripts"},
		"another target": {nil, []string{"gfx1200"}, "was asked for gfx1200 and made code for gfx1201", "not scripts"},
		"without end": {
			clang(`echo 'llpatch_versions 6 4 llpatch_end'`, "exec cat /dev/zero"), nil,
			"wrote more than 64 MiB", "not scripts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc, rec, _ := rocm(t, c.change)
			if c.archs != nil {
				rec.Verify.HIP.Archs = c.archs
			}
			_, err := Probe(t.Context(), tc, rec)
			var bad *BadToolkit
			if !errors.As(err, &bad) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), c.say) || !strings.HasPrefix(err.Error(), "hipcc 6.4.43484 (") ||
				!strings.Contains(bad.Next, c.next) {
				t.Errorf("%v\nnext: %s", err, bad.Next)
			}
		})
	}
	tc, rec, _ := rocm(t, func(files map[string]string) {
		files["bin/hipcc"] = strings.Replace(fakeHipcc, "6.4", "5.7", 1)
	})
	var missing *MissingTools
	if _, err := Probe(t.Context(), tc, rec); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "6.1 or newer is needed") {
		t.Errorf("too old: %v", err)
	}
}

// A real ROCm, where one is installed.
func TestProbeRealROCm(t *testing.T) {
	r := repo(t)
	tc := r.Toolchains["linux-x64-rocm"]
	found := slices.ContainsFunc(candidates(tc.Programs["hipcc"], os.Getenv("PATH")), func(file string) bool {
		return exec.Command(file, "--version").Run() == nil
	})
	if !found {
		t.Skip("SKIPPED: there is no hipcc on this machine; the scripts of the other tests stand for one, and llpatch env " +
			"create rocm makes a root with one")
	}
	rec, err := r.Recipe("rocm-gfx1201")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Probe(t.Context(), tc, rec)
	if err != nil {
		t.Fatal(err)
	}
	if f.HIP.Version == "" || f.HIP.DeviceLib == "" || len(f.HIP.Libs) == 0 {
		t.Errorf("%+v", f.HIP)
	}
}

func TestSystem(t *testing.T) {
	dir := t.TempDir()
	if got := system(dir); got != "" {
		t.Errorf("%q", got)
	}
	write(t, dir, map[string]string{"usr/lib/os-release": "NAME=x\nVERSION_ID=\"14\"\nID=\"debian\"\n"})
	if got := system(dir); got != "debian" {
		t.Errorf("%q", got)
	}
}
