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

// Q4_0 stores 32 elements as an F16 scale and 32 times 4 bits: block_q4_0.
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

// fillNorm writes elements [from, from+n) of a norm: F32 numbers in
// [1-1/16, 1+1/16), so that a kernel which drops the norm's weights is seen.
func fillNorm(dst []byte, seed, from, n uint64) {
	for i := range n {
		e := from + i
		v := weightAt(word(seed, e/lanes), int(e%lanes))
		f := 1 + float32(v)/(1<<(weightBits-1+4))
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

// halves holds, for a tensor's shift, the F16 of every weight.
type halves [1 << weightBits]uint16

func newHalves(shift int) *halves {
	h := new(halves)
	scale := pow2(-(weightBits - 1 + shift))
	for i := range h {
		v := int32(i<<(32-weightBits)) >> (32 - weightBits)
		h[i] = half(float32(v) * scale)
	}
	return h
}

// fillF16 writes elements [from, from+n); from and n are multiples of lanes.
func fillF16(dst []byte, h *halves, seed, from, n uint64) {
	for i := uint64(0); i < n; i += lanes {
		w := word(seed, (from+i)/lanes)
		const s = 16 - weightBits
		binary.LittleEndian.PutUint64(dst[2*i:],
			uint64(h[uint16(w)>>s])|
				uint64(h[uint16(w>>16)>>s])<<16|
				uint64(h[uint16(w>>32)>>s])<<32|
				uint64(h[uint16(w>>48)>>s])<<48)
	}
}

// fillQ8 writes elements [from, from+n), quantised as ggml's
// quantize_row_q8_0_ref does it; from and n are multiples of q8Block. The
// quantised values do not depend on the power of two in front, so the integers
// are quantised and only the scale is multiplied.
func fillQ8(dst []byte, shift int, seed, from, n uint64) {
	scale := pow2(-(weightBits - 1 + shift))
	var v [q8Block]int32
	for b := uint64(0); b < n/q8Block; b++ {
		var top int32
		for i := 0; i < q8Block; i += lanes {
			w := word(seed, (from+b*q8Block+uint64(i))/lanes)
			for j := range lanes {
				x := weightAt(w, j)
				v[i+j] = x
				top = max(top, x, -x)
			}
		}
		out := dst[b*q8Bytes:][:q8Bytes]
		d := float32(top) / 127
		var inv float32
		if d != 0 {
			inv = 1 / d
		}
		binary.LittleEndian.PutUint16(out, half(d*scale))
		for i, x := range v {
			// roundf goes away from zero at a half: round the magnitude up,
			// in float64 where adding a half is exact. No branch on the sign,
			// which is random.
			s := x >> 31
			q := int32(float64(float32(float32((x^s)-s)*inv)) + 0.5)
			out[2+i] = byte((q ^ s) - s)
		}
	}
}
