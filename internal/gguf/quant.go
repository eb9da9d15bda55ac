package gguf

import (
	"encoding/binary"
	"math"
)

// Q8_0 stores 32 elements as an F16 scale and 32 signed bytes: block_q8_0 of
// llama.cpp's ggml/src/ggml-common.h.
const (
	q8Block = 32
	q8Bytes = 2 + q8Block
)

// Q4_0 stores 32 elements as an F16 scale and 32 times 4 bits: block_q4_0. Byte j
// has element j below and element j+16 above; 8 stands for 0.
const (
	q4Block = 32
	q4Bytes = 2 + q4Block/2
)

// half converts to IEEE 754 binary16, to nearest and ties to even, as
// GGML_FP32_TO_FP16 does. What is too large becomes infinite.
func half(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	exp := int(b>>23&0xff) - 127
	man := b & 0x7fffff
	switch {
	case exp == 128 && man != 0:
		return sign | 0x7e00
	case exp > 15:
		return sign | 0x7c00
	case exp >= -14:
		// A carry out of the mantissa rightly raises the exponent, up to
		// infinity.
		return sign | uint16(uint32(exp+15)<<10+roundShift(man, 13))
	case exp >= -25:
		return sign | uint16(roundShift(man|0x800000, uint(-exp-1)))
	}
	return sign
}

// roundShift returns v / 2^n, to nearest and ties to even.
func roundShift(v uint32, n uint) uint32 {
	return (v + 1<<(n-1) - 1 + v>>n&1) >> n
}

// pow2 returns 2^e for e in the range of normal float32 numbers.
func pow2(e int) float32 { return math.Float32frombits(uint32(e+127) << 23) }

// scaleValue returns scale c as a number, which is exact.
func scaleValue(c int) float32 {
	m, e := scaleAt(c)
	return float32(m) * pow2(e)
}

// filler writes the elements [from, from+n) of a matrix; from and n are multiples
// of q8Block.
type filler func(dst []byte, from, n uint64)

// fill returns the filler of a tensor, with its tables made.
func (t *tensor) fill() filler {
	switch {
	case t.norm():
		return t.fillNorm
	case t.typ == F16:
		return t.fillF16()
	case t.typ == Q8_0:
		return t.fillQ8()
	case t.typ == Q4_0:
		return t.fillQ4()
	}
	return t.fillF32
}

// fillNorm writes a norm: F32 numbers in [1-1/16, 1+1/16), so that a kernel which
// drops the norm's weights is seen.
func (t *tensor) fillNorm(dst []byte, from, n uint64) {
	for i := range n {
		v := int64(word(t.seed, from+i)) >> 52 // 12 bits
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(1+float32(v)/(1<<15)))
	}
}

func (t *tensor) fillF32(dst []byte, from, n uint64) {
	var q [q8Block]byte
	for b := range n / q8Block {
		d := scaleValue(t.scale + block(t.seed, from/q8Block+b, &q))
		out := dst[b*q8Block*4:][:q8Block*4]
		for i, v := range q {
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(float32(int8(v))*d))
		}
	}
}

func (t *tensor) fillF16() filler {
	var table [octave][256]uint16 // of the products, by scale and byte
	for s := range table {
		d := scaleValue(t.scale + s)
		for i := range table[s] {
			table[s][i] = half(float32(int8(i)) * d)
		}
	}
	return func(dst []byte, from, n uint64) {
		var q [q8Block]byte
		for b := range n / q8Block {
			h := &table[block(t.seed, from/q8Block+b, &q)]
			out := dst[b*q8Block*2:][:q8Block*2]
			for i := 0; i < q8Block; i += 4 {
				binary.LittleEndian.PutUint64(out[2*i:],
					uint64(h[q[i]])|uint64(h[q[i+1]])<<16|uint64(h[q[i+2]])<<32|uint64(h[q[i+3]])<<48)
			}
		}
	}
}

// halfScales returns the 8 scales from c on in F16.
func halfScales(c int) (h [octave]uint16) {
	for s := range h {
		h[s] = half(scaleValue(c + s))
	}
	return h
}

func (t *tensor) fillQ8() filler {
	scales := halfScales(t.scale)
	return func(dst []byte, from, n uint64) {
		for b := range n / q8Block {
			out := dst[b*q8Bytes:][:q8Bytes]
			s := block(t.seed, from/q8Block+b, (*[q8Block]byte)(out[2:]))
			binary.LittleEndian.PutUint16(out, scales[s])
		}
	}
}

// fillQ4 keeps of each integer the group of 32 that it lies in, as that group's
// middle: 8 of the 16 levels, whose mean is 0, with a scale 16 times that of Q8_0.
func (t *tensor) fillQ4() filler {
	scales := halfScales(t.scale + 4*octave)
	return func(dst []byte, from, n uint64) {
		const (
			sign = 0x8080808080808080
			low  = 0x0f0f0f0f0f0f0f0f
			odd  = 0x1111111111111111
		)
		var q [q4Block]byte
		for b := range n / q4Block {
			out := dst[b*q4Bytes:][:q4Bytes]
			binary.LittleEndian.PutUint16(out, scales[block(t.seed, from/q4Block+b, &q)])
			for i := 0; i < q4Block/2; i += 8 {
				below := binary.LittleEndian.Uint64(q[i:]) ^ sign
				above := binary.LittleEndian.Uint64(q[i+q4Block/2:]) ^ sign
				binary.LittleEndian.PutUint64(out[2+i:], below>>4&low|above&^low|odd)
			}
		}
	}
}
