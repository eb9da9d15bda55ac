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

// refBlock is block, written down from its description: the scale and the integers
// of a block, one by one.
func refBlock(seed, i uint64) (scale int, q [32]int) {
	words := blockWords + uint64(1)
	r := word(seed, i*words)
	for j := range q {
		b := byte(word(seed, i*words+1+uint64(j)/8) >> (j % 8 * 8))
		q[j] = int(int8(b | 1))
	}
	peak := int(r >> 4 & 31)
	if q[peak] < 0 {
		q[peak] = -127
	} else {
		q[peak] = 127
	}
	return int(r & 7), q
}

// weight returns the exact values of a block.
func weights(t *tensor, i uint64) (d float64, x [32]float64) {
	s, q := refBlock(t.seed, i)
	m, e := scaleAt(t.scale + s)
	d = math.Ldexp(float64(m), e)
	for j := range x {
		x[j] = float64(q[j]) * d
	}
	return d, x
}

const testBlocks = 2048

func each(t *testing.T, typ Type, size int, check func(t *testing.T, d float64, want [32]float64, got []byte)) {
	t.Helper()
	for _, c := range []int{0, 5, 6 * octave, 100, 15 * octave} {
		ts := tensor{dims: []uint64{32, testBlocks}, typ: typ, scale: c, seed: 99}
		buf := make([]byte, testBlocks*size)
		ts.fill()(buf, 0, testBlocks*32)
		// Any part of it is the same.
		part := make([]byte, size)
		ts.fill()(part, 7*32, 32)
		if string(part) != string(buf[7*size:8*size]) {
			t.Fatal("a part differs from the whole")
		}
		for b := range testBlocks {
			d, want := weights(&ts, uint64(b))
			check(t, d, want, buf[b*size:][:size])
		}
	}
}

func TestF16IsExact(t *testing.T) {
	each(t, F16, 64, func(t *testing.T, _ float64, want [32]float64, got []byte) {
		t.Helper()
		for i, w := range want {
			if g := unhalf(binary.LittleEndian.Uint16(got[2*i:])); g != w {
				t.Fatalf("element %d is %g, want %g", i, g, w)
			}
		}
	})
}

func TestF32IsExact(t *testing.T) {
	each(t, F32, 128, func(t *testing.T, _ float64, want [32]float64, got []byte) {
		t.Helper()
		for i, w := range want {
			if g := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:]))); g != w {
				t.Fatalf("element %d is %g, want %g", i, g, w)
			}
		}
	})
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

// Q8_0 is what llama-quantize would make of the F16 model.
func TestQ8(t *testing.T) {
	each(t, Q8_0, q8Bytes, func(t *testing.T, _ float64, want [32]float64, got []byte) {
		t.Helper()
		x := make([]float32, 32)
		for i := range x {
			x[i] = float32(want[i])
		}
		d, q := refQ8(x)
		if g := binary.LittleEndian.Uint16(got); g != half(d) {
			t.Fatalf("scale %#04x, want %#04x", g, half(d))
		}
		for i := range q {
			if int8(got[2+i]) != q[i] {
				t.Fatalf("element %d is %d, want %d", i, int8(got[2+i]), q[i])
			}
		}
	})
}

// Q4_0 is never further from the weight than half a level, and leans to no side.
func TestQ4(t *testing.T) {
	sum, n := 0.0, 0.0
	each(t, Q4_0, q4Bytes, func(t *testing.T, d float64, want [32]float64, got []byte) {
		t.Helper()
		scale := unhalf(binary.LittleEndian.Uint16(got))
		if scale != 16*d {
			t.Fatalf("scale %g, want %g", scale, 16*d)
		}
		// dequantize_row_q4_0 of ggml-quants.c.
		for j := range 16 {
			for _, p := range []struct{ i, q int }{{j, int(got[2+j] & 15)}, {j + 16, int(got[2+j] >> 4)}} {
				off := float64(p.q-8)*scale - want[p.i]
				if math.Abs(off) > 16*d {
					t.Fatalf("element %d is %g off, a level is %g", p.i, off, 32*d)
				}
				sum += off / d
				n++
			}
		}
	})
	if mean := sum / n; math.Abs(mean) > 5*16/math.Sqrt(3*n) {
		t.Errorf("on average %g of a Q8_0 step off", mean)
	}
}

// meanSquare is that of the weights with the 8 scales from c on.
func meanSquare(c int) float64 {
	const squares = (31*5461.0 + 127*127) / 32
	sum := 0.0
	for j := range octave {
		m, e := scaleAt(c + j)
		d := math.Ldexp(float64(m), e)
		sum += d * d
	}
	return sum / octave * squares
}

func TestUnitScale(t *testing.T) {
	// The mean square times the inputs is at most 1, and above it for the next
	// larger scale.
	for n := uint64(1); n < 1<<26; n = n*5/4 + 1 {
		c := unitScale(n)
		if a, b := meanSquare(c)*float64(n), meanSquare(c+1)*float64(n); a > 1 || b <= 1 {
			t.Errorf("n %d: scale %d gives %g, the next %g", n, c, a, b)
		}
	}
	if unitScale(math.MaxInt32) != 0 {
		t.Error("weights below what F16 can hold")
	}
}

func TestSplitMix(t *testing.T) {
	// First outputs for seed 1234567, from the reference C program at
	// prng.di.unimi.it/splitmix64.c.
	want := []uint64{
		6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
		16408922859458223821,
	}
	for i, w := range want {
		if got := word(1234567, uint64(i)); got != w {
			t.Errorf("output %d is %d, want %d", i, got, w)
		}
	}
}
