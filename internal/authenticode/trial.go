package authenticode

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
)

// trialProgram is the smallest Windows program that osslsigncode signs: headers and one
// section, which returns. It is signed to try a certificate and is never run.
func trialProgram() []byte {
	const (
		headers = 0x200 // also the size of the section: the file's alignment
		at      = 0x1000
	)
	var b bytes.Buffer
	b.WriteString("MZ")
	b.Write(make([]byte, 58))
	opt := pe.OptionalHeader64{
		Magic: 0x20b, SizeOfCode: headers, AddressOfEntryPoint: at, BaseOfCode: at, ImageBase: 0x140000000,
		SectionAlignment: at, FileAlignment: headers, MajorOperatingSystemVersion: 6, MinorOperatingSystemVersion: 1,
		MajorSubsystemVersion: 6, MinorSubsystemVersion: 1, SizeOfImage: 2 * at, SizeOfHeaders: headers,
		Subsystem: pe.IMAGE_SUBSYSTEM_WINDOWS_CUI, NumberOfRvaAndSizes: 16,
	}
	section := pe.SectionHeader32{
		Name: [8]uint8{'.', 't', 'e', 'x', 't'}, VirtualSize: 1, VirtualAddress: at, SizeOfRawData: headers,
		PointerToRawData: headers,
		Characteristics:  pe.IMAGE_SCN_CNT_CODE | pe.IMAGE_SCN_MEM_EXECUTE | pe.IMAGE_SCN_MEM_READ,
	}
	for _, part := range []any{
		uint32(64), []byte("PE\x00\x00"),
		pe.FileHeader{
			Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1, SizeOfOptionalHeader: uint16(binary.Size(opt)),
			Characteristics: pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE,
		},
		opt, section,
	} {
		_ = binary.Write(&b, binary.LittleEndian, part) // into memory, and all of fixed size
	}
	b.Write(make([]byte, headers-b.Len()))
	b.WriteByte(0xc3) // ret
	b.Write(make([]byte, headers-1))
	return b.Bytes()
}
