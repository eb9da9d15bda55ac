package build

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/spec"
)

// vxkexInput is what a plan of win7-vxkex-cuda11.4 is made of, by clang alone.
func vxkexInput(t *testing.T, name string) Input {
	t.Helper()
	in := inputFor(t, "win7-vxkex-cuda11.4", name)
	in.Toolchain = toolchainOf(t, "win7-x64-mingw-cuda")
	delete(in.Facts.Tools, "nvcc")
	in.Facts.Tools["cc"] = ToolFact{
		"/usr/bin/x86_64-w64-mingw32-gcc-posix", "12",
		"x86_64-w64-mingw32-gcc-posix (GCC) 12-posix",
	}
	in.Facts.Tools["cxx"] = ToolFact{
		"/usr/bin/x86_64-w64-mingw32-g++-posix", "12",
		"x86_64-w64-mingw32-g++-posix (GCC) 12-posix",
	}
	in.Facts.Tools["rc"] = ToolFact{"/usr/bin/x86_64-w64-mingw32-windres", "2.40", "GNU windres (GNU Binutils) 2.40"}
	in.Facts.Tools["clang"] = ToolFact{"/usr/bin/clang++-19", "19.1.7", "Debian clang version 19.1.7"}
	in.Facts.Tools["ptxas"] = ToolFact{
		"/opt/cuda/bin/ptxas", "11.2.152",
		"Cuda compilation tools, release 11.2, V11.2.152",
	}
	in.Facts.CUDA = CUDAFact{Version: "11.2", Root: "/opt/cuda"}
	in.Facts.Headers = map[string]bool{}
	return in
}

func toolchainOf(t *testing.T, name string) spec.Toolchain {
	t.Helper()
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	return repo.Toolchains[name]
}

// hybrid adds what the toolchain with nvcc has.
func hybrid(t *testing.T, in Input) Input {
	t.Helper()
	in.Toolchain = toolchainOf(t, "win7-x64-mingw-nvcc")
	in.Facts.Tools["nvcc"] = ToolFact{"/opt/cuda/bin/nvcc", "11.2.152", "Cuda compilation tools, release 11.2, V11.2.152"}
	in.Facts.Tools[hostRole] = ToolFact{"/usr/bin/g++-10", "10.2.1", "g++-10 (Debian 10.2.1-6) 10.2.1"}
	in.Facts.Tools["llpatch"] = ToolFact{Path: "/usr/bin/llpatch"}
	return in
}

func option(p Plan, name string) string {
	i := slices.IndexFunc(p.Options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return ""
	}
	return p.Options[i].Value
}

// The plans of win7-vxkex-cuda11.4, by clang alone and with nvcc for the card.
func TestGoldenVxKexPlans(t *testing.T) {
	for _, name := range []string{"b8390", "b8833", "v0.5.0"} {
		for _, way := range []string{"", "-nvcc"} {
			in := vxkexInput(t, name)
			if way != "" {
				in = hybrid(t, in)
			}
			p := mustPlan(t, in)
			text, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", "plans", "win7-vxkex-cuda11.4-"+name+way+".json"), append(text, '\n'))
			if flags := option(p, "CMAKE_CUDA_FLAGS"); !strings.Contains(flags, "-D_WIN32_WINNT=0x0601") ||
				!strings.Contains(flags, "-DGGML_CUDA_POOL_TRIM_DEFAULT=1") {
				t.Errorf("%s: CMAKE_CUDA_FLAGS is %q", name, flags)
			}
			for _, o := range p.Options {
				if strings.Contains(o.Value, "-ffast-math") {
					t.Errorf("%s: %s has -ffast-math", name, o.Name)
				}
			}
		}
	}
}

// Which cache stands before which command, and that neither it nor where the compilers
// lie is in the digest, but which of the two ways is.
func TestClangPlans(t *testing.T) {
	in := vxkexInput(t, "b8833")
	in.Facts.Launcher = "/usr/bin/ccache"
	p := mustPlan(t, in)
	if l := option(p, "CMAKE_CUDA_COMPILER_LAUNCHER"); l != "/usr/bin/env;CCACHE_DEPEND=1;CCACHE_EXTRAFILES=/opt/cuda/bin/ptxas:/opt/cuda/nvvm/libdevice/libdevice.10.bc;/usr/bin/ccache" {
		t.Errorf("launcher %q", l)
	}
	bare := vxkexInput(t, "b8833")
	bare.Facts.Launcher = ""
	bare.Facts.CUDA.Root = "/elsewhere"
	if q := mustPlan(t, bare); q.Digest != p.Digest {
		t.Error("the digest hangs on the cache or on the CUDA's folder")
	}
	h := hybrid(t, vxkexInput(t, "b8833"))
	h.Facts.Launcher = "/usr/bin/ccache"
	q := mustPlan(t, h)
	rule := strings.Split(option(q, "CMAKE_CUDA_COMPILE_OBJECT"), ";")
	if q.Digest == p.Digest || len(rule) != 5 || option(q, "CMAKE_CUDA_COMPILER_LAUNCHER") != "/usr/bin/ccache" ||
		!strings.HasPrefix(rule[1], "/usr/bin/env CCACHE_DEPEND=1 ") ||
		!strings.HasPrefix(rule[0], "/opt/cuda/bin/nvcc -c -ccbin /usr/bin/g++-10 ") {
		t.Errorf("launcher %q, rule %q", option(q, "CMAKE_CUDA_COMPILER_LAUNCHER"), rule)
	}
	several := spec.CUDA{Archs: []string{"sm_86", "sm_61", "sm_75"}, PTX: []string{"compute_86"}}
	if got := archList(several); got != "610,750,860" {
		t.Errorf("archs %q", got)
	}
	if !strings.Contains(rule[1], " -D__CUDA_ARCH_LIST__=860 ") {
		t.Errorf("clang is not told the archs: %s", rule[1])
	}
	for name, change := range map[string]func(*Input){
		"no ptxas":           func(in *Input) { delete(in.Facts.Tools, "ptxas") },
		"no host for nvcc":   func(in *Input) { *in = hybrid(t, *in); delete(in.Facts.Tools, hostRole) },
		"flags and no clang": func(in *Input) { delete(in.Facts.Tools, "clang") },
	} {
		in := vxkexInput(t, "b8833")
		change(&in)
		var fault *Fault
		if _, err := NewPlan(in); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in = vxkexInput(t, "b8833")
	in.Facts.CUDA.Root = "/with space/cuda"
	var bad *BadFolder
	if _, err := NewPlan(in); !errors.As(err, &bad) {
		t.Errorf("a folder with a space: %v", err)
	}
	for _, role := range []string{"nvcc", hostRole, "llpatch"} {
		for _, path := range []string{"/with space/tool", "/a;b/tool", "/a$b/tool"} {
			in := hybrid(t, vxkexInput(t, "b8833"))
			in.Facts.Tools[role] = ToolFact{Path: path}
			var odd *BadToolkit
			if _, err := NewPlan(in); !errors.As(err, &odd) || odd.Path != path || odd.Next == "" {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// fakeClang answers what a plan's probe asks. What it writes is an object with device
// code for sm_75 and sm_86.
const fakeClang = `#!/bin/sh
case " $* " in
*" --version "*) echo "Debian clang version 19.1.7 (3~deb12u1)" ;;
*" -c "*)
	while [ "$1" != -o ]; do shift; done
	cp OBJECT "$2" ;;
esac
`

func clangKit(t *testing.T, change func(files map[string]string)) (spec.Toolchain, spec.Recipe, string) {
	t.Helper()
	dir := t.TempDir()
	object, err := filepath.Abs("testdata/join/kernels.nvcc.o")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"tools/clang++-19": fakeClang, "tools/cmake": "#!/bin/sh\necho cmake version 3.25.1\n",
		"tools/ninja": "#!/bin/sh\necho 1.11.1\n",
		"tools/gcc":   "#!/bin/sh\necho gcc 12.2.0\n", "tools/g++": "#!/bin/sh\necho g++ 12.2.0\n",
		"cuda/bin/ptxas": "#!/bin/sh\necho Cuda compilation tools, release 11.2, V11.2.152\n",
	}
	for _, name := range clangNeeds {
		if _, ok := files["cuda/"+name]; !ok {
			files["cuda/"+name] = ""
		}
	}
	files["cuda/include/cuda.h"], files["cuda/lib64/libcudart.so"] = "#define CUDA_VERSION 11020\n", ""
	if change != nil {
		change(files)
	}
	fakes(t, dir, files, "OBJECT", object)
	tc := spec.Toolchain{
		Name: "fake", OS: runtime.GOOS, Arch: runtime.GOARCH, JobMiB: 100,
		Programs: map[string]spec.Tool{
			"cmake": {Names: []string{"cmake"}}, "ninja": {Names: []string{"ninja"}}, "cc": {Names: []string{"gcc"}},
			"cxx":   {Names: []string{"g++"}},
			"clang": {Names: []string{"clang++-19"}, Min: "19", Debian: "clang-19"},
			"ptxas": {
				Names: []string{"ptxas"}, Dirs: []string{"$CUDA_HOME/bin"}, First: spec.FirstDirs, Min: "11.1", Max: "11",
				Hint: "CUDA_HOME names a folder",
			},
		},
	}
	rec := spec.Recipe{
		Name: "fake", Backends: []string{"cuda"},
		Verify: spec.Verify{CUDA: &spec.CUDA{Files: []string{"x"}, Archs: []string{"sm_75", "sm_86"}, PTX: []string{}}},
	}
	t.Setenv("PATH", filepath.Join(dir, "tools")+":/usr/bin:/bin")
	t.Setenv("CUDA_HOME", filepath.Join(dir, "cuda"))
	return tc, rec, dir
}

func TestProbeClang(t *testing.T) {
	// Another CUDA's ptxas on the PATH does not come before the folder that is named.
	tc, rec, dir := clangKit(t, func(f map[string]string) {
		f["tools/ptxas"] = "#!/bin/sh\necho Cuda compilation tools, release 11.8, V11.8.89\n"
	})
	f, err := Probe(t.Context(), tc, rec)
	if err != nil {
		t.Fatal(err)
	}
	if f.CUDA.Root != filepath.Join(dir, "cuda") || f.CUDA.Version != "11.2" ||
		f.Tools["ptxas"].Path != filepath.Join(dir, "cuda/bin/ptxas") {
		t.Errorf("got %+v, %+v", f.CUDA, f.Tools["ptxas"])
	}
}

func TestProbeRefusesClang(t *testing.T) {
	for name, c := range map[string]struct {
		change func(files map[string]string)
		archs  []string
		want   string
	}{
		"no libdevice": {func(f map[string]string) {
			delete(f, "cuda/nvvm/libdevice/libdevice.10.bc")
		}, nil, "has no nvvm/libdevice/libdevice.10.bc"},
		"mixed": {func(f map[string]string) {
			f["cuda/include/cuda.h"] = "#define CUDA_VERSION 11080\n"
		}, nil, "its ptxas is of CUDA 11.2, and its cuda.h of CUDA 11.8"},
		"no version": {func(f map[string]string) { f["cuda/include/cuda.h"] = "" }, nil, "names no CUDA_VERSION"},
		"no lib64":   {func(f map[string]string) { delete(f, "cuda/lib64/libcudart.so") }, nil, "has no lib64"},
		"among others": {func(f map[string]string) {
			f["cuda/include/stdio.h"] = ""
		}, nil, "among those of this system's C library"},
		"no NVPTX": {func(f map[string]string) {
			f["tools/clang++-19"] = cannot("error: unable to create target: 'No available targets are compatible with triple " +
				"\"nvptx64-nvidia-cuda\"'")
		}, nil, "was built without NVPTX"},
		"unknown arch": {func(f map[string]string) {
			f["tools/clang++-19"] = cannot("error: unsupported CUDA gpu architecture: sm_75")
		}, nil, "does not know one of sm_75 sm_86"},
		"another failure": {func(f map[string]string) {
			f["tools/clang++-19"] = cannot("error: what")
		}, nil, "cannot compile the smallest kernel"},
		"not what it says": {nil, []string{"sm_80"}, "it was asked for sm_80 and made code for sm_75 sm_86"},
		"nothing written": {func(f map[string]string) {
			f["tools/clang++-19"] = strings.Replace(fakeClang, "cp OBJECT", "true", 1)
		}, nil, "wrote nothing"},
		"no device code": {func(f map[string]string) {
			f["tools/clang++-19"] = strings.Replace(fakeClang, "cp OBJECT", "cp /bin/true", 1)
		}, nil, "no whole device code"},
	} {
		tc, rec, _ := clangKit(t, c.change)
		if c.archs != nil {
			rec.Verify.CUDA.Archs = c.archs
		}
		var bad *BadToolkit
		if _, err := Probe(t.Context(), tc, rec); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) ||
			bad.Next == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	tc, rec, _ := clangKit(t, nil)
	rec.Verify.CUDA.PTX = []string{"compute_80"}
	if _, err := Probe(t.Context(), tc, rec); err == nil || !strings.Contains(err.Error(),
		"together with machine code for sm_80") {
		t.Errorf("PTX alone: %v", err)
	}
	tc, rec, _ = clangKit(t, func(f map[string]string) { delete(f, "cuda/bin/ptxas") })
	var missing *MissingTools
	if _, err := Probe(t.Context(), tc, rec); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "CUDA_HOME names a folder") {
		t.Errorf("no CUDA folder: %v", err)
	}
}

func cannot(says string) string {
	return strings.Replace(fakeClang, "cp OBJECT \"$2\"", "echo '"+strings.ReplaceAll(says, "'", `'\\''`)+"' >&2; exit 1",
		1)
}
