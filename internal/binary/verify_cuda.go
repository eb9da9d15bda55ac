package binary

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// verifyDevice checks the device code of the files that the patterns name, and that each
// pattern has a file: a build that quietly left a backend out has none.
func verifyDevice(files []*File, patterns []string, faults func(*File) []string) []error {
	var errs []error
	for _, pattern := range patterns {
		there := false
		for _, f := range files {
			if ok, err := path.Match(pattern, path.Base(f.Name)); err != nil || !ok {
				continue
			}
			there = true
			for _, fault := range faults(f) {
				errs = append(errs, &Rejected{File: f.Name, Fault: fault})
			}
		}
		if !there {
			errs = append(errs, &Rejected{File: pattern, Fault: "is not in the bundle: this is a build for the processor alone"})
		}
	}
	return errs
}

func (f *File) cudaFaults(want spec.CUDA) []string {
	c := f.CUDA
	if c == nil || c.Fatbins == 0 {
		return []string{"holds no CUDA device code: this is a build for the processor alone, or of host code only"}
	}
	if len(c.sets) == 0 {
		return append(slices.Clone(c.Faults), "holds no kernel in its CUDA device code")
	}
	faults := slices.Clone(c.Faults)
	if c.Unlinked {
		faults = append(faults, "holds relocatable device code that was not linked")
	}
	have := map[string][]string{}
	for _, code := range c.Code {
		if !slices.Contains(have[code.Kind], code.Arch) {
			have[code.Kind] = append(have[code.Kind], code.Arch)
		}
	}
	if len(want.Archs) > 0 {
		faults = append(faults, notExactly("machine code", have["cubin"], want.Archs)...)
	}
	if want.PTX != nil {
		faults = append(faults, notExactly("PTX", have["ptx"], want.PTX)...)
	}
	return append(faults, c.lacks(append(slices.Clone(want.Archs), want.AtLeast...), want.PTX)...)
}

// notExactly says which archs a file has that are not wanted. Those that it lacks
// are said by lacks, for each fatbin.
func notExactly(what string, have, want []string) []string {
	var extra []string
	for _, arch := range have {
		if !slices.Contains(want, arch) {
			extra = append(extra, arch)
		}
	}
	if len(extra) == 0 {
		return nil
	}
	asked := "none"
	if len(want) > 0 {
		asked = "exactly " + strings.Join(want, " ")
	}
	return []string{fmt.Sprintf("holds %s for %s; the recipe's verify.cuda wants %s", what, strings.Join(extra, " "),
		asked)}
}

// lacks says which archs are missing in how many of the fatbins that hold kernels:
// the kernels of a fatbin without code for a card fail on it.
func (c *CUDA) lacks(cubins, ptx []string) []string {
	var faults []string
	for _, want := range slices.Concat(cubins, ptx) {
		missing, total := 0, 0
		for _, s := range c.sets {
			total += s.fatbins
			if !s.has(want) {
				missing += s.fatbins
			}
		}
		if missing > 0 {
			faults = append(faults, fmt.Sprintf("lacks code for %s in %d of %d fatbins", want, missing, total))
		}
	}
	return faults
}

func (s *codeSet) has(name string) bool {
	return slices.ContainsFunc(s.cubins, func(a Arch) bool { return "sm_"+a.String() == name }) ||
		slices.ContainsFunc(s.archs, func(a Arch) bool { return "compute_"+a.String() == name })
}
