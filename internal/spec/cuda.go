package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SetArchs makes the recipe build and ask for device code of other archs than
// it names: those of list, joined by commas, each as CMake writes it: 86 or 120a
// for machine code and PTX, 86-real for machine code alone, 86-virtual for PTX.
// The error says what is wrong with the list, or that the recipe names no archs.
func (r *Recipe) SetArchs(list string) error {
	if r.Verify.CUDA == nil || len(r.Verify.CUDA.Archs)+len(r.Verify.CUDA.Toolkits) == 0 {
		return fmt.Errorf("%s has no list of CUDA archs to set", r.Name)
	}
	c := *r.Verify.CUDA
	c.Archs, c.PTX, c.Toolkits = nil, []string{}, nil
	for name := range strings.SplitSeq(list, ",") {
		m := cmakeArchRE.FindStringSubmatch(name)
		if m == nil {
			return fmt.Errorf("%q is not a CUDA arch: 86, 120a, 86-real or 86-virtual; several are joined by commas", name)
		}
		if m[2] != "-virtual" && !slices.Contains(c.Archs, "sm_"+m[1]) {
			c.Archs = append(c.Archs, "sm_"+m[1])
		}
		if m[2] != "-real" && !slices.Contains(c.PTX, "compute_"+m[1]) {
			c.PTX = append(c.PTX, "compute_"+m[1])
		}
	}
	if err := c.tooNew(slices.Concat(c.Archs, c.PTX)); err != nil {
		return err
	}
	if len(c.Archs) == 0 {
		return fmt.Errorf("%q asks for no machine code: name one arch at least without -virtual", list)
	}
	r.Verify.CUDA = &c
	return nil
}

// For returns what a build with a toolkit of a version, such as 11.8, must hold: the table
// with the archs of that version. Where the table does not tell versions apart, or the
// version is not known (empty), it is returned as it is.
func (c *CUDA) For(version string) *CUDA {
	if c == nil || len(c.Toolkits) == 0 || version == "" {
		return c
	}
	at := c.Toolkits[0]
	for _, t := range c.Toolkits[1:] {
		if !versionLess(version, t.From) {
			at = t
		}
	}
	own := *c
	own.Archs, own.PTX, own.Toolkits = at.Archs, at.PTX, nil
	return &own
}

// versionLess compares versions of numbers and dots.
func versionLess(a, b string) bool {
	numbers := func(v string) (out []int) {
		for part := range strings.SplitSeq(v, ".") {
			n, _ := strconv.Atoi(part) // 0 where it is no number
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(numbers(a), numbers(b)) < 0
}

var cmakeArchRE = regexp.MustCompile(`^([1-9][0-9]{1,2}[af]?)(-real|-virtual)?$`)

// CMakeArchs are the archs of the verify.cuda table as CMAKE_CUDA_ARCHITECTURES
// takes them: what must be in the files is what is asked for. It is empty where
// the table does not say exactly which they are.
func (c *CUDA) CMakeArchs() []string {
	if c == nil {
		return nil
	}
	var out []string
	for _, a := range c.Archs {
		out = append(out, strings.TrimPrefix(a, "sm_")+"-real")
	}
	if len(out) == 0 {
		return nil
	}
	for _, a := range c.PTX {
		out = append(out, strings.TrimPrefix(a, "compute_")+"-virtual")
	}
	return out
}

// tooNew says which of some archs is beyond Newest. PTX counts as machine code does:
// a driver compiles it for the cards that it knows, which are those.
func (c *CUDA) tooNew(list []string) error {
	for _, a := range list {
		if c.Newest != "" && archNumber(a) > archNumber(c.Newest) {
			return fmt.Errorf("%s is newer than %s, the last one that the drivers of this target's users know", a, c.Newest)
		}
	}
	return nil
}

// Beyond reports whether the drivers of this target's users know no card of a compute
// capability, such as 8.9.
func (c *CUDA) Beyond(capability string) bool {
	return c.Newest != "" && archNumber("sm_"+strings.ReplaceAll(capability, ".", "")) > archNumber(c.Newest)
}

// archNumber is the 86 of sm_86, and 0 of what is no arch.
func archNumber(arch string) int {
	_, digits, _ := strings.Cut(arch, "_")
	n, _ := strconv.Atoi(strings.TrimRight(digits, "af")) // the pattern of an arch was checked
	return n
}
