package spec_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestSetArchs(t *testing.T) {
	for list, want := range map[string]struct {
		archs, ptx, cmake []string
		fault             string
	}{
		"86":      {archs: []string{"sm_86"}, ptx: []string{"compute_86"}, cmake: []string{"86-real", "86-virtual"}},
		"86-real": {archs: []string{"sm_86"}, ptx: []string{}, cmake: []string{"86-real"}},
		"75-real,86,86": {
			archs: []string{"sm_75", "sm_86"}, ptx: []string{"compute_86"},
			cmake: []string{"75-real", "86-real", "86-virtual"},
		},
		"120a-real":        {archs: []string{"sm_120a"}, ptx: []string{}, cmake: []string{"120a-real"}},
		"86-virtual":       {fault: "asks for no machine code"},
		"native":           {fault: `"native" is not a CUDA arch`},
		"86, 89":           {fault: `" 89" is not a CUDA arch`},
		"8.6":              {fault: `"8.6" is not a CUDA arch`},
		"sm_86":            {fault: `"sm_86" is not a CUDA arch`},
		"":                 {fault: `"" is not a CUDA arch`},
		"86;rm":            {fault: "is not a CUDA arch"},
		"86-real,":         {fault: `"" is not a CUDA arch`},
		"90a-real,89-real": {archs: []string{"sm_90a", "sm_89"}, ptx: []string{}, cmake: []string{"90a-real", "89-real"}},
	} {
		own := &spec.CUDA{Files: []string{"x.so"}, Archs: []string{"sm_50"}, PTX: []string{"compute_50"}}
		rec := spec.Recipe{Name: "r", Verify: spec.Verify{CUDA: own}}
		err := rec.SetArchs(list)
		if want.fault != "" {
			if err == nil || !strings.Contains(err.Error(), want.fault) {
				t.Errorf("%q: %v, want %q", list, err, want.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", list, err)
			continue
		}
		c := rec.Verify.CUDA
		if d := cmp.Diff([][]string{want.archs, want.ptx, want.cmake, {"x.so"}},
			[][]string{c.Archs, c.PTX, c.CMakeArchs(), c.Files}); d != "" {
			t.Errorf("%q:\n%s", list, d)
		}
		if own.Archs[0] != "sm_50" {
			t.Errorf("%q: the declaration itself was changed", list)
		}
	}
	limited := spec.Recipe{Name: "r", Verify: spec.Verify{CUDA: &spec.CUDA{Archs: []string{"sm_86"}, Newest: "sm_86"}}}
	for capability, beyond := range map[string]bool{"8.6": false, "7.5": false, "8.9": true, "12.0": true} {
		if got := limited.Verify.CUDA.Beyond(capability); got != beyond {
			t.Errorf("Beyond(%s) = %v", capability, got)
		}
	}
	for list, want := range map[string]string{
		"61-real,75-real,86-real": "", "89-real": "sm_89 is newer than sm_86",
		"86-real,90-virtual": "compute_90 is newer",
	} {
		if err := limited.SetArchs(list); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q where sm_86 is the newest: %v", list, err)
		}
	}
	if err := new(spec.Recipe).SetArchs("86"); err == nil {
		t.Error("a recipe without device code takes archs")
	}
	if got := (&spec.CUDA{AtLeast: []string{"sm_86"}}).CMakeArchs(); got != nil {
		t.Errorf("at-least gives %q", got)
	}
}

// A build is for the archs of the last entry that its toolkit has reached.
func TestCUDAFor(t *testing.T) {
	c := &spec.CUDA{Files: []string{"x.so"}, Toolkits: []spec.Toolkit{
		{From: "11.4", Archs: []string{"sm_86"}, PTX: []string{"compute_50"}},
		{From: "11.8", Archs: []string{"sm_86", "sm_89"}, PTX: []string{"compute_50", "compute_90"}},
		{From: "12.10", Archs: []string{"sm_120a"}, PTX: []string{}},
	}}
	for version, want := range map[string]string{
		"11.2": "86-real 50-virtual", "11.4": "86-real 50-virtual", "11.7.1": "86-real 50-virtual",
		"11.8": "86-real 89-real 50-virtual 90-virtual",
		"12.9": "86-real 89-real 50-virtual 90-virtual", "12.10": "120a-real", "13.0": "120a-real", "": "",
	} {
		if got := strings.Join(c.For(version).CMakeArchs(), " "); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
	if got := (*spec.CUDA)(nil).For("11.8"); got != nil {
		t.Errorf("of none: %v", got)
	}
	rec := spec.Recipe{Name: "r", Verify: spec.Verify{CUDA: c}}
	if err := rec.SetArchs("75-real"); err != nil || !slices.Equal(rec.Verify.CUDA.For("13.0").CMakeArchs(),
		[]string{"75-real"}) {
		t.Errorf("--cuda-archs: %v, %v", rec.Verify.CUDA.For("13.0").CMakeArchs(), err)
	}
}

// Every nvcc that the toolchain of linux-cuda takes has an entry, and knows its archs.
func TestLinuxCUDAToolkits(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	first := repo.Recipes["linux-cuda"].Verify.CUDA.Toolkits[0].From
	if oldest := repo.Toolchains["linux-x64-cuda"].Programs["nvcc"].Min; first != oldest {
		t.Errorf("the archs begin with CUDA %s, and the toolchain takes %s", first, oldest)
	}
}

// overlay is a set of declarations in which some files are others.
type overlay struct {
	fs.FS
	files fstest.MapFS
}

func (o overlay) Open(name string) (fs.File, error) {
	if _, ok := o.files[name]; ok {
		return o.files.Open(name)
	}
	return o.FS.Open(name)
}

// The keys that a toolchain for nvcc and a recipe with a host have.
func TestToolchainAndHostRefused(t *testing.T) {
	const win7 = "recipes/win7-vxkex-cuda11.4.toml"
	for name, c := range map[string]struct{ file, old, with, want string }{
		"max": {
			"toolchains/linux-x64-cuda.toml", `max    = "13"`, `max    = "thirteen"`,
			`max "thirteen" is not a version`,
		},
		"dirs": {
			"toolchains/linux-x64-cuda.toml", `"$CUDA_HOME/bin"`, `"CUDA_HOME/bin"`,
			`"CUDA_HOME/bin" is not an absolute folder`,
		},
		"glob": {
			"toolchains/linux-x64-cuda.toml", `"/opt/cuda/bin"`, `"/opt/[cuda/bin"`,
			`"/opt/[cuda/bin" is not an absolute folder`,
		},
		"host": {
			"recipes/linux-cuda.toml", `host      = "linux-cpu"`, `host      = "linux-gpu"`,
			`host "linux-gpu" is no other recipe`,
		},
		"self": {
			"recipes/linux-cuda.toml", `host      = "linux-cpu"`, `host      = "linux-cuda"`,
			`host "linux-cuda" is no other recipe`,
		},
		"toolkit order": {
			"recipes/linux-cuda.toml", `from  = "13.0"`, `from  = "12.7"`,
			`toolkit from "12.7" stands after one from "12.8": the oldest comes first`,
		},
		"toolkit version": {
			"recipes/linux-cuda.toml", `from  = "13.0"`, `from  = "new"`,
			`from "new" is not a version of CUDA`,
		},
		"toolkit arch": {
			"recipes/linux-cuda.toml", `archs = ["sm_86"]`, `archs = ["86"]`,
			`"86" is not an architecture as nvcc names it`,
		},
		"toolkit empty": {"recipes/linux-cuda.toml", `archs = ["sm_86"]`, `archs = []`, `toolkit from "11.4" says no archs`},
		"two lists": {
			"recipes/linux-cuda.toml", `files = ["libggml-cuda.so"]`,
			"files = [\"libggml-cuda.so\"]\narchs = [\"sm_86\"]", "needs either archs, for exactly these",
		},
		"ptx twice": {
			"recipes/linux-cuda.toml", `files = ["libggml-cuda.so"]`,
			"files = [\"libggml-cuda.so\"]\nptx = [\"compute_86\"]", "ptx stands in each toolkit",
		},
		"newest twice": {
			"recipes/linux-cuda.toml", `files = ["libggml-cuda.so"]`,
			"files = [\"libggml-cuda.so\"]\nnewest = \"sm_86\"", "newest has no place beside tables toolkit",
		},
		// Drivers for Windows 7 end with a branch that knows no card after sm_86.
		"too new": {
			win7, `archs  = ["sm_86"]`, `archs  = ["sm_86", "sm_89"]`,
			"sm_89 is newer than sm_86, the last one that the drivers of this target's users know",
		},
		"too new PTX":    {win7, `ptx    = []`, `ptx    = ["compute_90"]`, "compute_90 is newer than sm_86"},
		"newest":         {win7, `newest = "sm_86"`, `newest = "8.6"`, `"8.6" is not an architecture as nvcc names it`},
		"unknown fix":    {win7, "[without]", "[without]\nno-such-fix = \"x\"", "fix no-such-fix is not in patches/series"},
		"no reason":      {win7, "[without]", "[without]\nprefill-reserve = \" \"", "without prefill-reserve says no reason"},
		"without a list": {win7, `fixes     = "all"`, `fixes     = ["win7-compat"]`, `without is for fixes = "all"`},
		"first": {
			"toolchains/win7-x64-mingw-cuda.toml", `first  = "dirs"`, `first  = "path"`,
			`program.ptxas.first is "path"; it must be one of dirs`,
		},
		"no cuda": {
			"recipes/win7-cpu.toml", "[cmake]", "cuda-flags = [\"-DX\"]\n[cmake]",
			"cuda-flags is for recipes that build the backend cuda",
		},
		"cost": {"recipes/linux-cpu.toml", "seconds = 1094", "seconds = 0", "cost needs seconds, above 0, and the machine"},
		"no hip": {
			"recipes/linux-cuda.toml", "[cmake]", "hip-flags = [\"-DX\"]\n[cmake]",
			"hip-flags is for recipes that build the backend hip",
		},
	} {
		over := overlay{os.DirFS("../.."), fstest.MapFS{}}
		text, err := os.ReadFile("../../" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.old) {
			t.Fatalf("%s: %s has no %q", name, c.file, c.old)
		}
		over.files[c.file] = &fstest.MapFile{Data: []byte(strings.Replace(string(text), c.old, c.with, 1))}
		if _, err := spec.Load(over); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
