package build

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
)

// BadToolkit is a CUDA toolkit or a ROCm, or its place on this machine, that cannot
// build what is asked.
type BadToolkit struct {
	Name    string // of the program: nvcc, its host compiler, clang, hipcc, or llpatch, which joins what they made
	Path    string // its own
	Version string // as it says; may be empty
	Why     string
	Next    string   // what to do
	Tail    []string // what it printed last, where that tells
}

// Error names the compiler and the fault, then what that printed.
func (e *BadToolkit) Error() string {
	s := fmt.Sprintf("%s (%s): %s", strings.TrimRight(e.Name+" "+e.Version, " "), e.Path, e.Why)
	for _, l := range e.Tail {
		s += "\n  " + l
	}
	return s
}

// ExitCode is exit.Build.
func (e *BadToolkit) ExitCode() int { return exit.Build }

// Hint says what to do.
func (e *BadToolkit) Hint() string { return e.Next }

// hostLimits are the newest major versions of GCC that toolkits take, from a CUDA
// version on: the limit for __GNUC__ in their crt/host_config.h, and NVIDIA's CUDA
// Installation Guide for Linux, "Host Compiler Support Policy". 11.4.0 took 10
// and 11.4.1 took 11; the probe meets the header itself in any case.
var hostLimits = []struct {
	from string
	gcc  int
}{
	{"13.0", 15}, {"12.8", 14}, {"12.4", 13}, {"12.0", 12}, {"11.4", 11}, {"11.1", 10}, {"11.0", 9},
}

// hostLimit is the newest GCC that an nvcc takes, 0: not known.
func hostLimit(nvcc string) int {
	for _, l := range hostLimits {
		if !older(nvcc, l.from) {
			return l.gcc
		}
	}
	return 0
}

// archToolkits are the first and the last toolkit that make machine code for an
// arch (NVIDIA's CUDA Toolkit Release Notes: "New Features" and "Deprecated and
// Dropped Features" of 11.0 to 13.0). What is not here was in all of them.
var archToolkits = map[string][2]string{
	"sm_30": {"", "10.2"}, "sm_32": {"", "10.2"}, "sm_35": {"", "11.8"}, "sm_37": {"", "11.8"},
	"sm_50": {"", "12.9"}, "sm_52": {"", "12.9"}, "sm_53": {"", "12.9"}, "sm_60": {"", "12.9"}, "sm_61": {"", "12.9"},
	"sm_62": {"", "12.9"},
	"sm_70": {"", "12.9"}, "sm_72": {"", "12.9"}, "sm_80": {"11.0", ""}, "sm_86": {"11.1", ""}, "sm_87": {"11.4", ""},
	"sm_89": {"11.8", ""}, "sm_90": {"11.8", ""}, "sm_90a": {"12.0", ""}, "sm_100": {"12.8", ""}, "sm_100a": {"12.8", ""},
	"sm_101": {"12.8", "12.9"},
	"sm_103": {"12.9", ""}, "sm_103a": {"12.9", ""}, "sm_110": {"13.0", ""}, "sm_120": {"12.8", ""},
	"sm_120a": {"12.8", ""}, "sm_121": {"12.9", ""}, "sm_121a": {"12.9", ""},
}

// toolkitFor says which toolkits have an arch, as a hint.
func toolkitFor(arch string) string {
	switch span := archToolkits[arch]; {
	case span[0] != "" && span[1] != "":
		return fmt.Sprintf("CUDA %s to %s have it", span[0], span[1])
	case span[0] != "":
		return fmt.Sprintf("CUDA %s and newer have it", span[0])
	case span[1] != "":
		return fmt.Sprintf("CUDA %s was the last that had it", span[1])
	}
	return ""
}

// unknownArchs compares what is asked for with what nvcc says it makes. An arch
// with a suffix is not in every toolkit's list that has it; compiling decides.
func (e BadToolkit) unknownArchs(want, have []string) error {
	if len(have) == 0 {
		return nil
	}
	for _, arch := range want {
		if slices.Contains(have, arch) || slices.Contains(have, strings.TrimRight(arch, "af")) &&
			strings.TrimRight(arch, "af") != arch {
			continue
		}
		e.Why = fmt.Sprintf("it does not know %s", arch)
		if where := toolkitFor(strings.Replace(arch, "compute_", "sm_", 1)); where != "" {
			e.Why += "; " + where
		}
		e.Why += "; this one knows " + strings.Join(have, " ")
		e.Next = "--cuda-archs takes other archs, such as --cuda-archs 86; another toolkit first on the PATH is taken instead"
		return &e
	}
	return nil
}

// newest compares names of folders by the numbers in them, the highest first:
// cuda-12.10 before cuda-12.9.
func newest(a, b string) int {
	return cmp.Or(slices.Compare(numbers(b), numbers(a)), strings.Compare(a, b))
}

func numbers(s string) []int {
	var out []int
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(f) // digits; too many of them are 0
		out = append(out, n)
	}
	return out
}
