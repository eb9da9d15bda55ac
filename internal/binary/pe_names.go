package binary

import (
	"bytes"
	"debug/pe"
	"math"
	"strconv"
	"strings"
)

const (
	// longest is the longest section name that is looked for, with its end. Linkers write
	// .debug_gnu_pubnames and its likes; names of functions stand in symbols.
	longest = 256
	// symbolSize is what a symbol takes in a COFF file ("COFF Symbol Table").
	symbolSize = 18
	// sizeOfTable begins the string table behind the symbols: the bytes of the table, its
	// own four with them ("COFF String Table").
	sizeOfTable = 4
)

// sectionName is a section's name, up to its first zero byte. Microsoft's linker cuts it
// at eight letters; MinGW's and LLVM's write a longer one into the string table, and here
// where it begins there. Where it cannot be had, the name is what the header has.
func (img *image) sectionName(s pe.SectionHeader32) string {
	cut, _, _ := bytes.Cut(s.Name[:], []byte{0})
	name := string(cut)
	at, ok := nameOffset(name)
	if !ok || img.header.PointerToSymbolTable == 0 {
		return name
	}
	table := int64(img.header.PointerToSymbolTable) + symbolSize*int64(img.header.NumberOfSymbols)
	size, err := img.u32(table)
	if err != nil || int64(size) > img.size-table || at < sizeOfTable || at >= size {
		return name
	}
	text, err := img.bytes(table+int64(at), int(min(longest, size-at)))
	if err != nil {
		return name
	}
	if whole, _, ended := bytes.Cut(text, []byte{0}); ended && len(whole) > 0 {
		return string(whole)
	}
	return name
}

// base64Letters are LLVM's, the first for zero; nothing fills up.
const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// nameOffset reads where in the string table a section's name begins: behind a slash in
// decimal, which has room for 9,999,999; behind two in base64, the highest digit first.
// Microsoft's "PE Format" has the first; the second is LLVM's (encodeSectionName in
// llvm/lib/BinaryFormat/COFF.cpp writes it with six letters; getSectionName and
// decodeBase64StringEntry in llvm/lib/Object/COFFObjectFile.cpp read up to six).
func nameOffset(name string) (at uint32, ok bool) {
	letters, is64 := strings.CutPrefix(name, "//")
	if !is64 {
		digits, long := strings.CutPrefix(name, "/")
		n, err := strconv.ParseUint(digits, 10, 32)
		return uint32(n), long && err == nil
	}
	n := uint64(0)
	for _, c := range []byte(letters) { // six at most, in a header's eight bytes
		digit := strings.IndexByte(base64Letters, c)
		if digit < 0 {
			return 0, false
		}
		n = n<<6 | uint64(digit)
	}
	return uint32(n), letters != "" && n <= math.MaxUint32
}
