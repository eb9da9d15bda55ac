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

var setShRE = regexp.MustCompile(`(?m)^([a-z_]+)=''$`)

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

// shSettings is what check.sh is told of the bundle: all of it from the recipe, and from
// what was found in the files.
func (i Info) shSettings(rec spec.Recipe) map[string]string {
	s := i.facts()
	toolkit := s["toolkit"]
	maps.Copy(s, map[string][]string{
		"programs": rec.Programs, "version": {i.Version}, "drop": {i.DropIn},
		// What else is packed has capitals, and comes before.
		"sums_end": {slices.MaxFunc(append(slices.Collect(maps.Keys(i.Sums)), checkScript), byFolder)},
		"elsewhere": pick(i.Needs, func(lib string) bool {
			return binary.FromDriver(lib) || i.DropIn != "" && strings.HasPrefix(lib, "libggml")
		}),
		"roots": nil, "links": nil, "debian": nil, "gfx": nil, "rebuild": nil, "full": nil, "folders": nil,
		"rocm": pick(toolkit, rocmRE.MatchString), "hint_system": {HintNewerSystem}, "hint_glibc": {HintGlibc},
		"hint_build": {HintOtherBuild},
		"hint_full":  {hintFull}, "hint_rocm": {hintROCm}, "hint_nvidia": {HintNVIDIA}, "hint_libcuda": {HintLibcuda},
		"hint_driver": {HintNewerDriver},
		"hint_amd":    {HintAMD}, "hint_nvidia_group": {HintNVIDIAGroup}, "hint_amd_group": {HintAMDGroup},
	})
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
		if _, file := i.Sums[f.Name]; !file {
			s["links"] = append(s["links"], f.Name)
		}
	}
	for _, f := range binary.Roots(i.Files) {
		s["roots"] = append(s["roots"], f.Name)
	}
	for _, lib := range i.Needs {
		if name := DebianPackage(lib); name != "" {
			s["debian"] = append(s["debian"], lib+":"+name)
		}
	}
	if i.CUDA != nil {
		s["rebuild"] = []string{"llpatch release", i.Tag, i.Target, "--cuda-archs"}
	}
	if hip := rec.Verify.HIP; hip != nil {
		s["gfx"], s["rebuild"] = hip.Archs, []string{"llpatch release", i.Tag, i.Target, "--gfx"}
		s["runs_on"] = pick(binary.GFXNames(), func(name string) bool {
			return !strings.Contains(name, "generic") && binary.ServesGFX(hip.Archs, name) != ""
		})
	}
	return joined(s)
}

func pick(from []string, take func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(from), func(s string) bool { return !take(s) })
}

func joined(s map[string][]string) map[string]string {
	out := map[string]string{}
	for key, words := range s {
		out[key] = strings.Join(words, " ")
	}
	return out
}

// Facts are what decides on which machines a bundle runs, by the names that a script has for
// them, lists with spaces between: the kind of machine and system, instructions, glibc and
// other libraries, cards and drivers. check.sh of the bundle judges by the same.
func (i Info) Facts() map[string]string {
	s := i.facts()
	if i.Windows != "" { // the drivers' numbers above are of those for Linux
		s = map[string][]string{"system": {i.Windows}, "dlls": i.NVIDIA, "cards": i.capabilities()}
		if i.CUDA != nil || len(i.NVIDIA) > 0 {
			s["driver"], s["gpu"] = []string{Win7Driver}, []string{"1"}
		}
	}
	switch {
	case i.CUDA != nil:
		s["card"] = []string{"nvidia"}
	case len(i.AMD) > 0:
		s["card"] = []string{"amd"}
		for _, g := range i.AMD {
			if g.Missing == 0 {
				s["runs_on"] = append(s["runs_on"], g.GFX)
			}
		}
	}
	out := joined(s)
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out
}

// capabilities are those of NVIDIA's cards that run all of the bundle.
func (i Info) capabilities() (all []string) {
	if i.CUDA != nil {
		for _, c := range i.CUDA.Cards {
			if c.Missing == 0 {
				all = append(all, c.Capability)
			}
		}
	}
	return all
}

// facts are those for Linux, with all their names.
func (i Info) facts() map[string][]string {
	s := map[string][]string{
		"glibc": {i.Glibc}, "toolkit": pick(i.Needs, func(lib string) bool { return Instead(lib) != "" }), "flags": i.flags(),
		"machine": nil, "loader": nil, "symbols": nil, "runs_on": nil, "newest": nil, "driver": nil, "driver_cuda": nil,
		"jit_driver": nil, "jit_cuda": nil,
		"elders": nil, "jit_elders": nil,
	}
	loader := ""
	for _, f := range i.Files {
		loader = cmp.Or(loader, f.Interp)
	}
	for _, m := range machines {
		if len(i.Files) > 0 && i.Files[0].Machine == m.elf {
			s["machine"], s["loader"] = []string{m.uname}, []string{cmp.Or(loader, m.loader)}
		}
	}
	for _, lib := range slices.Sorted(maps.Keys(i.Symbols)) {
		for _, version := range i.Symbols[lib] {
			if version != lib { // each CUDA library has one called as itself
				s["symbols"] = append(s["symbols"], lib+":"+version)
			}
		}
	}
	i.cudaFacts(s)
	return s
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

// cudaFacts adds on which of NVIDIA's cards the bundle runs, and with which driver.
func (i Info) cudaFacts(s map[string][]string) {
	v := i.CUDA
	if v == nil {
		return
	}
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
		s["driver"], s["driver_cuda"], s["elders"] = []string{d.Version}, []string{d.CUDA}, d.Elders(false)
	}
	if d := v.JIT; d != nil && jit {
		s["jit_driver"], s["jit_cuda"], s["jit_elders"] = []string{d.Version}, []string{d.CUDA}, d.Elders(true)
	}
}
