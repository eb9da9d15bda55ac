package gguf

import (
	"fmt"
	"math"
)

// tensor is one entry of the file's tensor table.
type tensor struct {
	name   string
	dims   []uint64 // fastest first, as ggml's ne
	typ    Type
	scale  int    // index of the smallest scale of its blocks; unused in norms
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

// norm reports whether the tensor is a norm's weights, which are near 1.
func (t *tensor) norm() bool { return len(t.dims) == 1 }

// layers builds the list of tensors.
type layers struct {
	Model
	list []tensor
	err  error
}

func (l *layers) norm(name string, n int) {
	l.list = append(l.list, tensor{name: name + ".weight", dims: []uint64{uint64(n)}, typ: F32})
}

// matrix adds one, or one for each of the parts; gain is a power of two: 0 keeps
// the size of the activations. from is the field that the row length comes from,
// for the error.
func (l *layers) matrix(name, from string, value, in, out, gain int, parts ...int) {
	if l.err == nil {
		l.err = l.checkRow(name, from, in, value)
	}
	dims := []uint64{uint64(in), uint64(out)}
	for _, p := range parts {
		dims = append(dims, uint64(p))
	}
	l.list = append(l.list, tensor{name: name + ".weight", dims: dims, typ: l.Type, scale: unitScale(uint64(in)) +
		octave*gain})
}

// embd adds a matrix whose input is the residual stream.
func (l *layers) embd(name string, out, gain int, parts ...int) {
	l.matrix(name, "embd", l.Embd, l.Embd, out, gain, parts...)
}

// ffn adds the three matrices of a feed-forward layer.
func (l *layers) ffn(blk, suffix string, width, value int, parts ...int) {
	l.embd(blk+"ffn_gate"+suffix, width, 0, parts...)
	l.embd(blk+"ffn_up"+suffix, width, 0, parts...)
	l.matrix(blk+"ffn_down"+suffix, "ff", value, width, l.Embd, 0, parts...)
}

func (l *layers) attention(blk string) {
	q, kv := l.Heads*l.HeadSize(), l.KVHeads*l.HeadSize()
	// Scores of about 4, not 1: attention that picks some tokens and does not
	// just average all.
	if l.KVRank == 0 {
		l.embd(blk+"attn_q", q, 1)
		l.embd(blk+"attn_k", kv, 1)
		l.embd(blk+"attn_v", kv, 0)
	} else {
		if l.QRank > 0 {
			l.embd(blk+"attn_q_a", l.QRank, 0)
			l.norm(blk+"attn_q_a_norm", l.QRank)
			l.matrix(blk+"attn_q_b", "q_rank", l.QRank, l.QRank, q, 1)
		} else {
			l.embd(blk+"attn_q", q, 1)
		}
		nope := l.HeadSize() - l.RopeDim
		l.embd(blk+"attn_kv_a_mqa", l.KVRank+l.RopeDim, 0)
		l.norm(blk+"attn_kv_a_norm", l.KVRank)
		l.matrix(blk+"attn_k_b", "head_dim", l.HeadSize(), nope, l.KVRank, 0, l.Heads)
		l.matrix(blk+"attn_v_b", "kv_rank", l.KVRank, l.KVRank, l.valueDim(), 0, l.Heads)
	}
	l.matrix(blk+"attn_output", "heads", l.Heads, l.Heads*l.valueDim(), l.Embd, 0)
}

// layout returns the tensors in the order they stand in the file, with their
// sizes and offsets.
func (m Model) layout() ([]tensor, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	l := &layers{Model: m}
	vocab := len(vocabulary)
	// Small beside what the layers add to it, or the answer would hang on the
	// last token alone and a broken layer would not show.
	l.embd("token_embd", vocab, 0)
	l.list[0].scale = unitScale(48)
	for i := range m.Layers {
		blk := fmt.Sprintf("blk.%d.", i)
		l.norm(blk+"attn_norm", m.Embd)
		l.attention(blk)
		l.norm(blk+"ffn_norm", m.Embd)
		if i < m.denseLead() {
			l.ffn(blk, "", m.FF, m.FF)
			continue
		}
		// Upstream's converter keeps the router in F32.
		l.embd(blk+"ffn_gate_inp", m.Experts, 1)
		l.list[len(l.list)-1].typ = F32
		l.ffn(blk, "_exps", m.FF, m.FF, m.Experts)
		if m.ExpertsShared > 0 {
			l.ffn(blk, "_shexp", m.FF*m.ExpertsShared, m.FF)
		}
	}
	l.norm("output_norm", m.Embd)
	// Control and byte tokens get a logit of 0, and text tokens random ones of
	// which the largest is well above 0: greedy decoding gives printable text.
	// Else the server answers 500, because random bytes are no UTF-8. The
	// factor 4 makes the distribution sharp enough for sampling as well.
	l.embd("output", vocab, 2)
	l.list[len(l.list)-1].zeros = firstText * uint64(m.Embd)
	if l.err != nil {
		return nil, l.err
	}
	return l.list, place(l.list, m.Seed)
}

// place gives the tensors their offsets.
func place(list []tensor, seed uint64) error {
	var end uint64
	for i := range list {
		t := &list[i]
		// A matrix has at most maxFact rows of maxFact in each of maxExperts: 2^57
		// elements.
		t.size, _ = t.typ.Size(t.elems())
		t.offset, t.seed = end, tensorSeed(seed, t.name)
		end = align(t.offset + t.size)
		// Offsets are signed 64-bit numbers in ggml and on disk.
		if end > math.MaxInt64/4 {
			return &Impossible{
				Field: "shape", Value: t.name,
				Why: fmt.Sprintf("the tensors up to it need %d bytes, which is more than a file can hold", end),
			}
		}
	}
	return nil
}

// size returns the bytes of the file.
func (m Model) size(list []tensor) int64 {
	last := list[len(list)-1]
	return int64(len(m.header(list))) + int64(align(last.offset+last.size))
}
