package evidence

import (
	"fmt"
	"math"
	"slices"

	"github.com/llpatch/llpatch/internal/memory"
)

// Ratio is a speed divided by the baseline's of the same pair, over the pairs.
type Ratio struct {
	Values []float64 `json:"values"` // in the order of the pairs that have both
	Median float64   `json:"median"`
	Low    *float64  `json:"low,omitempty"` // of the interval, absent where there is none
	High   *float64  `json:"high,omitempty"`
	Level  float64   `json:"level,omitempty"` // of the interval, at least 0.95
	Note   string    `json:"note,omitempty"`
}

// interval is the order statistics' distribution-free confidence interval of the
// median (the sign test turned round): between the k-th smallest and the k-th
// largest of n values lies the median with probability 1 - 2 P(Bin(n, 1/2) < k).
// k is the largest for which that is at least 0.95; below six values there is none.
func interval(n int) (k int, level float64) {
	// terms of the binomial, from 0 on
	p, below := math.Pow(0.5, float64(n)), 0.0
	for i := range n/2 + 1 {
		next := below + p
		if 1-2*next < 0.95 {
			break
		}
		k, level, below = i+1, 1-2*next, next
		p *= float64(n-i) / float64(i+1)
	}
	return k, level
}

func ratioOf(values []float64, pairs int) *Ratio {
	r := &Ratio{Values: values}
	n := len(values)
	s := slices.Clone(values)
	slices.Sort(s)
	r.Median = s[n/2]
	if n%2 == 0 {
		r.Median = (s[n/2-1] + s[n/2]) / 2
	}
	if k, level := interval(n); k > 0 {
		r.Low, r.High, r.Level = &s[k-1], &s[n-k], level
	} else {
		r.Note = fmt.Sprintf("%d pairs give no 95 %% interval: six are the least", n)
	}
	if n < pairs {
		r.Note = fmt.Sprintf("%d of %d pairs have no figure", pairs-n, pairs)
	}
	return r
}

// maxSamples is how many looks of one kind are kept of a run.
const maxSamples = 1000

// thin keeps the looks in which something is to be seen.
func thin(s memory.Series) Samples {
	out := Samples{Looks: len(s.Points), Missed: s.Missed}
	for _, k := range []memory.Kind{memory.RSS, memory.VRAM} {
		var ms, kib []int64
		for _, p := range s.Points {
			if b, ok := p.Bytes(k); ok {
				ms, kib = append(ms, int64(math.Round(p.Seconds*1000))), append(kib, b>>10)
			}
		}
		ms, kib = withoutPlateaus(ms, kib)
		ms, kib = extremes(ms, kib, maxSamples)
		if k == memory.RSS {
			out.MS, out.RSS = ms, kib
		} else {
			out.VRAMMS, out.VRAM = ms, kib
		}
	}
	return out
}

func withoutPlateaus(ms, v []int64) ([]int64, []int64) {
	var outMS, out []int64
	for i := range v {
		if i > 0 && i+1 < len(v) && v[i] == v[i-1] && v[i] == v[i+1] {
			continue
		}
		outMS, out = append(outMS, ms[i]), append(out, v[i])
	}
	return outMS, out
}

// extremes keeps the first and the last value, and the lowest and the highest of
// every stretch between.
func extremes(ms, v []int64, most int) ([]int64, []int64) {
	n := len(v)
	if n <= most {
		return ms, v
	}
	var outMS, out []int64
	keep := func(i int) { outMS, out = append(outMS, ms[i]), append(out, v[i]) }
	keep(0)
	parts := (most - 2) / 2
	for p := range parts {
		from, to := 1+p*(n-2)/parts, 1+(p+1)*(n-2)/parts
		low, high := from, from
		for i := from; i < to; i++ {
			if v[i] < v[low] {
				low = i
			}
			if v[i] > v[high] {
				high = i
			}
		}
		keep(min(low, high))
		if low != high {
			keep(max(low, high))
		}
	}
	keep(n - 1)
	return outMS, out
}
