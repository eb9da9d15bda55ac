// Package gguf writes small llama models with seeded weights and a byte
// vocabulary, so that a binary can be tried on any machine with no download.
// The same Model gives the same bytes everywhere.
package gguf

import (
	"fmt"
	"math"
	"math/bits"
)

// maxLayers is LLAMA_MAX_LAYERS of llama.cpp's src/llama-hparams.h: a model
// with more layers does not load.
const maxLayers = 512

// Model is the shape of a dense llama model. Every field but HeadDim and Seed
// must be set.
type Model struct {
	Layers  int    `json:"layers"`
	Embd    int    `json:"embd"`     // width of the residual stream
	Heads   int    `json:"heads"`    // attention heads
	KVHeads int    `json:"kv_heads"` // heads of K and V; fewer than Heads is GQA
	HeadDim int    `json:"head_dim"` // elements of a head; 0: Embd / Heads
	FF      int    `json:"ff"`       // width of the feed-forward layer
	Context int    `json:"context"`  // tokens the model says it was trained for
	Type    Type   `json:"type"`
	Seed    uint64 `json:"seed"`
}

// headDim returns the elements of a head.
func (m Model) headDim() int {
	if m.HeadDim == 0 && m.Heads > 0 {
		return m.Embd / m.Heads
	}
	return m.HeadDim
}

// Validate says whether the model can be written and llama.cpp can load it.
func (m Model) Validate() error {
	_, err := m.layout()
	return err
}

func (m Model) check() error {
	for _, f := range []struct {
		name     string
		val, max int
	}{
		{"layers", m.Layers, maxLayers},
		{"embd", m.Embd, math.MaxInt32},
		{"heads", m.Heads, math.MaxInt32},
		{"kv heads", m.KVHeads, math.MaxInt32},
		{"ff", m.FF, math.MaxInt32},
		{"context", m.Context, math.MaxInt32},
	} {
		if f.val < 1 || f.val > f.max {
			return fmt.Errorf("model: %s is %d, it must be from 1 to %d", f.name, f.val, f.max)
		}
	}
	if m.HeadDim < 0 || m.HeadDim > math.MaxInt32 {
		return fmt.Errorf("model: head dim is %d, it must be from 0 to %d", m.HeadDim, math.MaxInt32)
	}
	if m.HeadDim == 0 && m.Embd%m.Heads != 0 {
		return fmt.Errorf("model: embd %d is not a multiple of heads %d; set the head dim, or change one", m.Embd, m.Heads)
	}
	if m.Heads%m.KVHeads != 0 {
		return fmt.Errorf("model: heads %d is not a multiple of kv heads %d", m.Heads, m.KVHeads)
	}
	// rope turns pairs of elements.
	if d := m.headDim(); d%2 != 0 {
		return fmt.Errorf("model: head dim %d is odd; rope needs an even one", d)
	}
	if m.Type != F16 && m.Type != Q8_0 {
		return fmt.Errorf("model: type %s cannot be written; use F16 or Q8_0", m.Type)
	}
	return nil
}

// tensor is one entry of the file's tensor table.
type tensor struct {
	name   string
	dims   []uint64 // fastest first, as ggml's ne
	typ    Type
	shift  int    // a weight is v * 2^-(weightBits-1+shift), v from weightAt
	zeros  uint64 // the first elements, which are 0
	offset uint64 // in the data section
	size   uint64 // bytes without padding
	seed   uint64
}

func (t *tensor) elems() uint64 {
	n := uint64(1)
	for _, d := range t.dims {
		n *= d
	}
	return n
}

// layout returns the tensors in the order they stand in the file, with their
// sizes and offsets.
func (m Model) layout() ([]tensor, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	embd, ff := uint64(m.Embd), uint64(m.FF)
	q, kv := uint64(m.Heads)*uint64(m.headDim()), uint64(m.KVHeads)*uint64(m.headDim())
	vocab := uint64(len(vocabulary))

	var list []tensor
	norm := func(name string) {
		list = append(list, tensor{name: name, dims: []uint64{embd}, typ: F32})
	}
	// gain is a power of two: 0 keeps the size of the activations.
	matrix := func(name string, in, out uint64, gain int) {
		list = append(list, tensor{name: name, dims: []uint64{in, out}, typ: m.Type, shift: unitShift(in) - gain})
	}

	// Small beside what the layers add to it, or the answer would hang on the
	// last token alone and a broken layer would not show.
	list = append(list, tensor{name: "token_embd.weight", dims: []uint64{embd, vocab}, typ: m.Type, shift: 2})
	for i := range m.Layers {
		blk := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
		norm(blk("attn_norm"))
		// Scores of about 4, not 1: attention that picks some tokens and does
		// not just average all.
		matrix(blk("attn_q"), embd, q, 1)
		matrix(blk("attn_k"), embd, kv, 1)
		matrix(blk("attn_v"), embd, kv, 0)
		matrix(blk("attn_output"), q, embd, 0)
		norm(blk("ffn_norm"))
		matrix(blk("ffn_gate"), embd, ff, 0)
		matrix(blk("ffn_up"), embd, ff, 0)
		matrix(blk("ffn_down"), ff, embd, 0)
	}
	norm("output_norm.weight")
	// Control and byte tokens get a logit of 0, and text tokens random ones of
	// which the largest is well above 0: greedy decoding gives printable text.
	// Else the server answers 500, because random bytes are no UTF-8. The
	// factor 4 makes the distribution sharp enough for sampling as well.
	list = append(list, tensor{
		name: "output.weight", dims: []uint64{embd, vocab}, typ: m.Type,
		shift: unitShift(embd) - 2, zeros: firstText * embd,
	})

	var end uint64
	for i := range list {
		t := &list[i]
		per, size := t.typ.block()
		// F16 has no blocks, but the same model must exist in both types.
		if len(t.dims) > 1 && t.dims[0]%q8Block != 0 {
			return nil, fmt.Errorf("model: %s would have rows of %d elements; embd, ff and heads * head dim must be multiples of %d", t.name, t.dims[0], q8Block)
		}
		n := uint64(1)
		for _, d := range t.dims {
			hi, lo := bits.Mul64(n, d)
			// Offsets are signed 64-bit numbers in ggml and on disk.
			if hi != 0 || lo > math.MaxInt64/8 {
				return nil, fmt.Errorf("model: %s has %v elements, which is more than a file can hold", t.name, t.dims)
			}
			n = lo
		}
		t.offset, t.size = end, n/per*size
		t.seed = tensorSeed(m.Seed, t.name)
		end = align(t.offset + t.size)
		if end > math.MaxInt64/2 {
			return nil, fmt.Errorf("model: the tensors up to %s need %d bytes, which is more than a file can hold", t.name, end)
		}
	}
	return list, nil
}

// unitShift returns k so that weights in [-2^-k, 2^-k) over n inputs of size 1
// give outputs of size about 1: 2^-k is the largest power of two below
// sqrt(3/n), since a uniform number in [-a, a) has variance a*a/3. A power of
// two keeps every weight exact in F16.
func unitShift(n uint64) int {
	k := 0
	for p := uint64(3); p < n; p *= 4 {
		k++
	}
	return k
}
