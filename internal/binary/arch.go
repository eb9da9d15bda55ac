package binary

import (
	"fmt"
	"strconv"
	"strings"
)

// Arch is a compute capability as NVIDIA's compilers name it: 8.6, or 9.0 with
// the suffix a (for exactly that one) or 10.0 with f (for its family).
type Arch struct {
	Major, Minor int
	Suffix       string // empty, "a" or "f"
}

// archOf returns the capability that a fatbin's header gives as one number, such
// as 86 or 120: ten times the major number and the minor one.
func archOf(n uint32) Arch { return Arch{Major: int(n / 10), Minor: int(n % 10)} }

// String returns the number as compilers write it after sm_ and compute_: 86, 90a.
func (a Arch) String() string { return fmt.Sprintf("%d%d%s", a.Major, a.Minor, a.Suffix) }

// Capability returns the number as NVIDIA's product tables write it: 8.6.
func (a Arch) Capability() string { return fmt.Sprintf("%d.%d", a.Major, a.Minor) }

// parseArch reads sm_86 or compute_90a and says which of the two it is.
func parseArch(s string) (a Arch, ptx bool, err error) {
	digits, isReal := strings.CutPrefix(s, "sm_")
	if !isReal {
		if digits, ptx = strings.CutPrefix(s, "compute_"); !ptx {
			return a, false, fmt.Errorf("%q is neither sm_N nor compute_N", s)
		}
	}
	if n := len(digits); n > 0 && strings.ContainsAny(digits[n-1:], "af") {
		digits, a.Suffix = digits[:n-1], digits[n-1:]
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n < 10 {
		return a, ptx, fmt.Errorf("%q holds no number of an architecture", s)
	}
	whole := archOf(uint32(n))
	a.Major, a.Minor = whole.Major, whole.Minor
	return a, ptx, nil
}

// runsOn reports whether machine code for a runs on a card. Code runs on cards of
// the same major number and the same or a higher minor one; with the suffix a on
// exactly its own; Jetson modules and other cards never run each other's, and of an
// arch that is in no table nothing is promised. Sources:
// NVIDIA's Blackwell Compatibility Guide, "Application Compatibility", the CUDA C++
// Programming Guide, "Binary Compatibility" (the Jetson rule), and NVIDIA's page on
// family-specific features of CUDA 12.9 (the suffix f).
func (a Arch) runsOn(c card) bool {
	if a.Major != c.cc.Major || a.Minor > c.cc.Minor {
		return false
	}
	own, known := cardOf(a)
	return a.Minor == c.cc.Minor || known && a.Suffix != "a" && !c.jetson && !own.jetson
}

// compilesFor reports whether the driver can make code for a card from PTX for a:
// any later card, with the suffix f one of the family, with a only its own. The
// sources are those of runsOn.
func (a Arch) compilesFor(c card) bool {
	switch a.Suffix {
	case "a":
		return a.Major == c.cc.Major && a.Minor == c.cc.Minor
	case "f":
		return a.Major == c.cc.Major && a.Minor <= c.cc.Minor
	}
	return a.Major < c.cc.Major || a.Major == c.cc.Major && a.Minor <= c.cc.Minor
}
