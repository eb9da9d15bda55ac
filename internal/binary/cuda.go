package binary

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// CUDA is the NVIDIA device code of a file and the CUDA runtime that starts it.
type CUDA struct {
	Fatbins  int      `json:"fatbins"`            // how many there are: mostly one for each source file
	Code     []Code   `json:"code,omitempty"`     // what they hold, machine code first, by arch
	Toolkits []string `json:"toolkits,omitempty"` // versions of the compilers that made the machine code, such as 12.4
	Runtime  string   `json:"runtime,omitempty"`  // version of the CUDA runtime, as far as it can be told: 12, 11.0, 11.8
	Static   bool     `json:"static,omitempty"`   // that runtime is linked in
	// the code is relocatable: an object file that was not linked for the device
	Unlinked bool     `json:"unlinked,omitempty"`
	Faults   []string `json:"faults,omitempty"` // what is no fatbin, or contradicts itself

	sets map[string]*codeSet
}

// Code is one kind of device code in a file, for one arch.
type Code struct {
	Arch        string   `json:"arch"`                  // sm_86 for machine code, compute_86 for what a driver compiles
	Kind        string   `json:"kind"`                  // cubin, ptx, nvvm, or a number
	ISA         string   `json:"isa,omitempty"`         // version of the PTX language
	Compression []string `json:"compression,omitempty"` // zstd, lz4, none
	Entries     int      `json:"entries"`
	Bytes       int64    `json:"bytes"` // as stored, with padding
}

// codeSet is what a number of fatbins hold alike: cards are judged by each.
type codeSet struct {
	fatbins int
	cubins  []Arch
	archs   []Arch // of its PTX
}

// maxFaults bounds how many faults of one file are kept.
const maxFaults = 8

func (c *CUDA) fault(format string, args ...any) {
	if len(c.Faults) < maxFaults {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
	}
}

// readCUDA looks for device code and a CUDA runtime in an ELF file; nil where there
// is neither. An nvcc-linked file may hold its relocatable device code a second
// time, so that counts only where there is no linked one (cuobjdump does the same).
func readCUDA(f *elf.File, out *File) *CUDA {
	c := &CUDA{sets: map[string]*codeSet{}}
	g := newGather(c)
	host := false
	for _, name := range []string{".nv_fatbin", "__nv_relfatbin"} {
		if c.Fatbins > 0 {
			break
		}
		for _, s := range f.Sections {
			host = host || s.Name == ".nvFatBinSegment"
			if s.Name != name || s.Type == elf.SHT_NOBITS {
				continue
			}
			if s.Flags&elf.SHF_COMPRESSED != 0 {
				c.fault("%s is compressed as a whole, which nvcc does not do", name)
				continue
			}
			g.section(name, io.NewSectionReader(s, 0, int64(s.FileSize)))
			c.Unlinked = name == "__nv_relfatbin" && c.Fatbins > 0
		}
	}
	g.finish()
	c.runtime(f, out, host)
	if c.Fatbins == 0 && c.Runtime == "" && !c.Static && len(c.Faults) == 0 {
		return nil
	}
	return c
}

// gather collects what the fatbins of a file hold.
type gather struct {
	c      *CUDA
	code   map[string]*Code
	opened map[Arch]bool    // archs of which a cubin was opened
	empty  map[int]bool     // fatbins that hold a cubin without code
	held   map[int][]*entry // by fatbin, what can run
	count  int
	budget int64 // bytes that may still be read and decompressed
}

// Bounds against hostile files. The largest library known, libcublasLt.so.13, has
// 5,666 entries (cuBLAS 13.10).
const (
	maxEntries = 1 << 18
	maxOpened  = 512 << 20
)

func newGather(c *CUDA) *gather {
	return &gather{
		c: c, code: map[string]*Code{}, opened: map[Arch]bool{}, empty: map[int]bool{},
		held: map[int][]*entry{}, budget: maxOpened,
	}
}

// section reads the fatbins of one section.
func (g *gather) section(name string, r *io.SectionReader) {
	before := g.c.Fatbins
	n, err := readFatbins(r, func(i int, e *entry) error { return g.add(before+i, e) })
	if err != nil {
		g.c.fault("%s: %v", name, err)
	}
	g.c.Fatbins += n
}

func (g *gather) add(container int, e *entry) error {
	if g.count++; g.count > maxEntries {
		return fmt.Errorf("more than %d entries", maxEntries)
	}
	code := Code{Kind: "cubin", Arch: "sm_" + e.arch.String()}
	switch e.kind {
	case kindELF:
		g.open(container, e)
	case kindPTX:
		code = Code{Kind: "ptx", Arch: "compute_" + e.arch.String(), ISA: fmt.Sprintf("%d.%d", e.major, e.minor)}
	case kindNVVM:
		code = Code{Kind: "nvvm", Arch: "lto_" + e.arch.String()}
	default:
		code.Kind = fmt.Sprintf("kind %d", e.kind)
	}
	key := code.Kind + code.Arch + code.ISA
	have := g.code[key]
	if have == nil {
		have = &code
		g.code[key] = have
	}
	have.Entries++
	have.Bytes += e.stored
	if how := cmp.Or(e.compression(), "none"); !slices.Contains(have.Compression, how) {
		have.Compression = append(have.Compression, how)
	}
	held := g.held[container]
	if e.kind == kindELF || e.kind == kindPTX {
		held = append(held, e)
	}
	g.held[container] = held
	return nil
}

// open reads a cubin where that is worth it: the first of each arch for the
// toolkit's version, and every one so small that it may hold no code.
func (g *gather) open(container int, e *entry) {
	limit := int64(smallCubin)
	if !g.opened[e.arch] {
		limit = maxCubin
	}
	if g.budget < limit {
		return
	}
	data, err := e.content(limit)
	if errors.Is(err, errTooLarge) {
		return
	}
	g.opened[e.arch] = true
	g.budget -= max(e.cost(), smallCubin)
	if err != nil {
		g.c.fault("cubin for sm_%s: %v", e.arch, err)
		return
	}
	b, err := readCubin(data)
	if err != nil {
		g.c.fault("cubin for sm_%s: %v", e.arch, err)
		return
	}
	if says := archOf(b.arch); b.arch != 0 && (says.Major != e.arch.Major || says.Minor != e.arch.Minor) {
		g.c.fault("the fatbin says sm_%s, the cubin in it sm_%s", e.arch, says)
	}
	if !b.kernels {
		g.empty[container] = true
		return
	}
	if b.toolkit != "" && !slices.Contains(g.c.Toolkits, b.toolkit) {
		g.c.Toolkits = append(g.c.Toolkits, b.toolkit)
	}
}

func (g *gather) finish() {
	c := g.c
	for _, key := range slices.Sorted(maps.Keys(g.code)) {
		slices.Sort(g.code[key].Compression)
		c.Code = append(c.Code, *g.code[key])
	}
	slices.SortFunc(c.Code, func(a, b Code) int {
		x, _, _ := parseArch(a.Arch)
		y, _, _ := parseArch(b.Arch)
		return cmp.Or(strings.Compare(a.Kind, b.Kind), cmp.Compare(x.Major, y.Major), cmp.Compare(x.Minor, y.Minor),
			strings.Compare(a.Arch, b.Arch), strings.Compare(a.ISA, b.ISA))
	})
	slices.SortFunc(c.Toolkits, func(a, b string) int {
		if Less(a, b) {
			return -1
		}
		return 1
	})
	for i := range c.Fatbins {
		held, some := g.held[i]
		if !some || g.empty[i] {
			continue // what nvcc adds when it links; no kernel is looked for in it
		}
		set := &codeSet{}
		var key []string
		for _, e := range held {
			if e.kind == kindELF {
				set.cubins = append(set.cubins, e.arch)
			} else {
				set.archs = append(set.archs, e.arch)
			}
			key = append(key, fmt.Sprintf("%d %s %d.%d", e.kind, e.arch, e.major, e.minor))
		}
		slices.Sort(key)
		k := strings.Join(key, ",")
		c.sets[k] = cmp.Or(c.sets[k], set)
		c.sets[k].fatbins++
	}
}

var cudartRE = regexp.MustCompile(`^libcudart\.so\.([0-9]+(?:\.[0-9]+)?)`)

// staticMark stands in every CUDA runtime as the name of an error code; checked in
// libcudart_static.a of 11.8, 12.9 and 13.5.
const staticMark = "cudaErrorCudartUnloading"

// runtime says which CUDA runtime the file needs, is, or has linked in. One that is
// linked in does not give its version; then it is the newest compiler's.
func (c *CUDA) runtime(f *elf.File, out *File, host bool) {
	for _, lib := range append(slices.Clone(out.Needed), out.SOName) {
		if m := cudartRE.FindStringSubmatch(lib); m != nil {
			c.Runtime = m[1]
			return
		}
	}
	if !host || f.Type == elf.ET_REL {
		return
	}
	for _, s := range f.Sections {
		if s.Name == ".rodata" && s.Type != elf.SHT_NOBITS && holds(io.NewSectionReader(s, 0, int64(s.FileSize)),
			staticMark) {
			c.Static = true
			if n := len(c.Toolkits); n > 0 {
				c.Runtime = c.Toolkits[n-1]
			}
			return
		}
	}
}

// holds reports whether text stands somewhere in r.
func holds(r io.Reader, text string) bool {
	buf := make([]byte, 1<<20)
	keep := 0
	for {
		n, err := io.ReadFull(r, buf[keep:])
		if bytes.Contains(buf[:keep+n], []byte(text)) {
			return true
		}
		if err != nil {
			return false
		}
		keep = copy(buf, buf[keep+n-len(text):keep+n])
	}
}

// readDevice reads a file that is device code alone: a fatbin, or an offload bundle.
func readDevice(r io.ReaderAt, size int64) (*File, error) {
	var magic [4]byte
	if _, err := r.ReadAt(magic[:], 0); err == nil && (string(magic[:]) == bundleMagic[:4] ||
		string(magic[:]) == packedMagic) {
		return readGPUBundle(r, size), nil
	}
	if _, err := r.ReadAt(magic[:], 0); err != nil || binary.LittleEndian.Uint32(magic[:]) != fatbinMagic {
		return nil, ErrNotELF
	}
	c := &CUDA{sets: map[string]*codeSet{}}
	g := newGather(c)
	g.section("file", io.NewSectionReader(r, 0, size))
	g.finish()
	return &File{Machine: "fatbin", Versions: map[string]string{}, CUDA: c}, nil
}
