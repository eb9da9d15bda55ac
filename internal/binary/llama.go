package binary

import (
	"debug/elf"
	"strings"
)

// Llama is what a program or library of llama.cpp says of its own version.
type Llama struct {
	Build int  `json:"build"`        // the build number that --version prints
	Ik    bool `json:"ik,omitempty"` // ik_llama.cpp's own kernels are in it, so that the number is that one's
}

// maxBuild is more than any build number.
const maxBuild = 10_000_000

// llamaOf reads the build number where its symbol is: in upstream's own programs, which are not
// stripped, or in the library that they share. nil where there is none.
func llamaOf(f *elf.File) *Llama {
	symbols, _ := f.Symbols() // a stripped file has none
	dynamic, _ := f.DynamicSymbols()
	var out Llama
	for _, s := range append(symbols, dynamic...) {
		if strings.Contains(s.Name, "iqk_") {
			out.Ik = true
		}
		if s.Name != "LLAMA_BUILD_NUMBER" || s.Section == elf.SHN_UNDEF || s.Size != 4 || int(s.Section) >= len(f.Sections) {
			continue
		}
		at := f.Sections[s.Section]
		if at.Type == elf.SHT_NOBITS {
			continue
		}
		offset := s.Value
		if f.Type != elf.ET_REL {
			offset -= at.Addr
		}
		var number [4]byte
		if _, err := at.ReadAt(number[:], int64(offset)); err != nil { //nolint:gosec // an offset that is none is not read
			continue
		}
		if n := f.ByteOrder.Uint32(number[:]); n > 0 && n < maxBuild {
			out.Build = int(n)
		}
	}
	if out.Build == 0 {
		return nil
	}
	return &out
}
