package bundle

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// linuxTargets are the recipes for Linux.
func linuxTargets(t *testing.T) (*spec.Repo, map[string]spec.Recipe) {
	t.Helper()
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]spec.Recipe{}
	for name, rec := range repo.Recipes {
		if rec.OS == spec.Linux {
			targets[name] = rec
		}
	}
	return repo, targets
}

// Every bundle for Linux has a check.sh, each of its settings has its place there once, and
// none is in no script.
func TestShSettings(t *testing.T) {
	repo, targets := linuxTargets(t)
	if len(targets) < 4 {
		t.Fatalf("%d targets", len(targets))
	}
	used := map[string]bool{}
	settings := Info{}.shSettings(spec.Recipe{})
	for name, rec := range targets {
		text, err := repo.Script(rec.Bundle.Check)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		there := map[string]bool{}
		for _, m := range setShRE.FindAllSubmatch(text, -1) {
			key := string(m[1])
			if _, known := settings[key]; !known || there[key] {
				t.Errorf("%s: the setting %s is written twice, or never", name, key)
			}
			there[key], used[key] = true, true
		}
	}
	for key := range settings {
		if !used[key] {
			t.Errorf("no script takes the setting %s", key)
		}
	}
}

// What check.sh is told of a bundle is what was found in it.
func TestShSettingsOfBundle(t *testing.T) {
	_, targets := linuxTargets(t)
	base := func(needs ...string) Info {
		i := Info{
			Tag: "b8833", Target: "T", Version: "45cac7ca7-llp1", Glibc: "2.34",
			Files: []*binary.File{
				{Name: "libggml-x.so", SOName: "libggml-x.so", Machine: "EM_X86_64", Needed: needs},
				{Name: "libllama.so", SOName: "libllama.so.0", Machine: "EM_X86_64", Needed: []string{"libc.so.6"}},
				{Name: "libllama.so.0", SOName: "libllama.so.0", Machine: "EM_X86_64", Needed: []string{"libc.so.6"}},
				{
					Name: "llama-server", Interp: "/lib64/ld-linux-x86-64.so.2", Machine: "EM_X86_64",
					Needed: []string{"libllama.so.0", "libssl.so.3"},
				},
			},
			Sums:    map[string]string{"libggml-x.so": "1", "libllama.so.0": "2", "llama-server": "3"},
			Symbols: map[string][]string{"libc.so.6": {"GLIBC_2.34"}, "libcudart.so.12": {"libcudart.so.12"}},
		}
		i.Needs = binary.Outside(i.Files)
		return i
	}
	cuda := base("libcuda.so.1", "libcudart.so.12", "libc.so.6")
	cuda.Runtime, cuda.Options = spec.Thin, map[string]string{"GGML_AVX2": "ON", "GGML_CPU_ALL_VARIANTS": "ON"}
	cuda.CUDA = &binary.Verdict{
		Newer: true, Driver: &binary.Driver{Version: "525.60.13", CUDA: "12.0"}, JIT: &binary.Driver{CUDA: "13.9"},
		Cards: []binary.Card{
			{Capability: "8.6", By: []string{"sm_80", "sm_86"}},
			{Capability: "8.9", Missing: 2, By: []string{"sm_86"}},
			{Capability: "9.0", By: []string{"compute_86"}, JIT: true},
		},
	}
	full := cuda
	full.Runtime = spec.Full
	full.CUDA = &binary.Verdict{
		Cards: cuda.CUDA.Cards[:1], Driver: &binary.Driver{CUDA: "12.0"},
		JIT: &binary.Driver{Version: "9"},
	}
	hip := base("libamdhip64.so.7", "libhipblas.so.3", "libc.so.6")
	own := targets["rocm-gfx1201"]
	if err := own.SetGFX("gfx1201,gfx11-generic"); err != nil {
		t.Fatal(err)
	}
	ik := base("libc.so.6")
	ik.Options = map[string]string{"GGML_AVX2": "ON", "GGML_FMA": "ON", "GGML_AVX512": "OFF"}
	drop := base("libggml-base.so.0", "libc.so.6")
	drop.DropIn, drop.Files = "libggml-x.so", drop.Files[:1]
	drop.Needs = binary.Outside(drop.Files)
	for name, c := range map[string]struct {
		info Info
		rec  spec.Recipe
		want map[string]string
	}{
		"cuda": {cuda, targets["linux-cuda"], map[string]string{
			"machine": "x86_64", "loader": "/lib64/ld-linux-x86-64.so.2", "glibc": "2.34", "version": "45cac7ca7-llp1",
			"programs": "llama-server llama-cli llama-bench llama-quantize",
			"roots":    "libggml-x.so llama-server", "sums_end": "llama-server", "links": "libllama.so", "drop": "",
			"elsewhere": "libcuda.so.1", "symbols": "libc.so.6:GLIBC_2.34", "flags": "",
			"debian": "libcudart.so.12:libcudart12 libssl.so.3:libssl3", "toolkit": "libcudart.so.12",
			"full": "libcudart.so.12", "rocm": "", "folders": strings.Join(ToolkitFolders, " "),
			"runs_on": "8.6:sm_80+sm_86 9.0:compute_86", "newest": binary.NewestCapability(),
			"rebuild": "llpatch release b8833 T --cuda-archs",
			"driver":  "525.60.13", "driver_cuda": "12.0", "jit_driver": "", "jit_cuda": "13.9",
		}},
		"cuda, full": {full, targets["linux-cuda"], map[string]string{
			"full": "", "runs_on": "8.6:sm_80+sm_86", "newest": "",
			"driver": "", "driver_cuda": "12.0", "jit_driver": "", "jit_cuda": "",
		}},
		"rocm": {hip, own, map[string]string{
			"gfx": "gfx1201 gfx11-generic", "toolkit": "libamdhip64.so.7 libhipblas.so.3",
			"rocm": "libamdhip64.so.7 libhipblas.so.3", "full": "", "hint_amd": HintAMD,
			"rebuild": "llpatch release b8833 T --gfx",
			"runs_on": "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1201",
			"debian":  "libssl.so.3:libssl3",
		}},
		"ik": {ik, targets["ik-linux-cpu"], map[string]string{
			"flags": "avx2 fma", "toolkit": "", "folders": "",
			"rebuild": "", "elsewhere": "",
		}},
		"drop-in": {drop, targets["linux-cuda"], map[string]string{
			"drop": "libggml-x.so", "version": "",
			"loader": "/lib64/ld-linux-x86-64.so.2", "elsewhere": "libggml-base.so.0", "roots": "libggml-x.so",
		}},
	} {
		got := c.info.shSettings(c.rec)
		for key, want := range c.want {
			if got[key] != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], want)
			}
		}
	}
}

// What check.sh is told that SHA256SUMS ends with is what it ends with.
func TestSumsEnd(t *testing.T) {
	for _, names := range [][]string{{"llama-server", "libx.so"}, {"a.so"}, {"x/a", "x.so"}, {"x/a/b", "x/a.b"}} {
		dir := t.TempDir()
		info := Info{Sums: map[string]string{}}
		for _, name := range append(slices.Clone(names), "README.md", "LICENSES/z.txt", checkScript) {
			if slices.Contains(names, name) {
				info.Sums[name] = "x"
			}
			file := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		text, err := checksums(dir)
		if err != nil {
			t.Fatal(err)
		}
		if end := info.shSettings(spec.Recipe{})["sums_end"]; !strings.HasSuffix(string(text), "  "+end+"\n") {
			t.Errorf("%q is not the end of\n%s", end, text)
		}
	}
}

// What stands in a setting is a word of the shell, whatever it is.
func TestShScript(t *testing.T) {
	text := shScript([]byte("a=''\nown=''\n\tb=''\nb=''\nb='' # x\n"),
		map[string]string{"a": "it's $HOME `x` \\ \"y\"", "b": ""})
	if want := "a='it'\\''s $HOME `x` \\ \"y\"'\nown=''\n\tb=''\nb=''\nb='' # x\n"; string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// shellcheck finds nothing in what is shipped.
func TestShellcheck(t *testing.T) {
	program, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("no shellcheck (sh scripts/setup test): check.sh was not looked at by it")
	}
	repo, targets := linuxTargets(t)
	for name, rec := range targets {
		text, err := repo.Script(rec.Bundle.Check)
		if err != nil {
			t.Fatal(err)
		}
		text = shScript(text, Info{Tag: "b1"}.shSettings(rec))
		if bytes.ContainsFunc(text, func(r rune) bool { return r > '~' }) {
			t.Errorf("%s: check.sh is not plain ASCII", name)
		}
		file := filepath.Join(t.TempDir(), checkScript)
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), program, "--shell=sh", "--severity=warning",
			file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
