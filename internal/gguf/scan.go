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

// value is one entry of the metadata. Booleans and unsigned numbers stand in ints;
// fractions, and numbers above 2^63, are not kept.
type value struct {
	typ   uint32
	array bool
	n     uint64 // elements of the array, also where they were not kept
	ints  []int64
	text  string
}

var errCut = errors.New("the file ends inside its header")

// scanner reads little-endian GGUF from a stream, and never further than end. After the
// first error, which is kept, it reads nothing but zeros.
type scanner struct {
	r   *bufio.Reader
	at  int64
	end int64
	b   [8]byte
	err error
}

// fail keeps the first error.
func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// need says whether n bytes more are there, as far as is known.
func (s *scanner) need(n uint64) bool {
	switch left := s.end - s.at; {
	case n <= uint64(left):
	case s.end == maxHeader:
		s.fail("the header goes on past %d MiB: at byte %d it wants %d more", maxHeader>>20, s.at, n)
	default:
		s.fail("%w: at byte %d it wants %d more, and %d are left", errCut, s.at, n, left)
	}
	return s.err == nil
}

// moved notes that n bytes were read, and why no more.
func (s *scanner) moved(n int, err error) {
	s.at += int64(n)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		s.fail("%w at byte %d", errCut, s.at)
	case err != nil:
		s.fail("%w", err)
	}
}

func (s *scanner) read(b []byte) {
	if s.need(uint64(len(b))) {
		s.moved(io.ReadFull(s.r, b))
	}
}

func (s *scanner) skip(n uint64) {
	if s.need(n) {
		s.moved(s.r.Discard(int(n))) // at most maxHeader, so that int holds it on any machine
	}
}

// number reads a number of so many bytes.
func (s *scanner) number(bytes int64) uint64 {
	clear(s.b[:])
	if s.read(s.b[:bytes]); s.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(s.b[:])
}

func (s *scanner) u32() uint32 { return uint32(s.number(4)) }

func (s *scanner) u64() uint64 { return s.number(8) }

// name reads a text that must be short.
func (s *scanner) name(what string) string {
	n := s.u64()
	if n == 0 || n > maxName {
		s.fail("%s has a name of %d bytes; it must be from 1 to %d", what, n, maxName)
		return ""
	}
	b := make([]byte, n)
	s.read(b)
	return string(b)
}

// text reads a text, and skips it where it is too long to keep.
func (s *scanner) text() string {
	n := s.u64()
	if n > keepText {
		s.skip(n)
		return ""
	}
	b := make([]byte, n)
	s.read(b)
	return string(b)
}

func (s *scanner) value() (v value) {
	v.typ, v.n = s.u32(), 1
	if v.array = v.typ == kvArray; v.array {
		v.typ, v.n = s.u32(), s.u64()
	}
	switch {
	case v.typ == kvArray || v.typ >= uint32(len(kvSizes)):
		s.fail("its value has type %d, which GGUF does not have", v.typ)
	case v.typ == kvString && !v.array:
		v.text = s.text()
	case v.typ == kvString:
		for i := uint64(0); i < v.n && s.err == nil; i++ {
			s.skip(s.u64())
		}
	case v.n > maxHeader:
		s.fail("its array has %d elements, more than a header can hold", v.n)
	case v.n > keepArray:
		s.skip(v.n * uint64(kvSizes[v.typ]))
	default:
		for range v.n {
			v.add(s.number(kvSizes[v.typ]))
		}
	}
	return v
}

// add appends a whole number whose bytes are in u.
func (v *value) add(u uint64) {
	switch v.typ {
	case kvFloat32, kvFloat64:
		return
	case kvInt8:
		u = uint64(int8(u))
	case kvInt16:
		u = uint64(int16(u))
	case kvInt32:
		u = uint64(int32(u))
	case kvBool:
		u = min(u, 1)
	case kvUint64:
		if u > math.MaxInt64 {
			return
		}
	}
	v.ints = append(v.ints, int64(u))
}
