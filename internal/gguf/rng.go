package gguf

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
)

// Weights come in blocks of 32, the block of Q8_0: 32 odd integers from -127 to
// 127 times one of the tensor's 8 scales. One of them is 127 or -127, so the
// block is what ggml's quantize_row_q8_0_ref makes of its own values, and F16
// and Q8_0 hold exactly the same numbers. Odd integers have the mean 0 that whole
// random bytes lack.
const (
	blockWords = q8Block / 8
	// octave is how many scales there are up to a factor of two: 8/8 to 15/8, so
	// that a scale times an integer fits the 11 bits of F16's mantissa.
	octave = 8
	// minExp is the exponent of scale 0, 8 * 2^-24: below it the products are no
	// longer exact in F16.
	minExp = -24
)

// scaleAt returns scale c as m * 2^e.
func scaleAt(c int) (m uint64, e int) { return uint64(octave + c%octave), c/octave + minExp }

// unitScale returns the largest scale index for which weights of n inputs of size
// 1 give outputs of a size up to 1; the tensor's blocks have the scales from there
// to one octave above. It counts in integers, to be the same on every machine.
func unitScale(n uint64) int {
	// The mean square of a block's integers: 31 odd ones up to 127, and 127.
	const squares = 31*(128*128-1)/3 + 127*127
	c := 0
	for ; c < 15*octave; c++ {
		var sum uint64 // of the squares of the scales, in units of 2^(2*minExp)
		for j := range octave {
			m, e := scaleAt(c + 1 + j)
			sum += m * m << (2 * (e - minExp))
		}
		hi, lo := bits.Mul64(sum*squares, n)
		if hi != 0 || lo > q8Block*octave<<(-2*minExp) {
			break
		}
	}
	return c
}

// golden is splitmix64's increment: 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// mix is the output function of splitmix64 (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", 2014; constants by Stafford).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// word returns the i-th output of splitmix64 started from seed. It needs no
// state, so any part of a tensor can be made on its own.
func word(seed, i uint64) uint64 { return mix(seed + (i+1)*golden) }

// block makes block i of a tensor: its integers, as Q8_0 stores them, and which of
// the 8 scales it has.
func block(seed, i uint64, q *[q8Block]byte) (scale int) {
	z := seed + (i*(blockWords+1)+1)*golden
	r := mix(z)
	const odd = 0x0101010101010101
	// No loop: it takes a fifth longer.
	z1 := z + golden
	z2 := z1 + golden
	z3 := z2 + golden
	z4 := z3 + golden
	binary.LittleEndian.PutUint64(q[0:], mix(z1)|odd)
	binary.LittleEndian.PutUint64(q[8:], mix(z2)|odd)
	binary.LittleEndian.PutUint64(q[16:], mix(z3)|odd)
	binary.LittleEndian.PutUint64(q[24:], mix(z4)|odd)
	// The peak: its sign stays, its value becomes 127.
	p := &q[r>>4&(q8Block-1)]
	*p = 0x7f + *p>>7<<1
	return int(r & (octave - 1))
}

// tensorSeed depends on the tensor's name and not on its place, so another
// layer more leaves the weights of all others as they are.
func tensorSeed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails: hash.Hash says so
	return mix(mix(seed+golden) ^ h.Sum64())
}
