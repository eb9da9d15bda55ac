package binary

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict says where a file's NVIDIA code runs.
type Verdict struct {
	Cards  []Card   `json:"cards,omitempty"`       // by compute capability; those that it does not run on are left out
	Newer  bool     `json:"newer,omitempty"`       // cards newer than all of these too, by PTX
	Driver *Driver  `json:"driver,omitempty"`      // at least, for the CUDA runtime
	JIT    *Driver  `json:"jit_driver,omitempty"`  // at least, where PTX is compiled on the user's machine
	Other  []string `json:"other_archs,omitempty"` // machine code for archs that no card in the table runs
	Notes  []string `json:"notes,omitempty"`       // what NVIDIA's documents leave open
}

// Card is a compute capability and what the file has for it.
type Card struct {
	Capability string   `json:"capability"` // such as 8.6
	Generation string   `json:"generation"`
	Products   string   `json:"products"` // examples
	By         []string `json:"by"`       // what it runs: sm_86, or compute_75 for PTX that the driver compiles
	JIT        bool     `json:"jit,omitempty"`
	Fatbins    int      `json:"fatbins"`           // that hold kernels
	Missing    int      `json:"missing,omitempty"` // of them hold nothing for it, so their kernels fail on it
}

// Judge says on which cards a file's device code runs and which driver it needs at
// least. It returns nil where the file has no kernels.
func Judge(f *File) *Verdict {
	c := f.CUDA
	if c == nil || len(c.sets) == 0 {
		return nil
	}
	v := &Verdict{}
	var sets []*codeSet
	for _, s := range c.sets {
		sets = append(sets, s)
	}
	for _, k := range cards {
		if k.arm && (f.Machine == "EM_X86_64" || f.Machine == amd64) {
			continue
		}
		if card, ok := judgeCard(k, sets); ok {
			v.Cards = append(v.Cards, card)
		}
	}
	v.Newer = !slices.ContainsFunc(sets, func(s *codeSet) bool {
		return !slices.ContainsFunc(s.archs, func(a Arch) bool { return a.Suffix == "" })
	})
	for _, s := range sets {
		for _, a := range s.cubins {
			if name := "sm_" + a.String(); !slices.ContainsFunc(cards, a.runsOn) && !slices.Contains(v.Other, name) {
				v.Other = append(v.Other, name)
			}
		}
	}
	slices.Sort(v.Other)
	if f.PE == nil { // the tables are of drivers for Linux
		v.drivers(c)
	}
	return v
}

// judgeCard says what a card runs of each kind of fatbin, and false where it runs
// none of them.
func judgeCard(k card, sets []*codeSet) (Card, bool) {
	out := Card{Capability: k.cc.Capability(), Generation: k.generation, Products: k.products}
	for _, s := range sets {
		out.Fatbins += s.fatbins
		by, jit := s.best(k)
		switch {
		case by == "":
			out.Missing += s.fatbins
			continue
		case !slices.Contains(out.By, by):
			out.By = append(out.By, by)
		}
		out.JIT = out.JIT || jit
	}
	slices.Sort(out.By)
	return out, out.Missing < out.Fatbins
}

// best returns what a card runs of a fatbin: the machine code nearest to it, else
// the newest PTX that can be compiled for it; empty where there is none.
func (s *codeSet) best(k card) (by string, jit bool) {
	var cubin, ptx *Arch
	for _, a := range s.cubins {
		if a.runsOn(k) && (cubin == nil || nearer(a, *cubin)) {
			cubin = &a
		}
	}
	for _, a := range s.archs {
		if a.compilesFor(k) && (ptx == nil || nearer(a, *ptx)) {
			ptx = &a
		}
	}
	switch {
	case cubin != nil:
		return "sm_" + cubin.String(), false
	case ptx != nil:
		return "compute_" + ptx.String(), true
	}
	return "", false
}

func nearer(a, b Arch) bool {
	if a.Major != b.Major {
		return a.Major > b.Major
	}
	if a.Minor != b.Minor {
		return a.Minor > b.Minor
	}
	return a.Suffix > b.Suffix
}

func (v *Verdict) drivers(c *CUDA) {
	if c.Runtime != "" {
		how := "libcudart.so." + c.Runtime
		if c.Static {
			how = "linked in; as old as the newest compiler of its device code"
		}
		d := runtimeDriver(c.Runtime, how)
		v.Driver = &d
	}
	// A driver loads machine code of its own major version's toolkits, whatever runtime hands it over.
	if n := len(c.Toolkits); n > 0 && v.Driver != nil {
		made := runtimeDriver(c.Toolkits[n-1], "")
		made.Why = "machine code by the compiler of CUDA " + c.Toolkits[n-1]
		d := v.Driver.or(made)
		v.Driver = &d
	}
	newest, zstd := "", false
	for _, code := range c.Code {
		zstd = zstd || slices.Contains(code.Compression, "zstd")
		if code.Kind == "ptx" && Less(newest, code.ISA) {
			newest = code.ISA
		}
		if OfFamily(code.Arch) {
			v.Notes = append(v.Notes, fmt.Sprintf("%s is machine code for a family of cards: CUDA %s, the first that makes "+
				"it, came with driver %s; NVIDIA does not say whether older ones load it", code.Arch, familyToolkit,
				FamilyDriver))
		}
	}
	if newest != "" {
		d := ptxDriver(newest)
		v.JIT = &d
	}
	if zstd { // of PTX too: the driver unpacks it before it compiles it
		d := zstdDriver()
		if v.Driver != nil {
			d = v.Driver.or(d)
		}
		v.Driver = &d
		if v.JIT != nil {
			d := v.JIT.or(zstdDriver())
			v.JIT = &d
		}
	}
}

// String returns a line such as "8.6 Ampere (GeForce RTX 30, RTX A6000, A40): sm_86".
func (k Card) String() string {
	s := fmt.Sprintf("%s %s (%s):", k.Capability, k.Generation, k.Products)
	for _, by := range k.By {
		s += " " + by
		if strings.HasPrefix(by, "compute_") {
			s += " (PTX)"
		}
	}
	if k.Missing > 0 {
		s += fmt.Sprintf("; %d of %d fatbins hold nothing for it", k.Missing, k.Fatbins)
	}
	return s
}

// Serves returns which of the device codes, such as sm_86 and compute_86, a card of a
// compute capability, such as 8.9, runs: machine code before PTX; empty: none. Names
// that are no arch are passed over.
func Serves(codes []string, capability string) string {
	var major, minor int
	if n, err := fmt.Sscanf(capability, "%d.%d", &major, &minor); err != nil || n != 2 {
		return ""
	}
	k, known := cardOf(Arch{Major: major, Minor: minor})
	if !known {
		k = card{cc: Arch{Major: major, Minor: minor}}
	}
	s := &codeSet{}
	for _, code := range codes {
		a, ptx, err := parseArch(code)
		switch {
		case err != nil:
		case ptx:
			s.archs = append(s.archs, a)
		default:
			s.cubins = append(s.cubins, a)
		}
	}
	by, _ := s.best(k)
	return by
}
