package binary

import (
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// PE is what a Windows program or library says of itself. The format is that of
// Microsoft's "PE Format" specification; section names in comments are its.
type PE struct {
	Kind      string `json:"kind"`      // program or library
	Bits      int    `json:"bits"`      // 32 (PE32) or 64 (PE32+)
	Subsystem string `json:"subsystem"` // console, gui, native or a number
	// the Windows that it asks for, such as 6.1; the loader refuses a program that asks for a later
	// one
	SubsystemVersion string        `json:"subsystem_version"`
	OSVersion        string        `json:"os_version"` // of which no loader takes notice
	Characteristics  []string      `json:"characteristics,omitempty"`
	Imports          []ImportedDLL `json:"imports,omitempty"` // in order, delay-loaded ones behind the others
	// DLLs to whose addresses the imports were bound when it was made
	Bound    []string  `json:"bound,omitempty"`
	Forwards []Forward `json:"forwards,omitempty"`
	Managed  bool      `json:"managed,omitempty"` // holds .NET code, whose needs are not in the import table
	Signed   bool      `json:"signed,omitempty"`  // has a signature; ReadSignature says whose

	exports  map[string]string // what others can use, by symbol, and where it is forwarded to
	imported int               // functions in Imports
}

// ImportedDLL is a DLL that a file needs, and what of it.
type ImportedDLL struct {
	DLL       string   `json:"dll"`               // as written in the file
	Delayed   bool     `json:"delayed,omitempty"` // loaded when one of its functions is called first
	Functions []string `json:"functions"`         // names, and #N for an ordinal
}

// Forward is an export whose code is in another DLL.
type Forward struct {
	Name string `json:"name"` // #N for one without a name
	To   string `json:"to"`   // DLL.Name or DLL.#N
}

// Imported returns how many functions the file imports.
func (p *PE) Imported() int { return p.imported }

// Indexes into the optional header's data directories, which debug/pe names too.
const (
	dirExport = pe.IMAGE_DIRECTORY_ENTRY_EXPORT
	dirImport = pe.IMAGE_DIRECTORY_ENTRY_IMPORT
	dirBound  = pe.IMAGE_DIRECTORY_ENTRY_BOUND_IMPORT
	dirDelay  = pe.IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT
	dirCLR    = pe.IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR
	dirDebug  = pe.IMAGE_DIRECTORY_ENTRY_DEBUG
)

// readPE reads a PE file of size bytes. debug/pe is not used for the file itself: it
// reads the whole symbol table, is documented not to be hardened against hostile
// files, and knows neither ordinals, delay-loaded and bound imports nor exports.
func readPE(r io.ReaderAt, size int64) (*File, error) {
	img, err := newImage(r, size)
	if err != nil {
		return nil, err
	}
	p := &PE{
		Kind: "program", Bits: img.bits, Characteristics: characteristics(img.dll),
		Managed: img.dirs[dirCLR].Size > 0, Signed: img.dirs[dirSecurity].Size > 0,
	}
	if img.header.Characteristics&pe.IMAGE_FILE_DLL != 0 {
		p.Kind = "library"
	}
	p.Subsystem = subsystem(img.subsystem)
	p.SubsystemVersion = fmt.Sprintf("%d.%d", img.subsystemVersion[0], img.subsystemVersion[1])
	p.OSVersion = fmt.Sprintf("%d.%d", img.osVersion[0], img.osVersion[1])
	out := &File{Machine: machine(img.header.Machine), PE: p}
	if err := img.imports(p); err != nil {
		return nil, fmt.Errorf("imports: %w", err)
	}
	if err := img.delayed(p); err != nil {
		return nil, fmt.Errorf("delay-loaded imports: %w", err)
	}
	if err := img.bound(p); err != nil {
		return nil, fmt.Errorf("bound imports: %w", err)
	}
	if err := img.exported(p, out); err != nil {
		return nil, fmt.Errorf("exports: %w", err)
	}
	for _, d := range p.Imports {
		out.Needed = append(out.Needed, d.DLL)
		p.imported += len(d.Functions)
	}
	out.CUDA = img.cuda(out)
	return out, nil
}

// machines are the processors of "Machine Types" that Windows programs are built for.
var machines = map[uint16]string{
	pe.IMAGE_FILE_MACHINE_AMD64: "IMAGE_FILE_MACHINE_AMD64", pe.IMAGE_FILE_MACHINE_I386: "IMAGE_FILE_MACHINE_I386",
	pe.IMAGE_FILE_MACHINE_ARM64: "IMAGE_FILE_MACHINE_ARM64", pe.IMAGE_FILE_MACHINE_ARMNT: "IMAGE_FILE_MACHINE_ARMNT",
	pe.IMAGE_FILE_MACHINE_IA64: "IMAGE_FILE_MACHINE_IA64",
}

func machine(m uint16) string {
	if name, ok := machines[m]; ok {
		return name
	}
	return fmt.Sprintf("machine 0x%04x", m)
}

func subsystem(n uint16) string {
	switch n {
	case pe.IMAGE_SUBSYSTEM_WINDOWS_GUI:
		return "gui"
	case pe.IMAGE_SUBSYSTEM_WINDOWS_CUI:
		return "console"
	case pe.IMAGE_SUBSYSTEM_NATIVE:
		return "native"
	}
	return fmt.Sprint(n)
}

// characteristics names the bits of "DLL Characteristics" that decide how a file is
// loaded.
func characteristics(bits uint16) []string {
	var names []string
	for _, c := range []struct {
		bit  uint16
		name string
	}{
		{pe.IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA, "HIGH_ENTROPY_VA"},
		{pe.IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE, "DYNAMIC_BASE"},
		{pe.IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY, "FORCE_INTEGRITY"},
		{pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT, "NX_COMPAT"},
		{pe.IMAGE_DLLCHARACTERISTICS_NO_ISOLATION, "NO_ISOLATION"},
		{pe.IMAGE_DLLCHARACTERISTICS_NO_SEH, "NO_SEH"},
		{pe.IMAGE_DLLCHARACTERISTICS_NO_BIND, "NO_BIND"},
		{pe.IMAGE_DLLCHARACTERISTICS_APPCONTAINER, "APPCONTAINER"},
		{pe.IMAGE_DLLCHARACTERISTICS_WDM_DRIVER, "WDM_DRIVER"},
		{pe.IMAGE_DLLCHARACTERISTICS_GUARD_CF, "GUARD_CF"},
		{pe.IMAGE_DLLCHARACTERISTICS_TERMINAL_SERVER_AWARE, "TERMINAL_SERVER_AWARE"},
	} {
		if bits&c.bit != 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// image is a PE file whose headers have been read.
type image struct {
	window
	header           pe.FileHeader
	bits             int
	base             uint64
	subsystem        uint16
	subsystemVersion [2]uint16
	osVersion        [2]uint16
	dll              uint16
	headers          uint32 // bytes from the file's start that are loaded as they are
	flat             bool   // loaded as it lies in the file
	optionalAt       int64  // offset of the optional header
	dirsAt           int64  // offset of the data directories
	dirs             [16]pe.DataDirectory
	sections         []pe.SectionHeader32
	names            int // imports and exports that may still be read
	text             int // bytes of their names
}

// Bounds against hostile files. The largest DLL known, a ggml-cuda.dll that exports
// all its symbols, has some 40,000 names of 100 bytes; ordinals have 16 bits.
const (
	maxNames       = 1 << 18
	maxText        = 64 << 20
	maxNameLength  = 1 << 15
	maxDLLs        = 1 << 12
	maxSections    = 512 // each address is looked for in all of them
	maxOptional    = 1 << 12
	sectorMask     = 0x1ff
	minimumPage    = 0x1000
	optionalPE32   = 0x10b
	optionalPE32P  = 0x20b
	offsetOfHeader = 0x3c
)

// errNotPE says that a file which begins as one for MS-DOS is none for Windows.
var errNotPE = fmt.Errorf("%w: it is a program for MS-DOS", ErrNotELF)

func newImage(r io.ReaderAt, size int64) (*image, error) {
	img := &image{window: window{r: r, size: size}, names: maxNames, text: maxText}
	at, err := img.u32(offsetOfHeader)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errNotPE
	}
	if err != nil {
		return nil, err
	}
	off := int64(at)
	sig, err := img.bytes(off, 4)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errNotPE
	case err != nil:
		return nil, err
	case string(sig) != "PE\x00\x00":
		return nil, errNotPE
	}
	if err := img.read(off+4, &img.header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	off += 4 + int64(binary.Size(img.header))
	n := int64(img.header.SizeOfOptionalHeader)
	if n > maxOptional {
		return nil, fmt.Errorf("an optional header of %d bytes", n)
	}
	if err := img.optional(off, n); err != nil {
		return nil, fmt.Errorf("optional header: %w", err)
	}
	if img.header.NumberOfSections > maxSections {
		return nil, fmt.Errorf("%d sections; llpatch reads %d at most", img.header.NumberOfSections, maxSections)
	}
	img.sections = make([]pe.SectionHeader32, img.header.NumberOfSections)
	if err := img.read(off+n, &img.sections); err != nil {
		return nil, fmt.Errorf("section headers: %w", err)
	}
	return img, nil
}

// optional reads the optional header of n bytes, of which the file may have fewer
// data directories than the format has.
func (img *image) optional(off, n int64) error {
	magic, err := img.u16(off)
	if err != nil {
		return err
	}
	var align, count uint32
	var fixed int
	switch magic {
	case optionalPE32:
		var h pe.OptionalHeader32
		fixed = binary.Size(h) - binary.Size(h.DataDirectory)
		if err := img.readPart(off, fixed, &h); err != nil {
			return err
		}
		img.bits, img.base, img.subsystem, img.dll, img.headers = 32, uint64(h.ImageBase), h.Subsystem, h.DllCharacteristics,
			h.SizeOfHeaders
		img.subsystemVersion, img.osVersion = [2]uint16{h.MajorSubsystemVersion, h.MinorSubsystemVersion},
			[2]uint16{h.MajorOperatingSystemVersion, h.MinorOperatingSystemVersion}
		align, count = h.SectionAlignment, h.NumberOfRvaAndSizes
	case optionalPE32P:
		var h pe.OptionalHeader64
		fixed = binary.Size(h) - binary.Size(h.DataDirectory)
		if err := img.readPart(off, fixed, &h); err != nil {
			return err
		}
		img.bits, img.base, img.subsystem, img.dll, img.headers = 64, h.ImageBase, h.Subsystem, h.DllCharacteristics,
			h.SizeOfHeaders
		img.subsystemVersion, img.osVersion = [2]uint16{h.MajorSubsystemVersion, h.MinorSubsystemVersion},
			[2]uint16{h.MajorOperatingSystemVersion, h.MinorOperatingSystemVersion}
		align, count = h.SectionAlignment, h.NumberOfRvaAndSizes
	default:
		return fmt.Errorf("neither PE32 nor PE32+: 0x%x", magic)
	}
	img.flat = align < minimumPage
	img.optionalAt, img.dirsAt = off, off+int64(fixed)
	room := max(n-int64(fixed), 0) / 8
	dirs := make([]pe.DataDirectory, min(int64(count), int64(len(img.dirs)), room))
	if err := img.read(off+int64(fixed), &dirs); err != nil {
		return err
	}
	copy(img.dirs[:], dirs)
	return nil
}
