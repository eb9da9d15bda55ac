package binary

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// NVIDIA does not describe its fatbin format. What stands here was measured on
// what nvcc 11.8 and 13.5 write and compared with what cuobjdump says of it: a
// header of 16 bytes (magic, version, size of the header, size of what follows),
// then entries without a gap, each a header of 64 bytes or more and its content.
const (
	fatbinMagic     = 0xBA55ED50
	containerHeader = 16
	entryHeader     = 64
	// maxEntryHeader bounds what a header may claim; nvcc 13.5 writes up to 312
	// bytes, and more with the archs that --concat packs together.
	maxEntryHeader = 1 << 16
)

// Kinds of entries. Others are shown by their number.
const (
	kindPTX    = 1
	kindELF    = 2
	kindNVVM   = 8   // intermediate code for link-time optimisation
	kindConcat = 256 // several entries compressed as one, by nvcc --concat
)

// Flags of an entry.
const (
	flagLZ4  = 1 << 13
	flagZstd = 1 << 15
	flagA    = 1 << 20 // the arch's suffix a
	flagF    = 1 << 21 // the arch's suffix f
)

// entry is one piece of device code in a fatbin.
type entry struct {
	kind         uint16
	major, minor uint16 // of PTX: the ISA version
	arch         Arch
	flags        uint64
	stored       int64             // bytes in the file, without the header
	packed       int64             // of them compressed content; the rest is padding
	unpacked     int64             // bytes after decompression; 0 where it is not compressed
	data         *io.SectionReader // content as stored; nil where whole is set
	whole        *entry            // the concat entry that holds this one
	from, size   int64             // where, in its decompressed content
}

func (e *entry) compression() string {
	switch {
	case e.flags&flagZstd != 0:
		return "zstd"
	case e.flags&flagLZ4 != 0:
		return "lz4"
	}
	return ""
}

// readFatbins calls yield for every entry of every container that r holds, with
// the number of its container. Zeros between containers are alignment. It stops
// with an error at the first place that is no fatbin, and with yield's; offsets in
// errors count from r's start.
func readFatbins(r *io.SectionReader, yield func(container int, e *entry) error) (containers int, err error) {
	for at := int64(0); ; {
		if at, err = skipZeros(r, at); err != nil || at >= r.Size() {
			return containers, err
		}
		var h [containerHeader]byte
		if _, err := r.ReadAt(h[:], at); err != nil {
			return containers, fmt.Errorf("fatbin at %#x is cut off in its header", at)
		}
		if magic := binary.LittleEndian.Uint32(h[:]); magic != fatbinMagic {
			return containers, fmt.Errorf("what stands at %#x is no fatbin (%#x)", at, magic)
		}
		from := at + int64(binary.LittleEndian.Uint16(h[6:]))
		size := binary.LittleEndian.Uint64(h[8:])
		if from < at+containerHeader || from > r.Size() || size > uint64(r.Size()-from) {
			return containers, fmt.Errorf("fatbin at %#x says it is %d bytes long, more than there are", at, size)
		}
		containers++
		at = from + int64(size)
		if err := readEntries(io.NewSectionReader(r, from, int64(size)), func(e *entry) error {
			return yield(containers-1, e)
		}); err != nil {
			return containers, fmt.Errorf("fatbin that ends at %#x: %w", at, err)
		}
	}
}

func readEntries(r *io.SectionReader, yield func(*entry) error) error {
	for at := int64(0); at < r.Size(); {
		head := make([]byte, entryHeader)
		if _, err := r.ReadAt(head, at); err != nil {
			return fmt.Errorf("entry at %#x is cut off in its header", at)
		}
		n := int64(binary.LittleEndian.Uint32(head[4:]))
		size := binary.LittleEndian.Uint64(head[8:])
		if n < entryHeader || n > maxEntryHeader || n > r.Size()-at || size > uint64(r.Size()-at-n) {
			return fmt.Errorf("entry at %#x says it is %d and %d bytes long, which does not fit", at, n, size)
		}
		e := parseEntry(head)
		e.data = io.NewSectionReader(r, at+n, int64(size))
		e.stored = int64(size)
		if e.packed < 0 || e.packed > e.stored || e.unpacked < 0 {
			return fmt.Errorf("entry at %#x holds more compressed bytes than it is long", at)
		}
		if e.kind == kindConcat {
			ext := make([]byte, n-entryHeader)
			if _, err := r.ReadAt(ext, at+entryHeader); err != nil {
				return fmt.Errorf("entry at %#x is cut off in its header", at)
			}
			if err := readConcat(e, ext, yield); err != nil {
				return fmt.Errorf("entry at %#x: %w", at, err)
			}
		} else if err := yield(e); err != nil {
			return err
		}
		at += n + int64(size)
	}
	return nil
}

// parseEntry reads the fixed part of an entry's header, 64 bytes.
func parseEntry(h []byte) *entry {
	le := binary.LittleEndian
	e := &entry{
		kind: le.Uint16(h), minor: le.Uint16(h[24:]), major: le.Uint16(h[26:]), arch: archOf(le.Uint32(h[28:])),
		flags: le.Uint64(h[40:]), packed: int64(le.Uint32(h[16:])), unpacked: int64(le.Uint64(h[56:])),
	}
	switch {
	case e.flags&flagA != 0:
		e.arch.Suffix = "a"
	case e.flags&flagF != 0:
		e.arch.Suffix = "f"
	}
	return e
}

// readConcat reads the headers of the entries that one compressed entry holds:
// their number, the length of all, then each header as it would stand alone, but
// with its offset in the decompressed content where its length would be.
func readConcat(whole *entry, ext []byte, yield func(*entry) error) error {
	le := binary.LittleEndian
	if len(ext) < 8 {
		return errors.New("it holds several entries but not their number")
	}
	count, rest := le.Uint32(ext), ext[8:]
	for i := range count {
		if len(rest) < entryHeader {
			return fmt.Errorf("it holds %d of the %d entries that it says it has", i, count)
		}
		e, n := parseEntry(rest), uint64(entryHeader)
		if le.Uint32(rest[20:]) != 0 { // an extension: where it begins, its length, its content, 8 bytes
			if len(rest) < entryHeader+8 {
				return fmt.Errorf("header %d of %d is cut off", i+1, count)
			}
			n = entryHeader + 8 + uint64(le.Uint32(rest[entryHeader+4:])) + 8
		}
		if n > uint64(len(rest)) {
			return fmt.Errorf("header %d of %d is cut off", i+1, count)
		}
		e.whole, e.from, e.size = whole, int64(le.Uint32(rest[4:])), int64(le.Uint64(rest[8:]))
		e.flags = e.flags&^(flagLZ4|flagZstd) | whole.flags&(flagLZ4|flagZstd)
		// What one of them takes of the compressed bytes cannot be told: an even
		// share keeps the sum right.
		e.stored = whole.stored / int64(count)
		if err := yield(e); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// skipZeros returns the first multiple of 8 from at on where something stands.
func skipZeros(r *io.SectionReader, at int64) (int64, error) {
	buf := make([]byte, 512)
	for at < r.Size() {
		n, err := r.ReadAt(buf, at)
		if n == 0 {
			return at, fmt.Errorf("read at %#x: %w", at, err)
		}
		if rest := bytes.TrimLeft(buf[:n], "\x00"); len(rest) > 0 {
			return at + int64(n-len(rest))&^7, nil
		}
		at += int64(n)
		if n == len(buf) && len(buf) < 1<<20 {
			buf = make([]byte, 1<<20)
		}
	}
	return at, nil
}
