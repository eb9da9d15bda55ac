package gguf

import (
	"fmt"
	"math"
)

const (
	// maxLayers is LLAMA_MAX_LAYERS of llama.cpp's src/llama-hparams.h, and
	// maxExperts the smallest LLAMA_MAX_EXPERTS of the tags b8390 to v0.5.0: a
	// model with more does not load.
	maxLayers  = 512
	maxExperts = 512
)

// check refuses what llama.cpp's loader (llama_model::load_hparams, load_tensors)
// refuses, and what has rows that no block type can hold.
func (m Model) check() error {
	for _, f := range []struct {
		name            string
		val, least, max int
	}{
		{"layers", m.Layers, 1, maxLayers},
		{"embd", m.Embd, 1, maxFact},
		{"heads", m.Heads, 1, maxFact},
		{"kv_heads", m.KVHeads, 1, maxFact},
		{"head_dim", m.HeadDim, 0, maxFact},
		{"ff", m.FF, 1, maxFact},
		{"context", m.Context, 1, math.MaxInt32},
		{"experts", m.Experts, 0, maxExperts},
		{"experts_used", m.ExpertsUsed, 0, maxExperts},
		{"experts_shared", m.ExpertsShared, 0, maxExperts},
		{"dense_lead", m.DenseLead, 0, maxLayers},
		{"kv_rank", m.KVRank, 0, maxFact},
		{"q_rank", m.QRank, 0, maxFact},
		{"rope_dim", m.RopeDim, 0, maxFact},
		{"value_dim", m.ValueDim, 0, maxFact},
	} {
		if f.val < f.least || f.val > f.max {
			return impossible(f.name, f.val, fmt.Sprintf("it must be from %d to %d", f.least, f.max),
				min(max(f.val, f.least), f.max))
		}
	}
	if _, known := rows[m.Type]; !known {
		return &Impossible{
			Field: "type", Value: m.Type.String(), Why: "it cannot be written",
			Nearest: []string{"F16", "Q8_0", "Q4_0"},
		}
	}
	if m.HeadDim == 0 && m.Embd%m.Heads != 0 {
		return impossible("heads", m.Heads, fmt.Sprintf("embd %d is not a multiple of it, so the head dim must be given",
			m.Embd), divisors(m.Embd, m.Heads)...)
	}
	if d := m.HeadSize(); d%2 != 0 || d == 0 {
		return impossible("head_dim", d, "rope turns pairs of elements", around(d, 2)...)
	}
	if most := maxFact / m.Heads; max(m.HeadSize(), m.valueDim()) > most {
		return impossible("head_dim", m.HeadSize(), fmt.Sprintf("%d heads would have more than %d elements", m.Heads,
			maxFact), most&^1)
	}
	if err := m.checkExperts(); err != nil {
		return err
	}
	if m.KVRank > 0 {
		return m.checkMLA()
	}
	for _, f := range []struct {
		name string
		val  int
	}{
		{"experts_shared", m.ExpertsShared},
		{"dense_lead", m.DenseLead},
		{"q_rank", m.QRank},
		{"rope_dim", m.RopeDim},
		{"value_dim", m.ValueDim},
	} {
		if f.val != 0 {
			return impossible(f.name, f.val, "only a model with a kv rank (MLA) has it", 0)
		}
	}
	if m.Heads%m.KVHeads != 0 {
		return impossible("kv_heads", m.KVHeads, fmt.Sprintf("heads %d is not a multiple of it", m.Heads),
			divisors(m.Heads, m.KVHeads)...)
	}
	return nil
}

func (m Model) checkExperts() error {
	switch {
	case m.Experts == 0 && m.ExpertsUsed != 0:
		return impossible("experts_used", m.ExpertsUsed, "there are no experts", 0)
	case m.Experts == 0 && m.ExpertsShared != 0:
		return impossible("experts_shared", m.ExpertsShared, "there are no experts", 0)
	case m.ExpertsShared > maxFact/m.FF:
		return impossible("experts_shared", m.ExpertsShared, fmt.Sprintf("together they would be wider than %d", maxFact),
			maxFact/m.FF)
	case m.Experts > 0 && (m.ExpertsUsed < 1 || m.ExpertsUsed > m.Experts):
		return impossible("experts_used", m.ExpertsUsed, fmt.Sprintf("of %d experts at least one works, and not more "+
			"than there are", m.Experts), min(max(m.ExpertsUsed, 1), m.Experts))
	}
	return nil
}

// checkMLA knows what llama.cpp's deepseek2 wants.
func (m Model) checkMLA() error {
	switch nope := m.HeadSize() - m.RopeDim; {
	case m.KVHeads != 1:
		return impossible("kv_heads", m.KVHeads, "with MLA all heads share one compressed K", 1)
	case m.RopeDim == 0 || m.RopeDim%2 != 0:
		return impossible("rope_dim", m.RopeDim, "rope turns pairs of elements", around(m.RopeDim, 2)...)
	case nope < q8Block || nope%q8Block != 0:
		return impossible("head_dim", m.HeadSize(), fmt.Sprintf("the part beside rope's %d must be a multiple of %d",
			m.RopeDim, q8Block),
			addTo(around(nope, q8Block), m.RopeDim)...)
	case m.QRank > 0 && (m.Layers == 26 || m.Layers == 27):
		// is_lite of llama.cpp's deepseek2.
		return impossible("layers", m.Layers, "llama.cpp takes a deepseek2 of 26 or 27 layers for one without a q rank", 25,
			28)
	case m.Experts > 0 && m.ExpertsShared == 0:
		return impossible("experts_shared", 0, "a deepseek2 with experts has a shared one", 1)
	case m.DenseLead > m.Layers:
		return impossible("dense_lead", m.DenseLead, fmt.Sprintf("there are %d layers", m.Layers), m.Layers)
	case m.KVRank+m.RopeDim > maxFact:
		return impossible("kv_rank", m.KVRank, fmt.Sprintf("a token's K would have more than %d elements", maxFact),
			maxFact-m.RopeDim)
	}
	return nil
}

// rows says what a row's length must be a multiple of. F16 has no blocks, but the
// same model must exist in every type.
var rows = map[Type]int{F16: q8Block, Q8_0: q8Block, Q4_0: q4Block}

// checkRow says whether a matrix can have rows of n elements, which come from a
// field whose unit they are a multiple of.
func (m Model) checkRow(tensor, field string, n, value int) error {
	per := rows[m.Type]
	if n%per == 0 {
		return nil
	}
	why := fmt.Sprintf("%s would have rows of %d elements, and they must be a multiple of %d, a block of Q8_0 and Q4_0",
		tensor, n, per)
	// The field times unit is n.
	unit := n / value
	step := per
	for unit%2 == 0 && step > 1 {
		unit, step = unit/2, step/2
	}
	return impossible(field, value, why, around(value, step)...)
}

// around returns the multiples of step next to n, above 0.
func around(n, step int) []int {
	low := n / step * step
	if low == 0 || low == n {
		return []int{low + step}
	}
	return []int{low, low + step}
}

func addTo(list []int, n int) []int {
	for i := range list {
		list[i] += n
	}
	return list
}

// divisors returns the divisors of n next to d, below and above it.
func divisors(n, d int) []int {
	var list []int
	for low := min(d, n); low > 0; low-- {
		if n%low == 0 {
			list = append(list, low)
			break
		}
	}
	for high := d; high <= n; high++ {
		if n%high == 0 {
			return append(list, high)
		}
	}
	return list
}
