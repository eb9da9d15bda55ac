package binary

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// gfxNumbers are the processors by their number in a code object's header (LLVM,
// "User Guide for AMDGPU Backend", "AMDGPU ELF Header e_flags"; llvm/BinaryFormat/ELF.h).
var gfxNumbers = map[uint32]string{
	0x20: "gfx600", 0x21: "gfx601", 0x22: "gfx700", 0x23: "gfx701", 0x24: "gfx702", 0x25: "gfx703", 0x26: "gfx704",
	0x28: "gfx801", 0x29: "gfx802", 0x2a: "gfx803", 0x2b: "gfx810", 0x2c: "gfx900", 0x2d: "gfx902", 0x2e: "gfx904",
	0x2f: "gfx906",
	0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030",
	0x37: "gfx1031",
	0x38: "gfx1032", 0x39: "gfx1033", 0x3a: "gfx602", 0x3b: "gfx705", 0x3c: "gfx805", 0x3d: "gfx1035", 0x3e: "gfx1034",
	0x3f: "gfx90a",
	0x40: "gfx940", 0x41: "gfx1100", 0x42: "gfx1013", 0x43: "gfx1150", 0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101",
	0x47: "gfx1102",
	0x48: "gfx1200", 0x49: "gfx1250", 0x4a: "gfx1151", 0x4b: "gfx941", 0x4c: "gfx942", 0x4e: "gfx1201", 0x4f: "gfx950",
	0x51: "gfx9-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic", 0x54: "gfx11-generic", 0x55: "gfx1152",
	0x58: "gfx1153",
	0x59: "gfx12-generic", 0x5f: "gfx9-4-generic",
}

// gpu is a row of the table of AMD's cards by processor.
type gpu struct {
	gfx        string
	generation string
	products   string
}

// gpus holds one row per processor. The products are examples from the table
// "Processors" of LLVM's "User Guide for AMDGPU Backend" and from AMD's page "ROCm
// system requirements (Linux)" and its "GPU hardware specifications".
var gpus = []gpu{
	{gfx: "gfx803", generation: "GCN 4", products: "Radeon RX 480, RX 580"},
	{gfx: "gfx900", generation: "Vega", products: "Radeon RX Vega 56 and 64, Instinct MI25"},
	{gfx: "gfx90c", generation: "Vega", products: "Ryzen 4000 to 5000"},
	{gfx: "gfx906", generation: "Vega", products: "Radeon VII, Instinct MI50 and MI60"},
	{gfx: "gfx908", generation: "CDNA", products: "Instinct MI100"},
	{gfx: "gfx90a", generation: "CDNA 2", products: "Instinct MI210, MI250"},
	{gfx: "gfx942", generation: "CDNA 3", products: "Instinct MI300, MI325"},
	{gfx: "gfx950", generation: "CDNA 4", products: "Instinct MI350, MI355"},
	{gfx: "gfx1010", generation: "RDNA", products: "Radeon RX 5700, RX 5600 XT"},
	{gfx: "gfx1012", generation: "RDNA", products: "Radeon RX 5500"},
	{gfx: "gfx1030", generation: "RDNA 2", products: "Radeon RX 6800, RX 6900 XT, PRO W6800"},
	{gfx: "gfx1031", generation: "RDNA 2", products: "Radeon RX 6700 XT"},
	{gfx: "gfx1032", generation: "RDNA 2", products: "Radeon RX 6600"},
	{gfx: "gfx1034", generation: "RDNA 2", products: "Radeon RX 6500 XT"},
	{gfx: "gfx1035", generation: "RDNA 2", products: "Radeon 680M"},
	{gfx: "gfx1036", generation: "RDNA 2", products: "the graphics of Ryzen 7000 and 9000"},
	{gfx: "gfx1100", generation: "RDNA 3", products: "Radeon RX 7900 XTX, RX 7900 XT, PRO W7900"},
	{gfx: "gfx1101", generation: "RDNA 3", products: "Radeon RX 7800 XT, RX 7700 XT, PRO W7700"},
	{gfx: "gfx1102", generation: "RDNA 3", products: "Radeon RX 7600"},
	{gfx: "gfx1103", generation: "RDNA 3", products: "Radeon 780M"},
	{gfx: "gfx1150", generation: "RDNA 3.5", products: "Radeon 890M"},
	{gfx: "gfx1151", generation: "RDNA 3.5", products: "Radeon 8060S (Ryzen AI Max)"},
	{gfx: "gfx1152", generation: "RDNA 3.5", products: "Radeon 860M"},
	{gfx: "gfx1200", generation: "RDNA 4", products: "Radeon RX 9060 XT"},
	{gfx: "gfx1201", generation: "RDNA 4", products: "Radeon RX 9070, RX 9070 XT, AI PRO R9700"},
}

// generics are the processors that run code for a generic one (LLVM, "User Guide for
// AMDGPU Backend", "Generic processor code object versioning" and "Generic Processors").
var generics = map[string][]string{
	"gfx9-generic":    {"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"},
	"gfx9-4-generic":  {"gfx940", "gfx941", "gfx942", "gfx950"},
	"gfx10-1-generic": {"gfx1010", "gfx1011", "gfx1012", "gfx1013"},
	"gfx10-3-generic": {"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"},
	"gfx11-generic":   {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"},
	"gfx12-generic":   {"gfx1200", "gfx1201"},
}

// gfxRuns reports whether a card of a processor runs code for a target. What the
// target asks of xnack and sramecc is a setting of the card and its driver, and is
// not judged.
func gfxRuns(target, gfx string) bool {
	name, _, _ := strings.Cut(target, ":")
	return name == gfx || slices.Contains(generics[name], gfx)
}

// ServesGFX returns which of the targets, such as gfx1201 and gfx12-generic, a card of
// a processor, such as gfx1201, runs: its own before a generic one; empty: none.
func ServesGFX(targets []string, gfx string) string {
	best := ""
	for _, t := range targets {
		if gfxRuns(t, gfx) && (best == "" || strings.Contains(best, "generic")) {
			best = t
		}
	}
	return best
}

// GFXNames returns the sorted names of the processors of AMD's that llpatch knows,
// generic ones too.
func GFXNames() []string { return slices.Sorted(maps.Values(gfxNumbers)) }

// GPU is an AMD processor that a file has code for.
type GPU struct {
	GFX        string   `json:"gfx"` // such as gfx1201
	Generation string   `json:"generation"`
	Products   string   `json:"products"` // examples
	By         []string `json:"by"`       // what it runs: gfx1201, gfx12-generic
	Bundles    int      `json:"bundles"`
	Missing    int      `json:"missing,omitempty"` // of them hold nothing for it, so their kernels fail on it
}

// GPUs says which AMD processors run a file's device code, in the order of the table
// of cards; those that the table does not have follow, where the code names them.
// It is empty where the file has no code objects.
func GPUs(f *File) []GPU {
	if f.HIP == nil || len(f.HIP.sets) == 0 {
		return nil
	}
	rows := slices.Clone(gpus)
	for _, c := range f.HIP.Code {
		name, _, _ := strings.Cut(c.Target, ":")
		if !strings.Contains(name, "generic") && !slices.ContainsFunc(rows, func(g gpu) bool { return g.gfx == name }) {
			rows = append(rows, gpu{gfx: name})
		}
	}
	var out []GPU
	for _, row := range rows {
		g := GPU{GFX: row.gfx, Generation: row.generation, Products: row.products}
		for _, s := range f.HIP.sets {
			g.Bundles += s.bundles
			switch by := ServesGFX(s.targets, row.gfx); {
			case by == "":
				g.Missing += s.bundles
			case !slices.Contains(g.By, by):
				g.By = append(g.By, by)
			}
		}
		slices.Sort(g.By)
		if len(g.By) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// String returns a line such as "gfx1201 RDNA 4 (Radeon RX 9070, …): gfx12-generic".
func (g GPU) String() string {
	s := g.GFX
	if g.Generation != "" {
		s += " " + g.Generation + " (" + g.Products + ")"
	}
	s += ": " + strings.Join(g.By, " ")
	if g.Missing > 0 {
		s += fmt.Sprintf("; %d of %d bundles hold nothing for it", g.Missing, g.Bundles)
	}
	return s
}
