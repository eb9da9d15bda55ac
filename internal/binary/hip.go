package binary

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// HIP is the AMD device code of a file and the HIP runtime that starts it.
type HIP struct {
	Bundles  int          `json:"bundles"`             // how many there are: mostly one for each source file
	Code     []CodeObject `json:"code,omitempty"`      // what they hold, by target
	Runtime  string       `json:"runtime,omitempty"`   // of the libamdhip64 that it needs: 6
	Compiler []string     `json:"compilers,omitempty"` // that made the code, as its .comment has them
	Faults   []string     `json:"faults,omitempty"`    // what is no bundle, or contradicts itself

	sets    map[string]*gfxSet
	budget  int64 // bytes that may still be decompressed
	ratio   int64 // likewise, by the file's size
	entries int
}

// CodeObject is what the bundles of a file hold for one target.
type CodeObject struct {
	Target      string   `json:"target"`          // as clang writes it: gfx1201, gfx90a:sramecc+:xnack-
	Xnack       string   `json:"xnack,omitempty"` // any, on, off; empty: the target has none
	SramECC     string   `json:"sramecc,omitempty"`
	Version     int      `json:"code_object_version"` // 2 to 6
	Compression []string `json:"compression"`         // of the bundles that hold it: none, zstd, zlib
	Objects     int      `json:"objects"`
	Bytes       int64    `json:"bytes"` // not compressed
}

// gfxSet is what a number of bundles hold alike: cards are judged by each.
type gfxSet struct {
	bundles int
	targets []string
}

func newHIP(size int64) *HIP {
	return &HIP{sets: map[string]*gfxSet{}, budget: maxBundles, ratio: size * maxRatio}
}

func (h *HIP) fault(format string, args ...any) {
	if len(h.Faults) < maxFaults {
		h.Faults = append(h.Faults, fmt.Sprintf(format, args...))
	}
}

var hipRuntimeRE = regexp.MustCompile(`^libamdhip64\.so\.([0-9]+)`)

// hipSection is where clang puts the bundles of an ELF file.
const hipSection = ".hip_fatbin"

// readHIP looks for device code and a HIP runtime in an ELF file; nil where there is
// neither. A code object alone is such a file as well.
func readHIP(f *elf.File, out *File, r io.ReaderAt, size int64) *HIP {
	h := newHIP(size)
	if f.Machine == emAMDGPU {
		h.Bundles = 1
		h.take(&gfxEntry{size: size, open: func() (io.ReaderAt, error) { return r, nil }}, "none")
		h.finish([][]string{h.last()})
		return h
	}
	var held [][]string
	left := size
	for _, s := range f.Sections {
		if s.Name != hipSection || s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Flags&elf.SHF_COMPRESSED != 0 {
			h.fault("%s is compressed as a whole, which clang does not do", s.Name)
			continue
		}
		if left -= int64(min(s.FileSize, uint64(size)+1)); left < 0 {
			h.fault("sections called %s lie over one another", s.Name)
			break
		}
		held = append(held, h.section(s.Name, io.NewSectionReader(s, 0, int64(s.FileSize)))...)
	}
	h.finish(held)
	for _, lib := range append(slices.Clone(out.Needed), out.SOName) {
		if m := hipRuntimeRE.FindStringSubmatch(lib); m != nil {
			h.Runtime = m[1]
			break
		}
	}
	if h.Bundles == 0 && h.Runtime == "" && len(h.Faults) == 0 {
		return nil
	}
	return h
}

// section reads the bundles of one section and returns the targets of each.
func (h *HIP) section(name string, r *io.SectionReader) [][]string {
	var held [][]string
	err := h.bundles(r, func(entries []*gfxEntry, compression string) {
		h.Bundles++
		var targets []string
		for _, e := range entries {
			if h.take(e, compression) {
				targets = append(targets, h.Code[len(h.Code)-1].Target)
			}
		}
		held = append(held, targets)
	})
	if err != nil {
		h.fault("%s: %v", name, err)
	}
	return held
}

// take reads one entry of a bundle, and reports whether it is device code.
func (h *HIP) take(e *gfxEntry, compression string) bool {
	if e.host() {
		return false
	}
	if e.size == 0 && e.id != "" {
		h.fault("the bundle names %s and holds nothing for it", e.target())
		return false
	}
	r, err := e.open()
	if err != nil {
		h.fault("code object for %s: %v", e.target(), err)
		return false
	}
	o, err := readCodeObject(io.NewSectionReader(r, 0, e.size))
	if err != nil {
		h.fault("code object for %s: %v", e.target(), err)
		return false
	}
	if named := e.target(); e.id != "" && !o.is(named) {
		h.fault("the bundle says %s, the code object in it %s", named, o.target())
	}
	if o.compiler != "" && !slices.Contains(h.Compiler, o.compiler) && len(h.Compiler) < maxFaults {
		h.Compiler = append(h.Compiler, o.compiler)
	}
	h.Code = append(h.Code, CodeObject{
		Target: o.target(), Xnack: o.xnack, SramECC: o.sramecc, Version: o.version, Compression: []string{compression},
		Objects: 1, Bytes: e.size,
	})
	return true
}

// last is the target that was taken last, where there is one.
func (h *HIP) last() []string {
	if len(h.Code) == 0 {
		return nil
	}
	return []string{h.Code[len(h.Code)-1].Target}
}

// finish puts alike things together.
func (h *HIP) finish(held [][]string) {
	by := map[string]*CodeObject{}
	for _, c := range h.Code {
		key := fmt.Sprintf("%s %d", c.Target, c.Version)
		have := by[key]
		if have == nil {
			by[key] = &c
			continue
		}
		have.Objects++
		have.Bytes += c.Bytes
		if !slices.Contains(have.Compression, c.Compression[0]) {
			have.Compression = append(have.Compression, c.Compression[0])
			slices.Sort(have.Compression)
		}
	}
	h.Code = nil
	for _, key := range slices.Sorted(maps.Keys(by)) {
		h.Code = append(h.Code, *by[key])
	}
	// gfx906 before gfx1201, and features last; those of one length stay sorted by name.
	slices.SortStableFunc(h.Code, func(a, b CodeObject) int { return cmp.Compare(len(a.Target), len(b.Target)) })
	slices.Sort(h.Compiler)
	for _, targets := range held {
		if len(targets) == 0 {
			continue
		}
		slices.Sort(targets)
		targets = slices.Compact(targets)
		key := strings.Join(targets, " ")
		h.sets[key] = cmp.Or(h.sets[key], &gfxSet{targets: targets})
		h.sets[key].bundles++
	}
}

// readGPUBundle reads a file that is an offload bundle alone, as clang writes it with
// --cuda-device-only and --gpu-bundle-output.
func readGPUBundle(r io.ReaderAt, size int64) *File {
	h := newHIP(size)
	h.finish(h.section("file", io.NewSectionReader(r, 0, size)))
	return &File{Machine: "offload bundle", Versions: map[string]string{}, HIP: h}
}
