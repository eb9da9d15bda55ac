package bundle

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

var (
	setShRE   = regexp.MustCompile(`(?m)^([a-z_]+)=''$`)
	rocmLibRE = regexp.MustCompile(`^lib(amdhip64|hip|roc)`)
)

// shScript writes settings into a script for a POSIX shell: into the lines that give their
// names an empty value.
func shScript(text []byte, settings map[string]string) []byte {
	return setShRE.ReplaceAllFunc(text, func(line []byte) []byte {
		key := string(setShRE.FindSubmatch(line)[1])
		value, ok := settings[key]
		if !ok {
			return line // a variable of the script's own
		}
		return []byte(key + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'")
	})
}

// machines are the kinds of machine as uname names them, and the loader that the ABI of
// each has for a library that has no program beside it.
var machines = map[string]struct{ uname, loader string }{
	"EM_X86_64":  {"x86_64", "/lib64/ld-linux-x86-64.so.2"},
	"EM_AARCH64": {"aarch64", "/lib/ld-linux-aarch64.so.1"},
}

// instructions are ggml's options for what the only variant of its code for the processor
// uses, and what /proc/cpuinfo calls that.
var instructions = map[string]string{
	"GGML_SSE42": "sse4_2", "GGML_AVX": "avx", "GGML_AVX2": "avx2", "GGML_BMI2": "bmi2", "GGML_FMA": "fma", "GGML_F16C": "f16c",
	"GGML_AVX_VNNI": "avx_vnni", "GGML_AVX512": "avx512f", "GGML_AVX512_VBMI": "avx512vbmi", "GGML_AVX512_VNNI": "avx512_vnni", "GGML_AVX512_BF16": "avx512_bf16",
}

// shSettings is what check.sh is told of the bundle: all of it from the recipe, and from
// what was found in the files.
func (i Info) shSettings(rec spec.Recipe) map[string]string {
	pick := func(from []string, take func(string) bool) []string {
		return slices.DeleteFunc(slices.Clone(from), func(s string) bool { return !take(s) })
	}
	toolkit := pick(i.Needs, func(lib string) bool { return stage.CanCarry(lib) || rocmLibRE.MatchString(lib) })
	s := map[string][]string{
		"programs": rec.Programs, "version": {i.Version}, "drop": {i.DropIn}, "glibc": {i.Glibc}, "toolkit": toolkit,
		// What else is packed has capitals, and comes before.
		"sums_end": {slices.MaxFunc(append(slices.Collect(maps.Keys(i.Sums)), checkScript), byFolder)},
		"elsewhere": pick(i.Needs, func(lib string) bool {
			return binary.FromDriver(lib) || i.DropIn != "" && strings.HasPrefix(lib, "libggml")
		}),
		"machine": nil, "loader": nil, "roots": nil, "links": nil, "symbols": nil, "debian": nil,
		"gfx": nil, "runs_on": nil, "rebuild": nil, "newest": nil, "full": nil, "folders": nil, "flags": i.flags(),
		"driver": nil, "driver_cuda": nil, "jit_driver": nil, "jit_cuda": nil,
	}
	if i.DropIn != "" {
		s["version"] = nil // the official package's own
	}
	if len(toolkit) > 0 {
		s["folders"] = ToolkitFolders
	}
	if i.Runtime == spec.Thin {
		s["full"] = pick(toolkit, stage.CanCarry)
	}
	for _, f := range i.Files {
		m := machines[f.Machine]
		s["machine"] = []string{m.uname}
		s["loader"] = []string{cmp.Or(strings.Join(s["loader"], ""), f.Interp)}
		if _, file := i.Sums[f.Name]; !file {
			s["links"] = append(s["links"], f.Name)
		}
	}
	for _, f := range binary.Roots(i.Files) {
		s["roots"] = append(s["roots"], f.Name)
	}
	if loader := strings.Join(s["loader"], ""); loader == "" && len(i.Files) > 0 {
		s["loader"] = []string{machines[i.Files[0].Machine].loader}
	}
	for _, lib := range slices.Sorted(maps.Keys(i.Symbols)) {
		for _, version := range i.Symbols[lib] {
			if version != lib { // each CUDA library has one called as itself
				s["symbols"] = append(s["symbols"], lib+":"+version)
			}
		}
	}
	for _, lib := range i.Needs {
		if name := DebianPackage(lib); name != "" {
			s["debian"] = append(s["debian"], lib+":"+name)
		}
	}
	i.cudaSettings(s)
	if hip := rec.Verify.HIP; hip != nil {
		s["gfx"], s["rebuild"] = hip.Archs, []string{"llpatch release", i.Tag, i.Target, "--gfx"}
		s["runs_on"] = pick(binary.GFXNames(), func(name string) bool {
			return !strings.Contains(name, "generic") && binary.ServesGFX(hip.Archs, name) != ""
		})
	}
	out := map[string]string{}
	for key, words := range s {
		out[key] = strings.Join(words, " ")
	}
	return out
}

// byFolder compares two paths as they come in SHA256SUMS.
func byFolder(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) }

// flags are the instructions that every program of the bundle uses, in the words of
// /proc/cpuinfo; where it has variants for several processors, none.
func (i Info) flags() []string {
	var flags []string
	for option, flag := range instructions {
		if i.Options[option] == "ON" && i.Options["GGML_CPU_ALL_VARIANTS"] != "ON" {
			flags = append(flags, flag)
		}
	}
	slices.Sort(flags)
	return flags
}

// cudaSettings adds on which of NVIDIA's cards the bundle runs, and with which driver.
func (i Info) cudaSettings(s map[string][]string) {
	v := i.CUDA
	if v == nil {
		return
	}
	s["rebuild"] = []string{"llpatch release", i.Tag, i.Target, "--cuda-archs"}
	jit := v.Newer
	for _, card := range v.Cards {
		if card.Missing == 0 {
			s["runs_on"] = append(s["runs_on"], card.Capability+":"+strings.Join(card.By, "+"))
			jit = jit || card.JIT
		}
	}
	if v.Newer {
		s["newest"] = []string{binary.NewestCapability()}
	}
	if d := v.Driver; d != nil {
		s["driver"], s["driver_cuda"] = []string{d.Version}, []string{d.CUDA}
	}
	if d := v.JIT; d != nil && jit {
		s["jit_driver"], s["jit_cuda"] = []string{d.Version}, []string{d.CUDA}
	}
}
