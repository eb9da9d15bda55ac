package binary

import (
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MachO is what a program or library for Apple's systems says of itself: the format is that of
// <mach-o/loader.h> and <mach-o/fat.h>.
type MachO struct {
	Kind   string   `json:"kind"`             // program, library, bundle or object file
	System string   `json:"system"`           // macOS, iOS and so on
	Since  string   `json:"since,omitempty"`  // the oldest version of the system that takes it
	Archs  []string `json:"archs"`            // x86_64, arm64; of a fat file all
	Signed bool     `json:"signed,omitempty"` // it has a signature, which is not looked at
}

// maxSlices is more than any fat file has, and less than the version in a Java class file, which begins alike.
const maxSlices = 32

// machOMagic reports whether a file begins as a Mach-O file does, and whether that is a fat one.
func machOMagic(magic []byte) (is, fat bool) {
	be, le := binary.BigEndian.Uint32(magic), binary.LittleEndian.Uint32(magic)
	fat = be == macho.MagicFat
	return fat || slices.Contains([]uint32{be, le}, macho.Magic32) || slices.Contains([]uint32{be, le}, macho.Magic64), fat
}

// readMachO reads a Mach-O file; of a fat one what it needs and exports is the first arch's.
func readMachO(r io.ReaderAt, fat bool) (out *File, err error) {
	// debug/macho documents that it is not hardened against hostile files.
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("malformed Mach-O file: %v", p)
		}
	}()
	if !fat {
		f, err := macho.NewFile(r)
		if err != nil {
			return nil, err
		}
		return oneMachO(f, []string{machOArch(f.Cpu)})
	}
	var count [4]byte
	if _, err := r.ReadAt(count[:], 4); err != nil || binary.BigEndian.Uint32(count[:]) > maxSlices {
		return nil, ErrNotELF
	}
	f, err := macho.NewFatFile(r)
	if err != nil {
		return nil, err
	}
	if len(f.Arches) == 0 {
		return nil, errors.New("a fat Mach-O file for no processor")
	}
	var archs []string
	for _, a := range f.Arches {
		archs = append(archs, machOArch(a.Cpu))
	}
	return oneMachO(f.Arches[0].File, archs)
}

func machOArch(c macho.Cpu) string {
	switch c {
	case macho.CpuAmd64:
		return "x86_64"
	case macho.Cpu386:
		return "i386"
	}
	return strings.ToLower(strings.TrimPrefix(c.String(), "Cpu"))
}

func oneMachO(f *macho.File, archs []string) (*File, error) {
	m := &MachO{Kind: "library", System: "an Apple system", Archs: archs}
	switch f.Type {
	case macho.TypeExec:
		m.Kind = "program"
	case macho.TypeBundle:
		m.Kind = "bundle"
	case macho.TypeObj:
		m.Kind = "object file"
	}
	for _, l := range f.Loads {
		m.command(f.ByteOrder, l.Raw())
	}
	out := &File{Machine: "Mach-O " + strings.Join(archs, " and "), MachO: m, Versions: map[string]string{}}
	var err error
	if out.Needed, err = f.ImportedLibraries(); err != nil {
		return nil, err
	}
	if f.Symtab != nil {
		for _, s := range f.Symtab.Syms {
			const external, kind, stab = 0x01, 0x0e, 0xe0 // N_EXT, N_TYPE, N_STAB
			if s.Type&external != 0 && s.Type&kind != 0 && s.Type&stab == 0 {
				out.exports = append(out.exports, Symbol{Name: s.Name})
			}
		}
	}
	slices.SortFunc(out.exports, Symbol.compare)
	out.ExportCount = len(out.exports)
	return out, nil
}

// Load commands that say for what a file is.
const (
	lcSignature  = 0x1d
	lcMacOS      = 0x24 // LC_VERSION_MIN_MACOSX
	lcIOS        = 0x25
	lcBuild      = 0x32 // LC_BUILD_VERSION
	minVersionAt = 8
	minBuildAt   = 12
)

// platforms are those of LC_BUILD_VERSION.
var platforms = map[uint32]string{
	1: "macOS", 2: "iOS", 3: "tvOS", 4: "watchOS", 6: "Mac Catalyst", 7: "iOS's simulator", 11: "visionOS",
}

func (m *MachO) command(order binary.ByteOrder, raw []byte) {
	if len(raw) < 16 {
		return
	}
	version := func(at int) string {
		v := order.Uint32(raw[at:])
		return fmt.Sprintf("%d.%d", v>>16, v>>8&0xff)
	}
	switch order.Uint32(raw) {
	case lcSignature:
		m.Signed = true
	case lcMacOS:
		m.System, m.Since = "macOS", version(minVersionAt)
	case lcIOS:
		m.System, m.Since = "iOS", version(minVersionAt)
	case lcBuild:
		m.System = fmt.Sprintf("Apple's platform %d", order.Uint32(raw[8:]))
		if name, ok := platforms[order.Uint32(raw[8:])]; ok {
			m.System = name
		}
		m.Since = version(minBuildAt)
	}
}
