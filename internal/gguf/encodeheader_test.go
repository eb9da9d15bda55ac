package gguf

import (
	"bytes"
	"slices"
	"testing"
)

func TestEncodeHeader(t *testing.T) {
	b, err := EncodeHeader([]Entry{
		{"general.architecture", "gemma4"},
		{"gemma4.block_count", 2},
		{"gemma4.attention.head_count", []int{4, 8}},
		{"gemma4.attention.sliding_window_pattern", []bool{true, false}},
		{"gemma4.rope.freq_base", float32(10000)},
		{"tokenizer.ggml.tokens", []string{"a", "b", "c"}},
		{"tokenizer.ggml.add_bos_token", false},
	}, []Tensor{{Name: "blk.0.w", Type: Q8_0, Dims: []uint64{32, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if h.Arch != "gemma4" || h.Layers != 2 || h.Vocab != 3 || !slices.Equal(h.Heads, []int{4, 8}) || h.Missing != 68 ||
		!slices.Equal(h.Ints("gemma4.attention.sliding_window_pattern"), []int64{1, 0}) || h.DataOffset != int64(len(b)) ||
		!slices.Equal(h.Ints("tokenizer.ggml.add_bos_token"), []int64{0}) {
		t.Errorf("%+v", h)
	}
	if _, err := EncodeHeader([]Entry{{"x", 1.5}}, nil); err == nil {
		t.Error("a float64 is written")
	}
}
