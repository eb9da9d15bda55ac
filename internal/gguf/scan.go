package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// What a header may hold. Real ones are far below: the largest vocabularies make
// some 30 MiB, merged experts some 2,000 tensors. The limits keep a hostile file
// from taking more than about 64 MiB of memory or from being read for long.
const (
	maxHeader  = 128 << 20
	maxKeys    = 4096
	maxTensors = 1 << 17
	maxName    = 256  // bytes of a key or of a tensor's name
	keepText   = 4096 // bytes of the longest text kept; longer ones are templates
	keepArray  = 1024 // elements of the longest array kept: twice LLAMA_MAX_LAYERS
)

// Value types of GGUF's metadata, as in the specification (gguf.md in the docs of the
// ggml project).
const (
	kvUint8   = 0
	kvInt8    = 1
	kvUint16  = 2
	kvInt16   = 3
	kvUint32  = 4
	kvInt32   = 5
	kvFloat32 = 6
	kvBool    = 7
	kvString  = 8
	kvArray   = 9
	kvUint64  = 10
	kvInt64   = 11
	kvFloat64 = 12
)

var kvSizes = [...]int64{
	kvUint8: 1, kvInt8: 1, kvUint16: 2, kvInt16: 2, kvUint32: 4, kvInt32: 4, kvFloat32: 4,
	kvBool: 1, kvUint64: 8, kvInt64: 8, kvFloat64: 8,
}

// value is one entry of the metadata. Booleans and unsigned numbers stand in
// ints; a number above 2^63 is kept as a float.
type value struct {
	typ    uint32
	array  bool
	n      uint64 // elements of the array, also where they were not kept
	ints   []int64
	floats []float64
	text   string
}

var errCut = errors.New("the file ends inside its header")

// scanner reads little-endian GGUF from a stream, and never further than end.
type scanner struct {
	r   *bufio.Reader
	at  int64
	end int64
	b   [8]byte
}

// need says that n bytes more are there, as far as is known.
func (s *scanner) need(n uint64) error {
	if left := s.end - s.at; n > uint64(left) {
		if s.end == maxHeader {
			return fmt.Errorf("the header goes on past %d MiB: at byte %d it wants %d more", maxHeader>>20, s.at, n)
		}
		return fmt.Errorf("%w: at byte %d it wants %d more, and %d are left", errCut, s.at, n, left)
	}
	return nil
}

func (s *scanner) read(b []byte) error {
	if err := s.need(uint64(len(b))); err != nil {
		return err
	}
	n, err := io.ReadFull(s.r, b)
	s.at += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w at byte %d", errCut, s.at)
	}
	return err
}

func (s *scanner) skip(n uint64) error {
	if err := s.need(n); err != nil {
		return err
	}
	// At most maxHeader, so that int holds it on any machine.
	done, err := s.r.Discard(int(n))
	s.at += int64(done)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w at byte %d", errCut, s.at)
	}
	return err
}

func (s *scanner) u32() (uint32, error) {
	err := s.read(s.b[:4])
	return binary.LittleEndian.Uint32(s.b[:]), err
}

func (s *scanner) u64() (uint64, error) {
	err := s.read(s.b[:8])
	return binary.LittleEndian.Uint64(s.b[:]), err
}

// name reads a text that must be short.
func (s *scanner) name(what string) (string, error) {
	n, err := s.u64()
	if err != nil {
		return "", err
	}
	if n == 0 || n > maxName {
		return "", fmt.Errorf("%s has a name of %d bytes; it must be from 1 to %d", what, n, maxName)
	}
	b := make([]byte, n)
	err = s.read(b)
	return string(b), err
}

// text reads a text, and skips it where it is too long to keep.
func (s *scanner) text() (string, error) {
	n, err := s.u64()
	if err != nil {
		return "", err
	}
	if n > keepText {
		return "", s.skip(n)
	}
	if err := s.need(n); err != nil {
		return "", err
	}
	b := make([]byte, n)
	err = s.read(b)
	return string(b), err
}

func (s *scanner) value() (value, error) {
	var v value
	var err error
	if v.typ, err = s.u32(); err != nil {
		return v, err
	}
	v.n = 1
	if v.typ == kvArray {
		v.array = true
		if v.typ, err = s.u32(); err != nil {
			return v, err
		}
		if v.n, err = s.u64(); err != nil {
			return v, err
		}
	}
	if v.typ == kvArray || v.typ >= uint32(len(kvSizes)) {
		return v, fmt.Errorf("its value has type %d, which GGUF does not have", v.typ)
	}
	if v.typ == kvString {
		return v, s.texts(&v)
	}
	size := kvSizes[v.typ]
	if v.n > maxHeader {
		return v, fmt.Errorf("its array has %d elements, more than a header can hold", v.n)
	}
	if v.n > keepArray {
		return v, s.skip(v.n * uint64(size))
	}
	for range v.n {
		clear(s.b[:])
		if err := s.read(s.b[:size]); err != nil {
			return v, err
		}
		v.add(binary.LittleEndian.Uint64(s.b[:]))
	}
	return v, nil
}

func (s *scanner) texts(v *value) (err error) {
	if !v.array {
		v.text, err = s.text()
		return err
	}
	for range v.n {
		n, err := s.u64()
		if err != nil {
			return err
		}
		if err := s.skip(n); err != nil {
			return err
		}
	}
	return nil
}

// add appends a number whose bytes are in u.
func (v *value) add(u uint64) {
	switch v.typ {
	case kvInt8:
		v.ints = append(v.ints, int64(int8(u)))
	case kvInt16:
		v.ints = append(v.ints, int64(int16(u)))
	case kvInt32:
		v.ints = append(v.ints, int64(int32(u)))
	case kvInt64:
		v.ints = append(v.ints, int64(u))
	case kvFloat32:
		v.floats = append(v.floats, float64(math.Float32frombits(uint32(u))))
	case kvFloat64:
		v.floats = append(v.floats, math.Float64frombits(u))
	case kvBool:
		v.ints = append(v.ints, int64(min(u, 1)))
	default:
		if u > math.MaxInt64 {
			v.floats = append(v.floats, float64(u))
			return
		}
		v.ints = append(v.ints, int64(u))
	}
}
