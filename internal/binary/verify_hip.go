package binary

import (
	"fmt"
	"slices"
	"strings"
)

func (f *File) hipFaults(want []string) []string {
	h := f.HIP
	if h == nil || h.Bundles == 0 && len(h.Faults) == 0 {
		return []string{"holds no AMD device code: this is a build for the processor alone, or of host code only"}
	}
	faults := slices.Clone(h.Faults)
	if len(h.sets) == 0 {
		return append(faults, "holds no code object in its offload bundles")
	}
	var extra []string
	for _, c := range h.Code {
		if !slices.Contains(want, c.Target) && !slices.Contains(extra, c.Target) {
			extra = append(extra, c.Target)
		}
	}
	if len(extra) > 0 {
		faults = append(faults, fmt.Sprintf("holds code for %s; the recipe's verify.hip wants exactly %s",
			strings.Join(extra, " "), strings.Join(want, " ")))
	}
	for _, target := range want {
		missing := 0
		for _, s := range h.sets {
			if !slices.Contains(s.targets, target) {
				missing += s.bundles
			}
		}
		if missing > 0 {
			faults = append(faults, fmt.Sprintf("lacks code for %s in %d of %d offload bundles", target, missing, h.Bundles))
		}
	}
	if n := h.empty(); n > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d offload bundles hold no code object", n, h.Bundles))
	}
	return faults
}

// empty is the number of bundles that hold no code object.
func (h *HIP) empty() int {
	n := h.Bundles
	for _, s := range h.sets {
		n -= s.bundles
	}
	return n
}
