package cli

import (
	"cmp"
	"strings"
)

// hip writes the lines about AMD device code.
func (i inspected) hip(line func(what, format string, args ...any)) {
	h := i.HIP
	if h == nil {
		return
	}
	line("hip", "%d offload bundles, runtime %s, device code by %s", h.Bundles, cmp.Or(h.Runtime, "none"),
		cmp.Or(strings.Join(h.Compiler, " and "), "an unknown compiler"))
	for _, c := range h.Code {
		features := ""
		for _, f := range [][2]string{{"sramecc", c.SramECC}, {"xnack", c.Xnack}} {
			if f[1] != "" {
				features += ", " + f[0] + " " + f[1]
			}
		}
		line("", "%-12s %d x code object version %d, %s, %d KiB%s", c.Target, c.Objects, c.Version,
			strings.Join(c.Compression, " and "), (c.Bytes+1023)>>10, features)
	}
	for _, fault := range h.Faults {
		line("fault", "%s", fault)
	}
}

// onAMD says which AMD cards run the file's code, or why none does. It is empty for
// HIP's own runtime.
func (i inspected) onAMD() []string {
	out := []string{}
	for _, g := range i.GPUs {
		out = append(out, g.String())
	}
	switch {
	case len(out) > 0:
		return append(out, "no other card: code objects are for exactly what they name")
	case len(i.HIP.Faults) > 0:
		return []string{"not known: its device code cannot be read"}
	case i.HIP.Bundles > 0:
		return []string{"no card: its offload bundles hold no code object"}
	case !strings.HasPrefix(i.SOName, "libamdhip64."):
		return []string{"no card: it uses the HIP runtime and holds no device code"}
	}
	return out
}
