package binary

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/llpatch/llpatch/internal/regular"
)

// opened is one of the two files that are compared.
type opened struct {
	f    *os.File
	r    io.ReaderAt
	size int64
}

// maxMade bounds a file that says that it has no bytes and has some.
const maxMade = 64 << 20

func openPart(ctx context.Context, name string) (*opened, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if st.Size() == 0 { // or its system makes it only when it is read, as /proc does
		data, err := io.ReadAll(io.LimitReader(f, maxMade+1))
		if err == nil && len(data) > maxMade {
			err = fmt.Errorf("%s has no size and more than %d bytes; compare copies of it", name, maxMade)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &opened{f, bytes.NewReader(data), int64(len(data))}, nil
	}
	return &opened{f, regular.UntilAt(ctx, f), st.Size()}, nil
}

func (o *opened) close()                   { _ = o.f.Close() } // only read from
func (o *opened) whole() *io.SectionReader { return io.NewSectionReader(o.r, 0, o.size) }

// part is a section of a file that is compared, or its headers.
type part struct {
	name string
	data *io.SectionReader
	addr uint64   // where it is loaded
	zero [][2]int // ranges of it that tell only when it was linked: where, and how many bytes
}

// Names of what is no section: what stands before the first one, a file of device
// code alone, and one that has no sections.
const (
	content    = "(content)"
	headers    = "(headers)"
	deviceCode = "(device code)"
)

// parts splits an ELF or a PE file; of another one, and of a broken one, the whole is
// the only part.
func (o *opened) parts() []part {
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := o.r.ReadAt(magic, 0); err == nil {
		var all []part
		switch {
		case string(magic) == elf.ELFMAG:
			all, err = o.elfParts()
		case string(magic[:2]) == "MZ":
			all, err = o.peParts()
		case binary.LittleEndian.Uint32(magic) == fatbinMagic:
			all = []part{{name: deviceCode, data: o.whole()}}
		default:
			err = ErrNotELF
		}
		if err == nil {
			return all
		}
	}
	return []part{{name: content, data: o.whole()}}
}

func (o *opened) cut(from, size uint64) *io.SectionReader {
	return io.NewSectionReader(o.r, int64(min(from, uint64(o.size))), int64(min(size, uint64(o.size))))
}

func (o *opened) elfParts() (all []part, err error) {
	defer func() { // as in Read
		if p := recover(); p != nil {
			all, err = nil, fmt.Errorf("malformed ELF file: %v", p)
		}
	}()
	f, err := elf.NewFile(o.r)
	if err != nil {
		return nil, err
	}
	first := uint64(o.size)
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NULL || s.Type == elf.SHT_NOBITS {
			continue
		}
		first = min(first, s.Offset)
		all = append(all, part{name: s.Name, data: o.cut(s.Offset, s.FileSize), addr: s.Addr})
	}
	all = slices.Insert(all, 0, part{name: headers, data: o.cut(0, first)})
	numberAlike(all)
	return all, nil
}

// numberAlike tells sections of one name apart, of which object files have many, and one
// that is called as the headers are.
func numberAlike(all []part) {
	seen := map[string]int{}
	for i := range all {
		seen[all[i].name]++
		if n := seen[all[i].name]; n > 1 {
			all[i].name = fmt.Sprintf("%s (%d)", all[i].name, n)
		}
	}
}

// Offsets of what says when a PE file was linked (Microsoft's "PE Format": "COFF File
// Header", "Optional Header Windows-Specific Fields", "Debug Directory", "Export
// Directory Table"; and the CodeView record RSDS, whose GUID is new in each link).
func (o *opened) peParts() ([]part, error) {
	img, err := newImage(o.r, o.size)
	if err != nil {
		return nil, err
	}
	var lfanew [4]byte
	if _, err := o.r.ReadAt(lfanew[:], 0x3c); err != nil {
		return nil, err
	}
	coff := int(lfanew[0]) | int(lfanew[1])<<8 | int(lfanew[2])<<16 | int(lfanew[3])<<24
	var all []part
	first := uint64(o.size)
	for _, s := range img.sections {
		if s.SizeOfRawData == 0 {
			continue
		}
		from := uint64(s.PointerToRawData &^ sectorMask)
		first = min(first, from)
		all = append(all, part{
			name: img.sectionName(s), data: o.cut(from, uint64(s.SizeOfRawData)),
			addr: uint64(s.VirtualAddress),
		})
	}
	head := part{name: headers, data: o.cut(0, first), zero: [][2]int{{coff + 8, 4}, {coff + 24 + 64, 4}}}
	mark := func(off int64, n int) {
		for i := range all {
			if from, size := sectionAt(all[i]); off >= from && off+int64(n) <= from+size {
				all[i].zero = append(all[i].zero, [2]int{int(off - from), n})
			}
		}
	}
	if off, _, err := img.at(img.dirs[dirExport].VirtualAddress); err == nil && img.dirs[dirExport].Size > 0 {
		mark(off+4, 4)
	}
	const debugEntry = 28
	dir := img.dirs[dirDebug]
	for i := range min(dir.Size/debugEntry, 16) {
		off, rest, err := img.at(dir.VirtualAddress + i*debugEntry)
		if err != nil || rest < debugEntry {
			break
		}
		mark(off+4, 4)
		var e [debugEntry]byte
		if _, err := o.r.ReadAt(e[:], off); err != nil {
			break
		}
		raw := int64(e[24]) | int64(e[25])<<8 | int64(e[26])<<16 | int64(e[27])<<24
		var sign [4]byte
		if _, err := o.r.ReadAt(sign[:], raw); err == nil && string(sign[:]) == "RSDS" {
			mark(raw+4, 20)
		}
	}
	all = slices.Insert(all, 0, head)
	numberAlike(all)
	return all, nil
}

// sectionAt returns where in the file a part begins, and its length.
func sectionAt(p part) (from, size int64) {
	_, from, size = p.data.Outer()
	return from, size
}

// compareSections compares two files that are known to differ.
func compareSections(ctx context.Context, a, b *opened) ([]SectionDiffers, error) {
	pa, pb := a.parts(), b.parts()
	// Sections tell nothing where one of the two cannot be split.
	if (pa[0].name == content) != (pb[0].name == content) {
		pa, pb = []part{{name: content, data: a.whole()}}, []part{{name: content, data: b.whole()}}
	}
	var out []SectionDiffers
	resized := ""
	for _, p := range pa {
		i := slices.IndexFunc(pb, func(q part) bool { return q.name == p.name })
		if i < 0 {
			out = append(out, SectionDiffers{
				Name: p.name, Sizes: [2]int64{p.data.Size(), -1}, Bytes: p.data.Size(),
				Left: p.data.Size(), Causes: []string{"only in A"},
			})
			continue
		}
		d, err := compareParts(ctx, p, pb[i])
		if err != nil {
			return nil, err
		}
		if d.Sizes[0] != d.Sizes[1] && resized == "" && p.name != headers {
			resized = p.name
		}
		if d.Bytes > 0 {
			out = append(out, d)
		}
	}
	for _, q := range pb {
		if !slices.ContainsFunc(pa, func(p part) bool { return p.name == q.name }) {
			out = append(out, SectionDiffers{
				Name: q.name, Sizes: [2]int64{-1, q.data.Size()}, Bytes: q.data.Size(),
				Left: q.data.Size(), Causes: []string{"only in B"},
			})
		}
	}
	if len(out) == 0 { // padding, or a table of sections
		n, first, err := countDiffering(a.whole(), b.whole())
		return []SectionDiffers{{
			Name: "(outside of the sections)", Sizes: [2]int64{a.size, b.size}, Bytes: n, First: first,
			Left: n, Causes: []string{},
		}}, err
	}
	follow(out, resized)
	return out, nil
}

// follow explains what differs only because something else does.
func follow(all []SectionDiffers, resized string) {
	others := func(name string) bool {
		return slices.ContainsFunc(all, func(d SectionDiffers) bool { return d.Name != name })
	}
	for i := range all {
		d := &all[i]
		switch {
		case d.Name == BuildID && others(d.Name):
			d.Causes, d.Left = []string{"it is a hash of the other sections"}, 0
		case d.Name == headers && resized != "" && d.Left > 0:
			d.Causes = append(d.Causes, "sections have other sizes")
		case d.Left > 0 && resized != "" && d.Name != resized && min(d.Sizes[0], d.Sizes[1]) >= 0:
			d.Causes = append(d.Causes, fmt.Sprintf("may follow from the other size of %s: addresses move", resized))
		}
	}
}
