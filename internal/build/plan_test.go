package build

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/spec"
)

// repo loads the declarations of this very repository.
func repo(t *testing.T) *spec.Repo {
	t.Helper()
	r, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// realInput is a plan's input for a tag of llama.cpp on an invented machine.
func realInput(t *testing.T, name string) Input { return inputFor(t, "linux-cpu", name) }

func inputFor(t *testing.T, target, name string) Input {
	t.Helper()
	r := repo(t)
	rec, err := r.Recipe(target)
	if err != nil {
		t.Fatal(err)
	}
	pin, ok := r.Lock[spec.LlamaCpp][name]
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "b")); !ok && err == nil {
		// An older tag, of which no more than its number matters here.
		pin = spec.Pin{
			Build: n, Commit: strings.Repeat("c0ffee00", 5), Tree: strings.Repeat("7ree0000", 5),
			Time: time.Unix(1700000000, 0),
		}
	} else if !ok {
		t.Fatalf("%s is not in tags.lock", name)
	}
	in := Input{
		Tag: name, Build: pin.Build, Commit: pin.Commit, Time: pin.Time, Tree: pin.Tree, Revision: 1,
		Series:  []string{"graph-cache-lru"},
		Touched: map[string][]string{"ggml/src/ggml-cuda/ggml-cuda.cu": {"graph-cache-lru"}},
		Recipe:  rec, Toolchain: r.Toolchains[rec.Toolchain],
		Facts: Facts{
			OS: "linux", Arch: "amd64", Cores: 8, MemoryMiB: 16000,
			Tools: map[string]ToolFact{
				"cmake": {"/usr/bin/cmake", "3.25.1", "cmake version 3.25.1"},
				"ninja": {"/usr/bin/ninja", "1.11.1", "1.11.1"},
				"cc":    {"/usr/bin/gcc", "12.2.0", "gcc (Debian 12.2.0-14) 12.2.0"},
				"cxx":   {"/usr/bin/g++", "12.2.0", "g++ (Debian 12.2.0-14) 12.2.0"},
			},
			Headers: map[string]bool{"openssl/ssl.h": true}, Launcher: "/usr/bin/ccache",
			Env: map[string]string{"HOME": "/home/user", "CCACHE_DIR": "/var/ccache"},
		},
		Source: "/b/src", Dir: "/b/build",
	}
	if _, ok := in.Toolchain.Programs["nvcc"]; ok {
		in.Facts.Tools["cc"] = ToolFact{"/usr/bin/gcc-11", "11.3.0", "gcc-11 (Debian 11.3.0-12) 11.3.0"}
		in.Facts.Tools["cxx"] = ToolFact{"/usr/bin/g++-11", "11.3.0", "g++-11 (Debian 11.3.0-12) 11.3.0"}
		in.Facts.Tools["nvcc"] = ToolFact{
			"/usr/local/cuda-11.8/bin/nvcc", "11.8.89",
			"Cuda compilation tools, release 11.8, V11.8.89",
		}
		in.Facts.CUDA = CUDAFact{
			Version: "11.8", Root: "/usr/local/cuda-11.8", Libs: []string{"/usr/local/cuda-11.8/lib64"},
			Archs: []string{"sm_75", "sm_86"}, ObjTemp: true,
		}
	}
	if _, ok := in.Toolchain.Programs["hipcc"]; ok {
		in.Facts.Tools["hipcc"] = ToolFact{"/usr/bin/hipcc", "6.4.43484", "HIP version: 6.4.43484-9999"}
		in.Facts.HIP = HIPFact{
			Version: "6.4", Root: "/usr", Clang: "/usr/lib/llvm-21/bin/clang++", Compiler: "21.1.8",
			DeviceLib: "/usr/lib/llvm-21/lib/clang/21/amdgcn/bitcode", Libs: []string{"/usr/lib/x86_64-linux-gnu"},
			System: "debian",
		}
	}
	return in
}

// The plans of linux-cuda: what each tag's options are called, and that a library
// made alone is of the same plan.
func TestGoldenCUDAPlans(t *testing.T) {
	for _, name := range []string{"b7821", "b8390", "b8833", "b9842", "v0.5.0"} {
		in := inputFor(t, "linux-cuda", name)
		p := mustPlan(t, in)
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", "plans", "linux-cuda-"+name+".json"), append(text, '\n'))
		in.Only = []string{"ggml-cuda"}
		alone := mustPlan(t, in)
		if alone.Digest != p.Digest {
			t.Errorf("%s: the backend alone is of another plan", name)
		}
		if argv := alone.Steps[1].Argv; argv[len(argv)-1] != "ggml-cuda" || slices.Contains(argv, "llama-server") {
			t.Errorf("%s: the backend alone is made by %q", name, argv)
		}
	}
	// A compiler for nvcc alone is another compiler, and no other plan.
	in := inputFor(t, "linux-cuda", "b8833")
	base := mustPlan(t, in)
	in.Facts.Tools[hostRole] = ToolFact{Path: "/opt/bin/nvcc-host", Version: "10.2.1"}
	p := mustPlan(t, in)
	if p.Digest != base.Digest {
		t.Error("a host compiler for nvcc alone changes the digest")
	}
	if !slices.Contains(p.Steps[0].Argv, "-DCMAKE_CUDA_HOST_COMPILER=/opt/bin/nvcc-host") {
		t.Errorf("nvcc is not told of it: %q", p.Steps[0].Argv)
	}
}

func TestCUDAPlanRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"no archs": {func(in *Input) { in.Recipe.Verify.CUDA = nil }, "names no archs: verify.cuda.archs is missing"},
		"archs of a card": {func(in *Input) {
			in.Recipe.Verify.CUDA = nil
			in.Recipe.CMake[archsOption] = "native"
		}, "depends on the machine that builds"},
		"archs twice": {func(in *Input) {
			in.Recipe.CMake[archsOption] = "86"
		}, "not to be set beside verify.cuda.archs"},
		"no nvcc":          {func(in *Input) { delete(in.Facts.Tools, "nvcc") }, "brings no program nvcc"},
		"no host compiler": {func(in *Input) { delete(in.Facts.Tools, "cxx") }, "brings no program cxx"},
		"a comma":          {func(in *Input) { in.Source = "/a,b" }, "nvcc would misread"},
		"an old name": {func(in *Input) {
			in.Recipe.CMake["LLAMA_CUBLAS"] = true
		}, "recipes/linux-cuda.toml: LLAMA_CUBLAS: build 8833 knows it as GGML_CUDA"},
		"a name to come": {func(in *Input) {
			in.Build = 8000
			in.Recipe.CMake["GGML_CUDA_NCCL"] = true
		}, "GGML_CUDA_NCCL: build 8000 has no such option: it came with b8738"},
		"its own option": {func(in *Input) {
			in.Recipe.CMake["CMAKE_CUDA_FLAGS"] = "-G"
		}, "CMAKE_CUDA_FLAGS is not a recipe's to set"},
	} {
		in := inputFor(t, "linux-cuda", "b8833")
		c.change(&in)
		if _, err := NewPlan(in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The plans of real tags, in full: a change of the recipe or of this package is
// a readable difference.
func TestGoldenPlans(t *testing.T) {
	for _, c := range []struct {
		file, tag string
		change    func(*Input)
	}{
		{"b8390", "b8390", nil},
		{"b8833", "b8833", nil},
		{"b8833-no-page", "b8833", func(in *Input) {
			in.Missing = []string{"models/x.gguf", "tools/server/public/bundle.js"}
		}},
		{"b9842-bare-machine", "b9842", func(in *Input) {
			in.Facts.Headers, in.Facts.Launcher, in.Facts.MemoryMiB, in.Facts.Env = nil, "", 3000, nil
		}},
		{"b10361", "b10361", nil},
		{"v0.5.0", "v0.5.0", nil},
	} {
		t.Run(c.file, func(t *testing.T) {
			in := realInput(t, c.tag)
			if c.change != nil {
				c.change(&in)
			}
			p := mustPlan(t, in)
			text, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", "plans", c.file+".json"), append(text, '\n'))
			var back Plan
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			if again, err := json.MarshalIndent(back, "", "  "); err != nil || !bytes.Equal(text, again) {
				t.Error("a plan read back from JSON is another one")
			}
		})
	}
}

// The digest is about what is compiled, not about the machine.
func TestDigest(t *testing.T) {
	base := mustPlan(t, realInput(t, "b8833")).Digest
	for name, change := range map[string]func(*Input){
		"paths":    func(in *Input) { in.Source, in.Dir = "/elsewhere/a/b", "/elsewhere/a/b/c" },
		"revision": func(in *Input) { in.Revision = 7 },
		"jobs":     func(in *Input) { in.Facts.Cores, in.Facts.MemoryMiB = 64, 0 },
		"home":     func(in *Input) { in.Facts.Env = map[string]string{"HOME": "/root"} },
		"launcher": func(in *Input) { in.Facts.Launcher = "" },
		"tools":    func(in *Input) { in.Facts.Tools["cc"] = ToolFact{Path: "/opt/gcc/bin/gcc", Version: "14.1"} },
		"tree":     func(in *Input) { in.Tree = strings.Repeat("1", 40) },
		"touched":  func(in *Input) { in.Touched, in.Series = nil, nil },
	} {
		in := realInput(t, "b8833")
		change(&in)
		if got := mustPlan(t, in).Digest; got != base {
			t.Errorf("%s change the digest", name)
		}
	}
	for name, change := range map[string]func(*Input){
		"an option":  func(in *Input) { in.Recipe.CMake["GGML_NATIVE"] = true },
		"a program":  func(in *Input) { in.Recipe.Programs = []string{"llama-server"} },
		"a header":   func(in *Input) { in.Facts.Headers = nil },
		"a flag":     func(in *Input) { in.Toolchain.CFlags = []string{"-O1"} },
		"the time":   func(in *Input) { in.Time = in.Time.Add(time.Second) },
		"the number": func(in *Input) { in.Build++ },
		"the commit": func(in *Input) { in.Commit = strings.Repeat("2", 40) },
		"the page":   func(in *Input) { in.Missing = []string{"tools/server/public/bundle.js"} },
	} {
		in := realInput(t, "b8833")
		change(&in)
		if got := mustPlan(t, in).Digest; got == base {
			t.Errorf("%s does not change the digest", name)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"a tag out of range":    {func(in *Input) { in.Build = 5000 }, "this is build 5000"},
		"another machine":       {func(in *Input) { in.Facts.Arch = "arm64" }, "this machine is linux/arm64"},
		"no cmake":              {func(in *Input) { delete(in.Facts.Tools, "cmake") }, "brings no program cmake"},
		"a relative folder":     {func(in *Input) { in.Source = "src" }, "not an absolute, clean path"},
		"a folder with a quote": {func(in *Input) { in.Dir = `/a"b` }, `holds '"'`},
		"a folder with an =":    {func(in *Input) { in.Source = "/a=b" }, `holds '='`},
		"its own option": {func(in *Input) {
			in.Recipe.CMake["CMAKE_BUILD_TYPE"] = "Debug"
		}, "recipes/linux-cpu.toml: CMAKE_BUILD_TYPE is not a recipe's to set"},
		"a value of no type": {func(in *Input) { in.Recipe.CMake["GGML_X"] = 1.5 }, "GGML_X"},
		"no time":            {func(in *Input) { in.Time = time.Time{} }, "time of the tag's commit"},
		"no page and no option": {func(in *Input) {
			in.Build, in.Missing = 8390, []string{"tools/server/public/index.html.gz"}
		}, "take another source"},
		"a number within bounds": {func(in *Input) {
			in.BuildMax = in.Build + 9
		}, " only, and --version of what is built would have to print one"},
		"a short tree":            {func(in *Input) { in.Tree = "abc" }, "too short"},
		"a toolchain with a file": {func(in *Input) { in.Toolchain.File = "x.cmake" }, "x.cmake"},
	} {
		in := realInput(t, "b8833")
		c.change(&in)
		if _, err := NewPlan(in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestJobs(t *testing.T) {
	tc := spec.Toolchain{JobMiB: 1000}
	for _, c := range []struct {
		cores int
		mib   int64
		want  int
	}{{8, 16000, 8}, {8, 3500, 3}, {8, 200, 1}, {8, 0, 8}, {0, 0, 1}} {
		if got, why := jobs(Facts{Cores: c.cores, MemoryMiB: c.mib}, tc, Peaks{}); got != c.want || why == "" {
			t.Errorf("%d cores, %d MiB: %d jobs (%s), want %d", c.cores, c.mib, got, why, c.want)
		}
	}
}

func TestFreeMemory(t *testing.T) {
	const meminfo = "MemTotal: 8000000 kB\nMemAvailable:    4000000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no limit": {map[string]string{"proc/meminfo": meminfo}, 4000000 << 10},
		"version 2, a group above": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000000000\n",
			"sys/fs/cgroup/a/memory.current": "600000000\n", "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 200000000\n",
		}, 600000000},
		"version 1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2000000000\n",
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": "500000000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 1500000000},
		"a group that is full": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "1000\n",
		}, 1},
		"a limit above the free memory": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "90000000000\n",
		}, 4000000 << 10},
		"nothing known": {nil, 0},
	} {
		root := t.TempDir()
		write(t, root, c.files)
		if got := freeMemory(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if freeMemory("/") <= 0 {
		t.Error("nothing is known of this machine's memory")
	}
}

func TestProbe(t *testing.T) {
	rec := spec.Recipe{Optional: []spec.Optional{
		{Option: "A", Header: "stdio.h", Gives: "x"}, {Option: "B", Header: "no/such/header.h", Gives: "y"},
	}}
	f, err := Probe(t.Context(), gcc(), rec)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Headers["stdio.h"] || f.Headers["no/such/header.h"] {
		t.Errorf("headers %v", f.Headers)
	}
	for role, tool := range f.Tools {
		if !filepath.IsAbs(tool.Path) || tool.Version == "" || !strings.Contains(tool.Banner, tool.Version) {
			t.Errorf("%s: %+v", role, tool)
		}
	}
	if f.Cores < 1 || f.MemoryMiB < 1 {
		t.Errorf("%d cores, %d MiB", f.Cores, f.MemoryMiB)
	}
}

func TestProbeMissing(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := Probe(t.Context(), gcc(), spec.Recipe{})
	var m *MissingTools
	if !errors.As(err, &m) || len(m.Tools) != 4 {
		t.Fatalf("got %v", err)
	}
	if want := "sudo apt-get install -y cmake g++ gcc ninja-build"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q lacks %q", err, want)
	}
}

// A compiler cache that cannot write would let every command fail, so it is not used.
func TestProbeWithoutCacheFolder(t *testing.T) {
	dir := t.TempDir()
	ccache := filepath.Join(dir, "ccache")
	write(t, dir, map[string]string{"ccache": "#!/bin/sh\n", "home/file": ""})
	if err := os.Chmod(ccache, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("CCACHE_DIR", "")
	t.Setenv("XDG_CACHE_HOME", "")
	for home, want := range map[string]string{"home": ccache, "home/file": ""} {
		t.Setenv("HOME", filepath.Join(dir, home))
		f, err := Probe(t.Context(), gcc(), spec.Recipe{})
		if err != nil || f.Launcher != want {
			t.Errorf("HOME=%s: %q, %v; want %q", home, f.Launcher, err, want)
		}
	}
}

// Too old is as good as missing; a second name may do; a compiler cache that
// goes by a compiler's name is passed over.
func TestProbeChooses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"old/cmake":  "#!/bin/sh\necho cmake version 3.10.2\n",
		"new/cmake3": "#!/bin/sh\necho cmake version 3.28.1\n",
		"old/ccache": "#!/bin/sh\necho ccache version 4.7.5\n",
		"new/cc":     "#!/bin/sh\necho 'cc (Distro 9.9.9-1) 12.2.0'\n",
		"old/mute":   "#!/bin/sh\nexit 3\n",
	})
	for _, f := range []string{"old/cmake", "new/cmake3", "old/ccache", "new/cc", "old/mute"} {
		if err := os.Chmod(filepath.Join(dir, f), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("ccache", filepath.Join(dir, "old/cc")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "old") + ":" + filepath.Join(dir, "new") + ":/usr/bin:/bin"
	for name, c := range map[string]struct {
		tool          spec.Tool
		version, file string
		why           string
	}{
		"second name": {spec.Tool{Names: []string{"cmake", "cmake3"}, Min: "3.14"}, "3.28.1", "new/cmake3", ""},
		"too old": {
			spec.Tool{Names: []string{"cmake"}, Min: "3.14"},
			"", "",
			"is version 3.10.2, and 3.14 or newer is needed",
		},
		"old is fine": {spec.Tool{Names: []string{"cmake"}, Min: "3.9"}, "3.10.2", "old/cmake", ""},
		"behind":      {spec.Tool{Names: []string{"cc"}, Min: "10"}, "12.2.0", "new/cc", ""},
		"broken":      {spec.Tool{Names: []string{"mute"}}, "", "", "exit code 3"},
		"none":        {spec.Tool{Names: []string{"no-such-tool"}}, "", "", "not on the PATH"},
	} {
		got, why, err := findTool(t.Context(), c.tool, "", path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Version != c.version || (c.file != "" && got.Path != filepath.Join(dir, c.file)) ||
			!strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %+v, %q", name, got, why)
		}
	}
}

// Every recipe of this repository gives a plan for every tag of the lock that
// it can build.
func TestEveryRecipePlans(t *testing.T) {
	for _, name := range []string{"b8390", "b8833", "b9595", "b9842", "b10068", "b10361", "v0.5.0"} {
		p := mustPlan(t, realInput(t, name))
		dev := slices.ContainsFunc(p.Options, func(o Option) bool { return o.Name == "LLAMA_BUILD_IS_DEV" })
		if dev != (name == "v0.5.0") {
			t.Errorf("%s: LLAMA_BUILD_IS_DEV is passed: %v", name, dev)
		}
	}
}
