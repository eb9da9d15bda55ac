package build

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// fakeNvcc answers what a plan's probe asks; the words in capitals are replaced.
// What it writes is device code that nvcc 11.8 made: sm_75, sm_86 and compute_86.
const fakeNvcc = `#!/bin/sh
case " $* " in
*" --version "*)
	echo "nvcc: NVIDIA (R) Cuda compiler driver"
	echo "Cuda compilation tools, release 11.8, V11.8.89" ;;
*" --help "*) echo "--objdir-as-tempdir   (-objtemp)" ;;
*" --list-gpu-code "*) echo "sm_35 sm_50 sm_75 sm_80 sm_86" ;;
*" -E "*)
	echo '# 1 "ROOT/include/cuda_runtime.h" 1'
	echo 'llpatch_versions'
	echo '# 4 "headers.cu" 3 4'
	echo '11080 11080 11 8 llpatch_end' ;;
*" -fatbin "*)
	while [ "$1" != -o ]; do shift; done
	cp FATBIN "$2" ;;
esac
`

// toolkit is a folder with a fake CUDA and host compilers, and a toolchain of
// which nothing else is taken.
func toolkit(t *testing.T, change func(files map[string]string)) (spec.Toolchain, spec.Recipe, string) {
	t.Helper()
	dir := t.TempDir()
	fatbin, err := filepath.Abs("../binary/testdata/fatbin/cuda-11.8-lz4.fatbin")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"bin/nvcc":           fakeNvcc,
		"bin/gcc-12":         "#!/bin/sh\necho 'gcc-12 (Debian 12.2.0-14) 12.2.0'\n",
		"bin/g++-12":         "#!/bin/sh\necho 'g++-12 (Debian 12.2.0-14) 12.2.0'\n",
		"bin/gcc-11":         "#!/bin/sh\necho 'gcc-11 (Debian 11.3.0-12) 11.3.0'\n",
		"bin/g++-11":         "#!/bin/sh\necho 'g++-11 (Debian 11.3.0-12) 11.3.0'\n",
		"bin/cmake":          "#!/bin/sh\necho cmake version 3.25.1\n",
		"bin/ninja":          "#!/bin/sh\necho 1.11.1\n",
		"lib64/libcudart.so": "", "lib64/libcublas.so": "", "lib64/stubs/libcuda.so": "", "include/cuda_runtime.h": "",
	}
	if change != nil {
		change(files)
	}
	fakes(t, dir, files, "ROOT", dir, "FATBIN", fatbin)
	tc := spec.Toolchain{
		Name: "fake", OS: runtime.GOOS, Arch: runtime.GOARCH, JobMiB: 100,
		Programs: map[string]spec.Tool{
			"cmake": {Names: []string{"cmake"}}, "ninja": {Names: []string{"ninja"}},
			"nvcc": {
				Names: []string{"nvcc"}, Min: "11.4", Max: "13", Debian: "nvidia-cuda-toolkit", Hint: "it is in non-free",
				Dirs: []string{"$CUDA_HOME/bin"},
			},
			"cc":  {Names: []string{"gcc-12", "gcc-11"}, Min: "11", Debian: "gcc"},
			"cxx": {Names: []string{"g++-12", "g++-11"}, Min: "11", Debian: "g++"},
		},
	}
	rec := spec.Recipe{Name: "fake", Backends: []string{"cuda"}, Verify: spec.Verify{CUDA: &spec.CUDA{
		Files: []string{"x"}, Archs: []string{"sm_75", "sm_86"}, PTX: []string{"compute_86"},
	}}}
	// What the scripts themselves call comes from the system.
	t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
	t.Setenv("CUDA_HOME", "")
	return tc, rec, dir
}

func TestProbeCUDA(t *testing.T) {
	tc, rec, dir := toolkit(t, nil)
	f, err := Probe(t.Context(), tc, rec)
	if err != nil {
		t.Fatal(err)
	}
	// GCC 12 stands first, and CUDA 11.8 does not take it.
	if got := f.Tools["cxx"].Path; got != filepath.Join(dir, "bin/g++-11") {
		t.Errorf("host compiler %s", got)
	}
	if got := f.Tools["nvcc"]; got.Version != "11.8.89" || !strings.HasPrefix(got.Banner, "Cuda compilation tools") {
		t.Errorf("nvcc %+v", got)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := CUDAFact{
		Version: "11.8", Root: real, Libs: []string{filepath.Join(real, "lib64"), filepath.Join(real, "lib64/stubs")},
		Archs: []string{"sm_35", "sm_50", "sm_75", "sm_80", "sm_86"}, ObjTemp: true,
	}
	if got := f.CUDA; got.Version != want.Version || got.Root != want.Root || !slices.Equal(got.Libs, want.Libs) ||
		!slices.Equal(got.Archs, want.Archs) || !got.ObjTemp {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Where there is a host compiler for nvcc alone, the others may be what nvcc does not take.
func TestProbeHostOfNvcc(t *testing.T) {
	for says, want := range map[string]string{
		"":                                   "g++-11 g++-11",
		"nvcc-host (Debian 10.2.1-6) 10.2.1": "g++-12 nvcc-host",
		"nvcc-host (Debian 12.2.0) 12.2.0":   "is version 12.2.0, and 11 is the newest that nvcc 11.8.89",
	} {
		tc, rec, dir := toolkit(t, func(files map[string]string) {
			if says != "" {
				files["bin/nvcc-host"] = "#!/bin/sh\necho '" + says + "'\n"
			}
			// It tells with which host compiler it was called.
			files["bin/nvcc"] = strings.Replace(fakeNvcc, "#!/bin/sh\n", "#!/bin/sh\necho \"$@\" >> ROOT/calls\n", 1)
		})
		tc.Programs[hostRole] = spec.Tool{Names: []string{"nvcc-host"}, Optional: true, Debian: "g++"}
		f, err := Probe(t.Context(), tc, rec)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", says, err)
			}
			continue
		}
		o := options{}
		if err := o.cuda(Input{Recipe: rec, Toolchain: tc, Facts: f, Source: "/s", Dir: "/b"}); err != nil {
			t.Fatal(err)
		}
		host := o["CMAKE_CUDA_HOST_COMPILER"].Value
		if got := filepath.Base(f.Tools["cxx"].Path) + " " + filepath.Base(host); got != want {
			t.Errorf("%q: %s, want %s", says, got, want)
		}
		calls, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil || !strings.Contains(string(calls), "-ccbin "+host+" -fatbin") {
			t.Errorf("%q: nvcc was called with\n%s, %v", says, calls, err)
		}
	}
}

// Which archs are tried is told by the version of nvcc.
func TestProbeTakesArchsOfToolkit(t *testing.T) {
	tc, rec, _ := toolkit(t, nil)
	all := *rec.Verify.CUDA
	rec.Verify.CUDA = &spec.CUDA{Files: all.Files, Toolkits: []spec.Toolkit{
		{From: "11.4", Archs: []string{"sm_80"}},
		{From: "11.8", Archs: all.Archs, PTX: all.PTX},
		{From: "12.0", Archs: []string{"sm_90"}},
	}}
	f, err := Probe(t.Context(), tc, rec)
	if err != nil {
		t.Fatal(err)
	}
	o := options{}
	if err := o.cuda(Input{Recipe: rec, Toolchain: tc, Facts: f, Source: "/s", Dir: "/b"}); err != nil {
		t.Fatal(err)
	}
	if got, want := o[archsOption].Value, "75-real;86-real;86-virtual"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A toolkit beside the PATH is found, the newest first.
func TestProbeLooksInFolders(t *testing.T) {
	tc, rec, dir := toolkit(t, func(files map[string]string) {
		files["elsewhere/cuda-12.10/bin/nvcc"] = files["bin/nvcc"]
		files["elsewhere/cuda-12.9/bin/nvcc"] = files["bin/nvcc"]
		delete(files, "bin/nvcc")
	})
	for _, v := range []string{"12.9", "12.10"} {
		if err := os.Chmod(filepath.Join(dir, "elsewhere/cuda-"+v+"/bin/nvcc"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	nvcc := tc.Programs["nvcc"]
	nvcc.Dirs = []string{"$CUDA_HOME/bin", filepath.Join(dir, "elsewhere/cuda-*/bin")}
	tc.Programs["nvcc"] = nvcc
	for home, want := range map[string]string{"": "cuda-12.10", filepath.Join(dir, "elsewhere/cuda-12.9"): "cuda-12.9"} {
		t.Setenv("CUDA_HOME", home)
		f, err := Probe(t.Context(), tc, rec)
		if err != nil {
			t.Fatal(err)
		}
		if got := filepath.Join(dir, "elsewhere", want, "bin/nvcc"); f.Tools["nvcc"].Path != got {
			t.Errorf("CUDA_HOME=%q: %s, want %s", home, f.Tools["nvcc"].Path, got)
		}
	}
}

// What is wrong with a toolkit is said before anything is compiled.
func TestProbeRefusesToolkit(t *testing.T) {
	nvcc := func(old, with string) func(map[string]string) {
		return func(files map[string]string) {
			if !strings.Contains(files["bin/nvcc"], old) {
				t.Errorf("the fake has no %q", old)
			}
			files["bin/nvcc"] = strings.Replace(files["bin/nvcc"], old, with, 1)
		}
	}
	without := func(names ...string) func(map[string]string) {
		return func(files map[string]string) {
			for _, n := range names {
				delete(files, n)
			}
		}
	}
	version := func(v string) func(map[string]string) {
		return nvcc("release 11.8, V11.8.89", "release "+v+", V"+v+".1")
	}
	for name, c := range map[string]struct {
		change func(map[string]string)
		archs  []string
		want   []string
	}{
		"no nvcc": {without("bin/nvcc"), nil, []string{
			"nvcc: not on the PATH nor in $CUDA_HOME/bin",
			"Debian package nvidia-cuda-toolkit", "it is in non-free",
		}},
		"too old": {version("11.2"), nil, []string{"nvcc is version 11.2.1, and 11.4 or newer is needed"}},
		"too new": {version("14.0"), nil, []string{"nvcc is version 14.0.1, and 13 is the newest"}},
		"garbage": {nvcc("release 11.8, V11.8.89", "hello"), nil, []string{"names no version that can be read"}},
		"host too new": {
			without("bin/gcc-11", "bin/g++-11"), nil,
			[]string{"g++-12 is version 12.2.0, and 11 is the newest that nvcc 11.8.89 (", "apt-get install -y g++-11 gcc-11"},
		},
		"its header says so": {
			nvcc("*\" -E \"*)", "*\" -E \"*) echo 'error: #error -- unsupported GNU version! gcc "+
				"versions later than 10 are not supported!' >&2; exit 1 ;; xx)"), nil,
			[]string{"does not take", "GCC 11.3.0", "allows GCC 10 at most"},
		},
		"no headers": {nvcc("*\" -E \"*)", "*\" -E \"*) echo 'fatal error: cuda_runtime.h: No such file' >&2; "+
			"exit 1 ;; xx)"), nil, []string{"cannot preprocess", "cuda_runtime.h: No such file"}},
		"no cuda.h": {
			nvcc("echo 'llpatch_versions'", "echo 'llpatch_missing \"cuda.h\"'"), nil,
			[]string{"has no header cuda.h"},
		},
		"no cublas header": {
			nvcc("echo 'llpatch_versions'", "echo 'llpatch_missing \"cublas_v2.h\"'"), nil,
			[]string{"has no header cublas_v2.h"},
		},
		"no cublas":    {without("lib64/libcublas.so"), nil, []string{"has no libcublas.so to link with"}},
		"no libraries": {without("lib64/libcudart.so", "lib64/libcublas.so"), nil, []string{"to link with"}},
		"lies, header": {
			nvcc("11080 11080 11 8", "12040 11080 11 8"), nil,
			[]string{"--version says CUDA 11.8, and the header cuda.h that it reads is of CUDA 12.4"},
		},
		"lies, compiler": {
			version("12.4"), nil,
			[]string{"--version says CUDA 12.4, and the compiler behind it is of CUDA 11.8"},
		},
		"lies, all but code": {func(f map[string]string) {
			version("12.4")(f)
			nvcc("11080 11080 11 8", "12040 12040 12 4")(f)
		}, nil, []string{"the code that it makes is CUDA 11.8's"}},
		"preprocesses words": {
			nvcc("echo 'llpatch_versions'", "echo hello"), nil,
			[]string{"preprocesses nothing that could be told"},
		},
		"writes nothing": {
			nvcc("cp FATBIN \"$2\"", ":"), nil,
			[]string{"says that it compiled a kernel, and wrote nothing"},
		},
		"writes rubbish": {nvcc("cp FATBIN \"$2\"", "echo x >$2"), nil, []string{"what it wrote is no device code"}},
		"cannot compile": {
			nvcc("cp FATBIN \"$2\"", "echo 'ptxas fatal : oops' >&2; exit 1"), nil,
			[]string{"cannot compile the smallest kernel for sm_75 sm_86", "ptxas fatal : oops"},
		},
		"an arch it lacks": {
			nil,
			[]string{"sm_120a"},
			[]string{"does not know sm_120a; CUDA 12.8 and newer have it; this one knows sm_35"},
		},
		"an arch it dropped": {
			nvcc("sm_35 sm_50", "sm_50"),
			[]string{"sm_35"},
			[]string{"does not know sm_35; CUDA 11.8 was the last that had it"},
		},
		"another arch": {
			nil,
			[]string{"sm_80"},
			[]string{"it was asked for sm_80 and made code for sm_75 sm_86 compute_86"},
		},
		"archs for ever": {
			nvcc("echo \"sm_35 sm_50 sm_75 sm_80 sm_86\"", "exec yes sm_86"), nil,
			[]string{"bin/nvcc): with --list-gpu-code it wrote more than 64 MiB"},
		},
		"help for ever": {
			nvcc("echo \"--objdir-as-tempdir   (-objtemp)\"", "exec yes help"), nil,
			[]string{"with --help it wrote more than 64 MiB"},
		},
		"headers for ever": {
			nvcc("echo 'llpatch_versions'", "exec yes"), nil,
			[]string{"-E headers.cu it wrote more than 64 MiB"},
		},
		"messages for ever": {nvcc("cp FATBIN \"$2\"", "exec yes >&2"), nil, []string{"kernel.cu it wrote more than 64 MiB"}},
		"no list of archs":  {nvcc("--list-gpu-code", "--none"), []string{"sm_80"}, []string{"was asked for sm_80"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc, rec, _ := toolkit(t, c.change)
			if c.archs != nil {
				rec.Verify.CUDA.Archs = c.archs
			}
			_, err := Probe(t.Context(), tc, rec)
			if err == nil {
				t.Fatal("the probe takes it")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			var bad *BadToolkit
			var missing *MissingTools
			if !errors.As(err, &bad) && !errors.As(err, &missing) {
				t.Errorf("a %T", err)
			}
			if bad != nil && bad.Next == "" {
				t.Error("it does not say what to do")
			}
		})
	}
}

func TestHostLimit(t *testing.T) {
	for nvcc, want := range map[string]int{
		"11.2.67": 10, "11.4.48": 11, "11.8.89": 11, "12.0.1": 12, "12.3.107": 12, "12.4.131": 13, "12.6.85": 13,
		"12.8.61": 14, "13.0.88": 15, "13.5.1": 15, "10.2.89": 0,
	} {
		if got := hostLimit(nvcc); got != want {
			t.Errorf("nvcc %s: GCC %d, want %d", nvcc, got, want)
		}
	}
}

// A script that asks two toolkits for their version is none of them; one that says
// its own twice is.
func TestNvccOfTwoVersions(t *testing.T) {
	says := func(lines string) error {
		tc, rec, _ := toolkit(t, func(files map[string]string) {
			files["bin/nvcc"] = strings.Replace(files["bin/nvcc"], `echo "Cuda compilation tools, release 11.8, V11.8.89"`,
				lines, 1)
		})
		_, err := Probe(t.Context(), tc, rec)
		return err
	}
	const line = `echo "Cuda compilation tools, release 11.8, V11.8.89"; `
	if err := says(line + line); err != nil {
		t.Errorf("twice the same: %v", err)
	}
	var missing *MissingTools
	err := says(line + `echo "Cuda compilation tools, release 12.4, V12.4.131"`)
	if !errors.As(err, &missing) || !strings.Contains(err.Error(),
		"bin/nvcc --version names more than one version: 11.8.89, 12.4.131") {
		t.Errorf("two: %v", err)
	}
}
