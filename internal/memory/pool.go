package memory

import "math"

// legacyPool is ggml_cuda_pool_leg of llama.cpp's ggml-cuda.cu (text identical
// from b3907 to b8862; later ones give idle buffers back only where memory has
// run out): 256 slots, best fit, 5 % look-ahead rounded up to 256 bytes.
type legacyPool struct {
	free  []int64
	total int64
}

const legacySlots = 256

func (p *legacyPool) alloc(n int64) int64 {
	best := -1
	for i, b := range p.free {
		if b >= n && (best < 0 || b < p.free[best]) {
			best = i
		}
	}
	if best >= 0 {
		b := p.free[best]
		p.free[best] = p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		return b
	}
	b := (int64(1.05*float64(n)) + 255) / 256 * 256
	p.total += b
	return b
}

func (p *legacyPool) release(b int64) {
	if len(p.free) < legacySlots {
		p.free = append(p.free, b)
		return
	}
	p.total -= b
}

// legacyWaste returns what the pool holds after a prefill of so many tokens in
// steps of ub, whose buffers take k and v bytes a cell each: every buffer that
// was outgrown is kept. The limit is about 21 times the need.
func legacyWaste(tokens, ub int, k, v int64) int64 {
	if k+v == 0 {
		return 0
	}
	if most := times(k+v, pad256(int64(tokens))); most > math.MaxInt64/(2*legacySlots) {
		return math.MaxInt64 // its slots could hold more than can be counted
	}
	p := legacyPool{}
	var last int64
	for pos := 0; pos < tokens; {
		pos = min(tokens, pos+ub)
		n := pad256(int64(pos))
		if n == last {
			continue // the same sizes fit the same buffers
		}
		last = n
		var held []int64
		for _, each := range []int64{k, v} {
			if each > 0 {
				held = append(held, p.alloc(n*each))
			}
		}
		for i := len(held) - 1; i >= 0; i-- {
			p.release(held[i])
		}
	}
	return p.total
}

// pad256 is how llama.cpp rounds cells (GGML_PAD(…, 256)).
func pad256(n int64) int64 { return (n + 255) / 256 * 256 }

// times and plus are the product and the sum of numbers that are not negative. What
// no int64 holds is math.MaxInt64: a file may claim any widths.
func times(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
