package binary

import (
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

var little = binary.LittleEndian

// imports reads "The .idata Section". The table ends at an empty entry, whatever the
// size in its directory is; Windows' loader does the same.
func (img *image) imports(p *PE) error {
	dir := img.dirs[dirImport]
	if dir.VirtualAddress == 0 {
		return nil
	}
	for i := range uint32(maxDLLs) {
		b, err := img.bytesAt(dir.VirtualAddress+i*20, 20)
		if err != nil {
			return err
		}
		lookup, bound, name, thunks := little.Uint32(b), little.Uint32(b[4:]), little.Uint32(b[12:]), little.Uint32(b[16:])
		if name == 0 || thunks == 0 {
			return nil
		}
		d := ImportedDLL{}
		if d.DLL, err = img.name(name); err != nil {
			return fmt.Errorf("name of DLL %d: %w", i+1, err)
		}
		switch {
		case lookup != 0:
		case bound != 0:
			return fmt.Errorf("%s: it is bound to addresses, and the names of its functions are not there", d.DLL)
		default: // as old linkers write it
			lookup = thunks
		}
		if d.Functions, err = img.lookup(lookup, 0); err != nil {
			return fmt.Errorf("%s: %w", d.DLL, err)
		}
		p.Imports = append(p.Imports, d)
	}
	return fmt.Errorf("more than %d DLLs", maxDLLs)
}

// delayed reads "Delay-Load Import Tables".
func (img *image) delayed(p *PE) error {
	dir := img.dirs[dirDelay]
	if dir.VirtualAddress == 0 {
		return nil
	}
	for i := range uint32(maxDLLs) {
		b, err := img.bytesAt(dir.VirtualAddress+i*32, 32)
		if err != nil {
			return err
		}
		attributes, name, lookup := little.Uint32(b), little.Uint32(b[4:]), little.Uint32(b[16:])
		if name == 0 {
			return nil
		}
		// Visual C++ 6 wrote addresses, not relative ones, into 32-bit files.
		base := uint32(0)
		if attributes&1 == 0 {
			base = uint32(img.base)
		}
		d := ImportedDLL{Delayed: true}
		if d.DLL, err = img.name(name - base); err != nil {
			return fmt.Errorf("name of DLL %d: %w", i+1, err)
		}
		if d.Functions, err = img.lookup(lookup-base, base); err != nil {
			return fmt.Errorf("%s: %w", d.DLL, err)
		}
		p.Imports = append(p.Imports, d)
	}
	return fmt.Errorf("more than %d DLLs", maxDLLs)
}

// lookup reads an "Import Lookup Table": names, and #N for ordinals.
func (img *image) lookup(rva, base uint32) ([]string, error) {
	functions := []string{}
	size := uint32(img.bits / 8)
	for ; ; rva += size {
		b, err := img.bytesAt(rva, int(size))
		if err != nil {
			return nil, err
		}
		v, ordinal := uint64(little.Uint32(b)), uint64(1)<<31
		if size == 8 {
			v, ordinal = little.Uint64(b), 1<<63
		}
		if v == 0 {
			return functions, nil
		}
		if err := img.count(); err != nil {
			return nil, err
		}
		if v&ordinal != 0 {
			functions = append(functions, fmt.Sprintf("#%d", uint16(v)))
			continue
		}
		name, err := img.name(uint32(v) - base + 2) // behind the hint
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", len(functions)+1, err)
		}
		functions = append(functions, name)
	}
}

// bound reads the bound import directory, of which the specification has only the
// place: winnt.h's IMAGE_BOUND_IMPORT_DESCRIPTOR and IMAGE_BOUND_FORWARDER_REF.
func (img *image) bound(p *PE) error {
	dir := img.dirs[dirBound]
	if dir.VirtualAddress == 0 {
		return nil
	}
	// It lies between the headers and the first section, so that its address is an offset.
	start, end := int64(dir.VirtualAddress), int64(dir.VirtualAddress)+int64(dir.Size)
	for off := start; off+8 <= end; off += 8 {
		b, err := img.bytes(off, 8)
		if err != nil {
			return err
		}
		stamp, name, refs := little.Uint32(b), little.Uint16(b[4:]), little.Uint16(b[6:])
		if stamp == 0 && name == 0 {
			return nil
		}
		at := start + int64(name)
		if at >= min(end, img.size) {
			return fmt.Errorf("a name at offset 0x%x lies outside of the table", at)
		}
		text, err := img.nameIn(at, min(end, img.size)-at)
		if err != nil {
			return err
		}
		if err := img.count(); err != nil {
			return err
		}
		p.Bound = append(p.Bound, text)
		off += 8 * int64(refs)
	}
	return nil
}

// exported reads "The .edata Section".
func (img *image) exported(p *PE, out *File) error {
	p.exports = map[string]string{}
	dir := img.dirs[dirExport]
	if dir.VirtualAddress == 0 {
		return nil
	}
	b, err := img.bytesAt(dir.VirtualAddress, 40)
	if err != nil {
		return err
	}
	base, functions, names := little.Uint32(b[16:]), little.Uint32(b[20:]), little.Uint32(b[24:])
	addresses, pointers, ordinals := little.Uint32(b[28:]), little.Uint32(b[32:]), little.Uint32(b[36:])
	if n := little.Uint32(b[12:]); n != 0 {
		if out.SOName, err = img.name(n); err != nil {
			return fmt.Errorf("name of the DLL: %w", err)
		}
	}
	if functions > 1<<16 || names > maxNames {
		return fmt.Errorf("%d functions and %d names; there are %d ordinals", functions, names, 1<<16)
	}
	to := make([]string, functions)
	for i := range functions {
		if to[i], err = img.export(dir, addresses+4*i); err != nil {
			return fmt.Errorf("ordinal %d: %w", base+i, err)
		}
		if to[i] != empty {
			p.exports[fmt.Sprintf("#%d", base+i)] = to[i]
		}
	}
	named := map[uint32]bool{}
	for i := range names {
		if err := img.count(); err != nil {
			return err
		}
		at, err := img.bytesAt(pointers+4*i, 4)
		if err != nil {
			return err
		}
		name, err := img.name(little.Uint32(at))
		if err != nil {
			return fmt.Errorf("name %d: %w", i+1, err)
		}
		if at, err = img.bytesAt(ordinals+2*i, 2); err != nil {
			return err
		}
		n := uint32(little.Uint16(at))
		if n >= functions {
			return fmt.Errorf("%s has ordinal %d of %d", name, n+base, functions)
		}
		if to[n] == empty {
			continue
		}
		p.exports[name], named[n] = to[n], true
		out.exports = append(out.exports, Symbol{Name: name})
		if to[n] != "" {
			p.Forwards = append(p.Forwards, Forward{Name: name, To: to[n]})
		}
	}
	slices.SortFunc(out.exports, Symbol.compare)
	for n, f := range to {
		if f == empty {
			continue
		}
		out.ExportCount++
		if f != "" && !named[uint32(n)] {
			p.Forwards = append(p.Forwards, Forward{Name: fmt.Sprintf("#%d", base+uint32(n)), To: f})
		}
	}
	return nil
}

// empty stands for an ordinal that has no function.
const empty = "\x00"

// export reads one export address: empty where there is none, where it is forwarded
// to if its address is that of a text in the export directory, and else "".
func (img *image) export(dir pe.DataDirectory, rva uint32) (string, error) {
	if err := img.count(); err != nil {
		return "", err
	}
	b, err := img.bytesAt(rva, 4)
	if err != nil {
		return "", err
	}
	at := little.Uint32(b)
	switch {
	case at == 0:
		return empty, nil
	case at < dir.VirtualAddress || at-dir.VirtualAddress >= dir.Size:
		return "", nil
	}
	name, err := img.name(at)
	if err != nil {
		return "", err
	}
	if dot := slices.Index([]byte(name), '.'); dot < 1 {
		return "", errors.New(name + " names no DLL to forward to")
	}
	return name, nil
}
