package binary

import (
	"io"
	"regexp"
)

// cudartDLL is how the CUDA runtime is named: cudart64_12.dll, cudart64_110.dll,
// cudart64_101.dll.
var cudartDLL = regexp.MustCompile(`(?i)^cudart64_([0-9]+)\.dll$`)

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
