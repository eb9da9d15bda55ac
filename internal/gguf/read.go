package gguf

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/regular"
)

// Tensor is one entry of a file's tensor table.
type Tensor struct {
	Name  string   `json:"name"`
	Type  Type     `json:"type"`
	Dims  []uint64 `json:"dims"`  // elements in each direction, the fastest first
	Elems uint64   `json:"elems"` // all elements
	Bytes uint64   `json:"bytes"` // without padding
	// from the start of the file's tensor data
	Offset uint64 `json:"offset"`
}

// ErrNotGGUF is what ReadHeader wraps for a file that is something else.
var ErrNotGGUF = errors.New("this is no GGUF file")

// ReadFile reads the header of a model file; of a model that was split into
// several files, given its first, it reads all of them. Nothing of the weights is
// read. The file may be foreign, cut short or hostile.
func ReadFile(path string) (Header, error) {
	h, err := readOne(path)
	if err != nil || h.Split.Count < 2 {
		return h, err
	}
	if !strings.HasSuffix(path, h.Split.suffix(0)) || h.Split.No != 0 {
		return h, fmt.Errorf("%s: it is part %d of a model of %d files; name the first, which must be called %s",
			path, h.Split.No+1, h.Split.Count, "…"+h.Split.suffix(0))
	}
	for no := 1; no < h.Split.Count; no++ {
		part, err := readOne(h.Split.part(path, no))
		if err != nil {
			return h, fmt.Errorf("part %d of %d: %w", no+1, h.Split.Count, err)
		}
		h.Tensors = append(h.Tensors, part.Tensors...)
		if len(h.Tensors) > maxTensors {
			return h, fmt.Errorf("%s: the parts have more than %d tensors", path, maxTensors)
		}
		h.FileBytes += part.FileBytes
		h.Missing += min(part.Missing, math.MaxInt64-h.Missing)
	}
	return h, nil
}

// suffix is how the file of a part ends, from 0.
func (s Split) suffix(no int) string { return fmt.Sprintf("-%05d-of-%05d.gguf", no+1, s.Count) }

// part is the file of another part, beside the first.
func (s Split) part(first string, no int) string {
	return strings.TrimSuffix(first, s.suffix(0)) + s.suffix(no)
}

func readOne(path string) (Header, error) {
	f, err := regular.Open(path)
	if err != nil {
		return Header{}, fmt.Errorf("read model: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	st, err := f.Stat()
	if err != nil {
		return Header{}, fmt.Errorf("read model: %w", err)
	}
	h, err := ReadHeader(f, st.Size())
	if err != nil {
		return Header{}, fmt.Errorf("read model %s: %w", filepath.Clean(path), err)
	}
	return h, nil
}

// ReadHeader reads the header at the start of a GGUF file of version 2 or 3 and
// of size bytes in all (-1: unknown). It stops where the tensor data begin. It
// takes at most about 64 MiB of memory, whatever the file says.
func ReadHeader(r io.Reader, size int64) (Header, error) {
	s := &scanner{r: bufio.NewReaderSize(r, 64<<10), end: maxHeader}
	if size >= 0 {
		s.end = min(s.end, size)
	}
	h := Header{FileBytes: size, keys: map[string]value{}}
	tensors, keys := s.start(&h)
	for i := uint64(0); i < keys && s.err == nil; i++ {
		name := s.name(fmt.Sprintf("metadata key %d of %d", i+1, keys))
		if _, twice := h.keys[name]; twice {
			s.fail("metadata %q stands there twice", name)
		}
		if s.err != nil {
			break
		}
		if h.keys[name] = s.value(); s.err != nil {
			s.err = fmt.Errorf("metadata %q: %w", name, s.err)
		}
	}
	seen := map[string]bool{}
	for i := uint64(0); i < tensors && s.err == nil; i++ {
		t := s.tensor(fmt.Sprintf("tensor %d of %d", i+1, tensors))
		if seen[t.Name] {
			s.fail("tensor %q stands there twice", t.Name)
		}
		seen[t.Name] = true
		h.Tensors = append(h.Tensors, t)
	}
	if s.err != nil {
		return Header{}, s.err
	}
	if err := h.place(s.at); err != nil {
		return Header{}, err
	}
	if err := h.facts(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// start reads up to the number of tensors and of metadata entries.
func (s *scanner) start(h *Header) (tensors, keys uint64) {
	if h.FileBytes == 0 {
		s.fail("%w: it is empty", ErrNotGGUF)
	}
	var magic [4]byte
	s.read(magic[:])
	if string(magic[:]) != "GGUF" && (s.err == nil || errors.Is(s.err, errCut)) {
		s.err = fmt.Errorf("%w: it starts with %q", ErrNotGGUF, magic[:])
	}
	h.Version = s.u32()
	switch {
	// llama.cpp's own test for the other byte order.
	case h.Version&0xffff == 0 && h.Version != 0:
		s.fail("it is written for big-endian machines; gguf-py's gguf_convert_endian.py turns it round")
	case h.Version < 2 || h.Version > 3:
		s.fail("it has GGUF version %d; versions 2 and 3 can be read", h.Version)
	}
	tensors, keys = s.u64(), s.u64()
	if tensors > maxTensors || keys > maxKeys {
		s.fail("it claims %d tensors and %d metadata entries; more than %d and %d is taken for damage",
			tensors, keys, maxTensors, maxKeys)
	}
	return tensors, keys
}

func (s *scanner) tensor(what string) Tensor {
	t := Tensor{Name: s.name(what), Elems: 1}
	dims := s.u32()
	if dims > 4 { // GGML_MAX_DIMS
		s.fail("tensor %q has %d dimensions; 4 is the most", t.Name, dims)
		return t
	}
	for range dims {
		d := s.u64()
		if d == 0 || d > math.MaxInt64/t.Elems {
			s.fail("tensor %q has %v by %d elements, which cannot be", t.Name, t.Dims, d)
			return t
		}
		t.Dims = append(t.Dims, d)
		t.Elems *= d
	}
	t.Type, t.Offset = Type(s.u32()), s.u64()
	if t.Type.Known() {
		if per, _ := t.Type.block(); len(t.Dims) > 0 && t.Dims[0]%per != 0 {
			s.fail("tensor %q is %s with rows of %d elements, which is no multiple of %d", t.Name, t.Type, t.Dims[0], per)
		}
	}
	var ok bool
	if t.Bytes, ok = t.Type.Size(t.Elems); !ok || t.Offset > math.MaxInt64/4 || t.Bytes > math.MaxInt64/4 {
		s.fail("tensor %q of %d elements at offset %d is more than a file can hold", t.Name, t.Elems, t.Offset)
	}
	return t
}

// place finds where the tensor data begin, the size of tensors whose type is
// unknown (up to where the next one starts), and what the file lacks.
func (h *Header) place(end int64) error {
	a := int64(alignment)
	if v, ok := h.keys["general.alignment"]; ok {
		if v.typ != kvUint32 || v.array || v.ints[0] == 0 || v.ints[0]&(v.ints[0]-1) != 0 {
			return errors.New("general.alignment must be a power of two, as a 32-bit number")
		}
		a = v.ints[0]
	}
	h.DataOffset = (end + a - 1) &^ (a - 1)
	order := make([]*Tensor, len(h.Tensors))
	for i := range h.Tensors {
		order[i] = &h.Tensors[i]
	}
	slices.SortStableFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	var data uint64
	for i, t := range order {
		if t.Offset < data {
			return fmt.Errorf("tensors %q and %q lie over each other", order[i-1].Name, t.Name)
		}
		if !t.Type.Known() {
			switch {
			case i+1 < len(order):
				t.Bytes = order[i+1].Offset - t.Offset
			case h.FileBytes > h.DataOffset+int64(t.Offset):
				t.Bytes = uint64(h.FileBytes-h.DataOffset) - t.Offset
			}
		}
		data = t.Offset + t.Bytes
	}
	// A file without tensors need not be padded to where they would begin.
	if need := h.DataOffset + int64(data); len(h.Tensors) > 0 && h.FileBytes >= 0 && need > h.FileBytes {
		h.Missing = need - h.FileBytes
	}
	return nil
}
