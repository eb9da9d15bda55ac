package gguf

import (
	"encoding/binary"
	"math"
	"testing"
)

// unhalf is binary16 to float64, from the definition.
func unhalf(h uint16) float64 {
	sign, exp, man := 1.0, int(h>>10&31), float64(h&0x3ff)
	if h&0x8000 != 0 {
		sign = -1
	}
	switch {
	case exp == 31 && man != 0:
		return math.NaN()
	case exp == 31:
		return sign * math.Inf(1)
	case exp == 0:
		return sign * math.Ldexp(man, -24)
	}
	return sign * math.Ldexp(1024+man, exp-25)
}

func TestHalf(t *testing.T) {
	// Each F16 number is itself; halfway to the next goes to the even one, and
	// a hair to either side goes to the nearer.
	for h := range uint16(0x7c00) {
		lo, hi := unhalf(h), unhalf(h+1)
		if h == 0x7bff {
			hi = 65536 // where infinity would stand
		}
		mid := float32((lo + hi) / 2) // exact: one bit more than F16
		even := h + h&1
		for f, want := range map[float32]uint16{
			float32(lo):                          h,
			mid:                                  even,
			math.Nextafter32(mid, 0):             h,
			math.Nextafter32(mid, math.MaxInt32): h + 1,
		} {
			if got := half(f); got != want {
				t.Fatalf("half(%g) = %#04x, want %#04x", f, got, want)
			}
			if got := half(-f); got != want|0x8000 {
				t.Fatalf("half(%g) = %#04x, want %#04x", -f, got, want|0x8000)
			}
		}
	}
	inf := float32(math.Inf(1))
	for f, want := range map[float32]uint16{inf: 0x7c00, -inf: 0xfc00, 1e38: 0x7c00, 1e-30: 0} {
		if got := half(f); got != want {
			t.Errorf("half(%g) = %#04x, want %#04x", f, got, want)
		}
	}
	if got := half(float32(math.NaN())); !math.IsNaN(unhalf(got)) {
		t.Errorf("half(NaN) = %#04x", got)
	}
}

func TestWeightsAreExactInF16(t *testing.T) {
	for shift := -2; shift <= 13; shift++ {
		h := newHalves(shift)
		for v := -2048; v < 2048; v++ {
			want := math.Ldexp(float64(v), -11-shift)
			if got := unhalf(h[uint16(v)&0xfff]); got != want {
				t.Fatalf("shift %d: weight %d is %g, want %g", shift, v, got, want)
			}
		}
	}
}

// refQ8 follows quantize_row_q8_0_ref line by line, in float32 as C has it.
func refQ8(x []float32) (d float32, q []int8) {
	var top float32
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	d = top / 127
	var id float32
	if d != 0 {
		id = 1 / d
	}
	for _, v := range x {
		q = append(q, int8(math.Round(float64(float32(v*id)))))
	}
	return d, q
}

func TestQ8(t *testing.T) {
	const n = 32 << 10
	for _, shift := range []int{-2, 0, 3, 6, 12} {
		buf := make([]byte, n/q8Block*q8Bytes)
		fillQ8(buf, shift, 99, 0, n)
		for b := range n / q8Block {
			x := make([]float32, q8Block)
			for i := range x {
				e := b*q8Block + i
				x[i] = float32(math.Ldexp(float64(weightAt(word(99, uint64(e/lanes)), e%lanes)), -11-shift))
			}
			d, q := refQ8(x)
			got := buf[b*q8Bytes:][:q8Bytes]
			if g := binary.LittleEndian.Uint16(got); g != half(d) {
				t.Fatalf("shift %d block %d: scale %#04x, want %#04x", shift, b, g, half(d))
			}
			for i := range q {
				if int8(got[2+i]) != q[i] {
					t.Fatalf("shift %d block %d element %d: %d, want %d", shift, b, i, int8(got[2+i]), q[i])
				}
			}
		}
	}
}

func TestSplitMix(t *testing.T) {
	// First outputs for seed 1234567, from the reference C program at
	// prng.di.unimi.it/splitmix64.c.
	want := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}
	for i, w := range want {
		if got := word(1234567, uint64(i)); got != w {
			t.Errorf("output %d is %d, want %d", i, got, w)
		}
	}
}
