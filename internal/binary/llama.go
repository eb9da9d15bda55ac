package binary

import (
	"debug/elf"
	"strings"
)

// Llama is what a program or library of llama.cpp says of its own version.
type Llama struct {
	Build int  `json:"build"`        // the build number that --version prints; 0: it says none that can be one
	Ik    bool `json:"ik,omitempty"` // ik_llama.cpp's own kernels are in it, so that the number is that one's
}

// maxBuild is more than any build number.
const maxBuild = 10_000_000

// llamaOf reads the build number where its symbol is: in upstream's own programs, which are not
// stripped, or in the library that they share. nil where there is none, and nothing else of llama.cpp's.
// A build from a clone without history counts 1 commit, which is no build number.
func llamaOf(f *elf.File) *Llama {
	symbols, _ := f.Symbols() // a stripped file has none
	dynamic, _ := f.DynamicSymbols()
	var out Llama
	found := false
	for _, s := range append(symbols, dynamic...) {
		if strings.Contains(s.Name, "iqk_") {
			out.Ik = true
		}
		if s.Section != elf.SHN_UNDEF && (s.Name == "LLAMA_BUILD_NUMBER" || s.Name == "llama_backend_init") {
			found = true
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
		if n := f.ByteOrder.Uint32(number[:]); n > 1 && n < maxBuild {
			out.Build = int(n)
		}
	}
	if !found {
		return nil
	}
	return &out
}
