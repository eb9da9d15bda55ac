package build

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/golden"
)

// The plans of rocm-gfx1201: its targets under every name, at every tag.
func TestGoldenROCmPlans(t *testing.T) {
	for _, name := range []string{"b8390", "b8833", "b9842", "v0.5.0"} {
		p := mustPlan(t, inputFor(t, "rocm-gfx1201", name))
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", "plans", "rocm-gfx1201-"+name+".json"), append(text, '\n'))
		if flags := option(p, "CMAKE_HIP_FLAGS"); !strings.HasPrefix(flags, "-DGGML_CUDA_POOL_TRIM_DEFAULT=1 ") {
			t.Errorf("%s: CMAKE_HIP_FLAGS is %q", name, flags)
		}
	}
	base := mustPlan(t, inputFor(t, "rocm-gfx1201", "b8833"))
	other := inputFor(t, "rocm-gfx1201", "b8833")
	other.Facts.HIP = HIPFact{
		Version: "7.0", Root: "/opt/rocm", Clang: "/opt/rocm/llvm/bin/amdclang++",
		DeviceLib: "/opt/rocm/amdgcn/bitcode",
	}
	if got := mustPlan(t, other); got.Digest != base.Digest {
		t.Error("another ROCm in another place is another plan")
	}
	flags := inputFor(t, "rocm-gfx1201", "b8833")
	flags.Recipe.HIPFlags = nil
	if mustPlan(t, flags).Digest == base.Digest {
		t.Error("hip-flags are not in the digest")
	}
	other.Recipe.Verify.HIP.Archs = []string{"gfx1200", "gfx1201"}
	p := mustPlan(t, other)
	for _, name := range gfxOptions {
		if !strings.Contains(strings.Join(p.Steps[0].Argv, "\n")+"\n", "\n-D"+name+"=gfx1200;gfx1201\n") {
			t.Errorf("%s: %q", name, p.Steps[0].Argv)
		}
	}
	if p.Digest == base.Digest {
		t.Error("other targets are the same plan")
	}
}

func TestROCmPlanRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"no targets": {func(in *Input) { in.Recipe.Verify.HIP = nil }, "names no targets: verify.hip.archs is missing"},
		"targets twice": {func(in *Input) {
			in.Recipe.CMake["AMDGPU_TARGETS"] = "gfx906"
		}, "AMDGPU_TARGETS is not to be set beside verify.hip.archs"},
		"CMake's own": {func(in *Input) {
			in.Recipe.CMake["CMAKE_HIP_ARCHITECTURES"] = "gfx906"
		}, "not to be set beside verify.hip.archs"},
		"no hipcc": {func(in *Input) { delete(in.Facts.Tools, "hipcc") }, "brings no program hipcc"},
		"its own option": {func(in *Input) {
			in.Recipe.CMake["CMAKE_HIP_FLAGS"] = "-O0"
		}, "CMAKE_HIP_FLAGS is not a recipe's to set"},
	} {
		in := inputFor(t, "rocm-gfx1201", "b8833")
		c.change(&in)
		if _, err := NewPlan(in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A command that compiles for another card than was asked for ends the build before
// anything is compiled.
func TestCheckGFX(t *testing.T) {
	object := func(name, flags string) string {
		return "build ggml-hip.dir/" + name + ".cu.o: HIP_COMPILER__ggml-hip_unscanned_Release /src/" + name +
			".cu || x\n  DEFINES = -DA\n  FLAGS = -O3 " + flags + " -fPIC\n\n"
	}
	const host = "build main.cpp.o: CXX_COMPILER__main_Release /src/main.cpp\n  FLAGS = -O3\n\n"
	good := object("acc", "--offload-arch=gfx1201")
	for name, c := range map[string]struct{ text, want string }{
		"as asked": {host + good + object("add", "--offload-arch=gfx1201"), ""},
		"silent gfx906": {
			good + object("add", "--offload-arch=gfx906"),
			"compiles ggml-hip.dir/add.cu.o for gfx906, and gfx1201 was asked for",
		},
		"one too many": {
			object("add", "--offload-arch=gfx1201 --offload-arch=gfx906"),
			"for gfx1201 gfx906, and gfx1201 was asked for",
		},
		"with a comma":      {object("add", "--offload-arch=gfx1201,gfx906"), "for gfx1201 gfx906, and"},
		"an older spelling": {object("add", "--cuda-gpu-arch=gfx906"), "for gfx906, and"},
		"none":              {good + object("add", ""), "for whatever card the compiler finds, and gfx1201 was asked for"},
		"no HIP":            {host, "made no command that compiles HIP"},
	} {
		in := inputFor(t, "rocm-gfx1201", "b8833")
		p := mustPlan(t, in)
		p.Dir = t.TempDir()
		write(t, p.Dir, map[string]string{"build.ninja": c.text})
		err := p.checkGFX()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && wantFailed(t, err).Kind != KindOption {
			t.Errorf("%s: %+v", name, err)
		}
	}
}
