package gguf

import "hash/fnv"

// weightBits is the width of the integers that weights are made from. A signed
// 12-bit integer times a power of two is exact in F16 (11 bits of mantissa), so
// a weight is the same number in every type before it is quantised.
const weightBits = 12

// lanes is how many weights one random word gives.
const lanes = 4

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

// weightAt returns lane j of a random word as an integer in [-2048, 2048).
func weightAt(w uint64, j int) int32 {
	return int32(int16(w>>(16*j))) >> (16 - weightBits)
}

// tensorSeed depends on the tensor's name and not on its place, so another
// layer more leaves the weights of all others as they are.
func tensorSeed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails: hash.Hash says so
	return mix(mix(seed+golden) ^ h.Sum64())
}
