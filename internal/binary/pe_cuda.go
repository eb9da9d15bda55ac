package binary

import (
	"bytes"
	"debug/pe"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// cudartDLL is how the CUDA runtime is named: cudart64_12.dll, cudart64_110.dll,
// cudart64_101.dll.
var cudartDLL = regexp.MustCompile(`(?i)^cudart64_([0-9]+)\.dll$`)

// longest is the longest section name that is looked for, with its end.
const longest = len(".nvFatBinSegment") + 1

// symbolSize is what a symbol takes in a COFF file ("COFF Symbol Table").
const symbolSize = 18

// sectionName is a section's name. Microsoft's linker cuts it at eight letters; MinGW's
// writes a longer one behind the symbols, and here a slash and where it begins there.
func (img *image) sectionName(s pe.SectionHeader32) string {
	name := strings.TrimRight(string(s.Name[:]), "\x00")
	digits, long := strings.CutPrefix(name, "/")
	at, err := strconv.ParseUint(digits, 10, 32)
	if !long || err != nil || img.header.PointerToSymbolTable == 0 {
		return name
	}
	from := int64(img.header.PointerToSymbolTable) + symbolSize*int64(img.header.NumberOfSymbols) + int64(at)
	text, err := img.bytes(from, int(min(int64(longest), max(0, img.size-from))))
	if err != nil {
		return name
	}
	if whole, _, ended := bytes.Cut(text, []byte{0}); ended {
		return string(whole)
	}
	return name
}

// cuda reads NVIDIA device code from a PE file, and says which runtime starts it; nil
// where there is neither.
func (img *image) cuda(out *File) *CUDA {
	c := &CUDA{sets: map[string]*codeSet{}}
	g := newGather(c)
	host := false
	var constants []*io.SectionReader
	for _, s := range img.sections {
		name := img.sectionName(s)
		off := int64(s.PointerToRawData &^ sectorMask)
		data := io.NewSectionReader(img.r, off, max(0, min(int64(s.SizeOfRawData), img.size-off)))
		switch name {
		case ".nvFatBi", ".nvFatBinSegment":
			host = true
		case ".nv_fatb", ".nv_fatbin":
			g.section(name, data)
		case ".rdata":
			constants = append(constants, data)
		}
	}
	g.finish()
	for _, dll := range append([]string{out.SOName}, out.Needed...) {
		if m := cudartDLL.FindStringSubmatch(dll); m != nil {
			c.Runtime = m[1]
			if n := len(m[1]); n > 2 { // the major and the minor version
				c.Runtime = m[1][:n-1] + "." + m[1][n-1:]
			}
		}
	}
	for _, data := range constants {
		if host && c.Runtime == "" && holds(data, staticMark) {
			c.Static = true
			if n := len(c.Toolkits); n > 0 {
				c.Runtime = c.Toolkits[n-1]
			}
		}
	}
	if c.Fatbins == 0 && c.Runtime == "" && !c.Static && len(c.Faults) == 0 {
		return nil
	}
	return c
}
