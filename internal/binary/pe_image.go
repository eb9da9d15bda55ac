package binary

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// window reads small pieces of a large file through a few pages of it.
type window struct {
	r     io.ReaderAt
	size  int64
	pages [8]struct {
		at   int64 // of its first byte, plus one: a zero is no page
		data []byte
	}
	next int
}

const pageSize = 1 << 16

// page returns what the file holds from the start of the page of offset off on.
func (w *window) page(off int64) ([]byte, int64, error) {
	start := off / pageSize * pageSize
	for i := range w.pages {
		if w.pages[i].at == start+1 {
			return w.pages[i].data, start, nil
		}
	}
	p := &w.pages[w.next]
	w.next = (w.next + 1) % len(w.pages)
	if p.data == nil {
		p.data = make([]byte, 0, pageSize)
	}
	p.at, p.data = 0, p.data[:min(pageSize, w.size-start)]
	if n, err := w.r.ReadAt(p.data, start); n < len(p.data) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	p.at = start + 1
	return p.data, start, nil
}

// bytes returns n bytes at an offset. They are good until the next call.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off < 0 || n < 0 || off > w.size-int64(n) {
		return nil, fmt.Errorf("offset 0x%x: %w", off, io.ErrUnexpectedEOF)
	}
	if n == 0 {
		return nil, nil
	}
	data, start, err := w.page(off)
	if err != nil {
		return nil, err
	}
	if i := int(off - start); i+n <= len(data) {
		return data[i : i+n], nil
	}
	out := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(w.r, off, int64(n)), out); err != nil {
		return nil, err
	}
	return out, nil
}

func (w *window) u16(off int64) (uint16, error) {
	b, err := w.bytes(off, 2)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint16(b), nil
}

func (w *window) u32(off int64) (uint32, error) {
	b, err := w.bytes(off, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// read fills a value of fixed size.
func (w *window) read(off int64, v any) error { return w.readPart(off, binary.Size(v), v) }

// readPart fills a value from its first n bytes in the file; the rest becomes zero.
func (w *window) readPart(off int64, n int, v any) error {
	b, err := w.bytes(off, n)
	if err != nil {
		return err
	}
	full := make([]byte, binary.Size(v))
	copy(full, b)
	_, err = binary.Decode(full, binary.LittleEndian, v)
	return err
}

// at returns where in the file the byte lies that is loaded at a relative virtual
// address, and how many follow it there, as Windows' loader maps it: a section's data
// begins at a multiple of 512 whatever its header says.
func (img *image) at(rva uint32) (off, rest int64, err error) {
	if img.flat || rva < img.headers {
		if rest = img.size - int64(rva); rest > 0 {
			return int64(rva), rest, nil
		}
	}
	for _, s := range img.sections {
		if rva < s.VirtualAddress {
			continue
		}
		in := int64(rva - s.VirtualAddress)
		size := int64(s.SizeOfRawData)
		if s.VirtualSize != 0 {
			size = min(size, (int64(s.VirtualSize)+minimumPage-1)&^(minimumPage-1))
		}
		if in >= size {
			continue
		}
		off = int64(s.PointerToRawData&^sectorMask) + in
		if rest = min(size-in, img.size-off); rest > 0 {
			return off, rest, nil
		}
	}
	return 0, 0, fmt.Errorf("address 0x%x is in no section of the file", rva)
}

// bytesAt returns n bytes at an address. They are good until the next call.
func (img *image) bytesAt(rva uint32, n int) ([]byte, error) {
	off, rest, err := img.at(rva)
	if err != nil {
		return nil, err
	}
	if int64(n) > rest {
		return nil, fmt.Errorf("address 0x%x: %d bytes do not fit into its section", rva, n)
	}
	return img.bytes(off, n)
}

// name returns the text at an address, which a zero byte ends. It takes it out of
// what may be read of one file, for many entries may name one long text.
func (img *image) name(rva uint32) (string, error) {
	off, rest, err := img.at(rva)
	if err != nil {
		return "", err
	}
	return img.nameIn(off, rest)
}

func (img *image) nameIn(off, rest int64) (string, error) {
	var text []byte
	for rest > 0 && len(text) <= maxNameLength {
		data, start, err := img.page(off)
		if err != nil {
			return "", err
		}
		part := data[off-start:]
		part = part[:min(int64(len(part)), rest)]
		i := bytes.IndexByte(part, 0)
		if i < 0 {
			text = append(text, part...)
			off, rest = off+int64(len(part)), rest-int64(len(part))
			continue
		}
		text = append(text, part[:i]...)
		if img.text -= len(text); img.text < 0 {
			return "", fmt.Errorf("more than %d MiB of names", maxText>>20)
		}
		return checkName(text)
	}
	return "", fmt.Errorf("a name at offset 0x%x has no end", off-int64(len(text)))
}

// checkName returns a name as it can be shown: what is no visible ASCII is escaped, so
// that a forged one neither breaks a line nor hides.
func checkName(text []byte) (string, error) {
	if len(text) == 0 {
		return "", errors.New("an empty name")
	}
	if len(text) > maxNameLength {
		return "", fmt.Errorf("a name of %d bytes", len(text))
	}
	for _, c := range text {
		if c < ' ' || c >= 0x7f {
			quoted := strconv.QuoteToASCII(string(text))
			return quoted[1 : len(quoted)-1], nil
		}
	}
	return string(text), nil
}

// count takes one name out of what may be read of one file.
func (img *image) count() error {
	if img.names--; img.names < 0 {
		return fmt.Errorf("more than %d names", maxNames)
	}
	return nil
}
