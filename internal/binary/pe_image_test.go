package binary_test

import (
	"bytes"
	"cmp"
	"debug/pe"
	"encoding/binary"
	"testing"

	inspect "github.com/llpatch/llpatch/internal/binary"
)

// peImage makes a PE file of one section, for what no linker at hand writes.
type peImage struct {
	bits     int
	machine  uint16
	flags    uint16
	align    uint32 // of sections
	version  [2]uint16
	dirs     [16]pe.DataDirectory
	data     []byte
	sections int    // the header says
	name     string // of the section
	long     bool   // the name stands behind the symbols, as MinGW's linker has it
	header   string // with long, what the section's header has for it; empty: /4
	before   string // with long, what stands behind the symbols before the name
	symbols  uint32 // with long, how many symbols there are, each of 18 zero bytes
}

// Where the section lies in the file and in memory.
const (
	peRaw = 0x400
	peRVA = 0x1000
)

func newPE(bits int) *peImage {
	m := uint16(pe.IMAGE_FILE_MACHINE_AMD64)
	if bits == 32 {
		m = pe.IMAGE_FILE_MACHINE_I386
	}
	return &peImage{
		bits: bits, machine: m, flags: pe.IMAGE_FILE_EXECUTABLE_IMAGE, align: 0x1000,
		version: [2]uint16{6, 1}, sections: 1, name: ".x",
	}
}

// put adds values to the section and returns the address of the first.
func (p *peImage) put(values ...any) uint32 {
	at := peRVA + uint32(len(p.data))
	for _, v := range values {
		switch v := v.(type) {
		case string:
			p.data = append(p.data, v...)
		default:
			p.data, _ = binary.Append(p.data, binary.LittleEndian, v)
		}
	}
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	return at
}

// thunks adds an import lookup table; a number is an ordinal. base is added to each address.
func (p *peImage) thunks(base uint32, entries ...any) uint32 {
	var table []any
	add := func(v uint64) {
		if p.bits == 64 {
			table = append(table, v)
		} else {
			table = append(table, uint32(v))
		}
	}
	for _, e := range entries {
		switch e := e.(type) {
		case int:
			add(uint64(e) | 1<<(p.bits-1))
		case string:
			add(uint64(p.put(uint16(0), e+"\x00") + base))
		}
	}
	add(0)
	return p.put(table...)
}

func (p *peImage) file(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	write := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			tb.Fatal(err)
		}
	}
	dos := make([]byte, 64)
	copy(dos, "MZ")
	dos[0x3c] = 64
	write(dos)
	b.WriteString("PE\x00\x00")
	var optional any = pe.OptionalHeader64{
		Magic: 0x20b, ImageBase: 0x140000000, SectionAlignment: p.align,
		MajorSubsystemVersion: p.version[0], MinorSubsystemVersion: p.version[1], MajorOperatingSystemVersion: 4,
		Subsystem: 3, SizeOfHeaders: peRaw, NumberOfRvaAndSizes: 16, DataDirectory: p.dirs,
	}
	if p.bits == 32 {
		optional = pe.OptionalHeader32{
			Magic: 0x10b, ImageBase: 0x400000, SectionAlignment: p.align,
			MajorSubsystemVersion: p.version[0], MinorSubsystemVersion: p.version[1], Subsystem: 2, SizeOfHeaders: peRaw,
			NumberOfRvaAndSizes: 16, DataDirectory: p.dirs,
		}
	}
	symbols := uint32(0)
	if p.long {
		symbols = uint32(peRaw + len(p.data))
	}
	write(pe.FileHeader{
		Machine: p.machine, NumberOfSections: uint16(p.sections), PointerToSymbolTable: symbols,
		NumberOfSymbols: p.symbols, SizeOfOptionalHeader: uint16(binary.Size(optional)), Characteristics: p.flags,
	})
	write(optional)
	section := pe.SectionHeader32{
		VirtualAddress: peRVA, VirtualSize: uint32(len(p.data)), PointerToRawData: peRaw,
		SizeOfRawData: uint32(len(p.data)),
	}
	copy(section.Name[:], p.name)
	if p.long {
		section.Name = [8]uint8{}
		copy(section.Name[:], cmp.Or(p.header, "/4"))
	}
	write(section)
	b.Write(make([]byte, peRaw-b.Len()))
	b.Write(p.data)
	if p.long {
		b.Write(make([]byte, 18*p.symbols))
		write(uint32(4 + len(p.before) + len(p.name) + 1))
		b.WriteString(p.before + p.name + "\x00")
	}
	return b.Bytes()
}

func (p *peImage) read(tb testing.TB) (*inspect.File, error) {
	tb.Helper()
	data := p.file(tb)
	return inspect.Read(bytes.NewReader(data), int64(len(data)))
}

// imports fills the import directory with one DLL.
func (p *peImage) imports(dll string, lookup, first uint32) {
	name := p.put(dll + "\x00")
	p.dirs[1] = pe.DataDirectory{VirtualAddress: p.put(lookup, uint32(0), uint32(0), name, first, [20]byte{}), Size: 40}
}
