package gguf

import (
	"fmt"
	"math"
)

// maxFact bounds the widths and counts that a header may claim, so that their
// products over all layers fit 63 bits. The widest model known has 53,248.
const maxFact = 1 << 24

// Header is what a model file says of itself. Numbers that the file does not
// give have llama.cpp's default, or 0.
type Header struct {
	Version uint32 `json:"version"` // of GGUF
	Arch    string `json:"arch"`
	Name    string `json:"name,omitempty"`
	// llama_ftype of llama.cpp's include/llama.h; -1: not given
	FileType int `json:"file_type"`

	Layers  int `json:"layers"`
	Embd    int `json:"embd"`
	Context int `json:"context"` // tokens that the model was trained for
	Vocab   int `json:"vocab"`
	// one number for each layer: attention heads, heads of K and V (0: the layer
	// keeps none), width of the feed-forward part
	Heads   []int `json:"heads"`
	KVHeads []int `json:"kv_heads"`
	FF      []int `json:"ff"`

	KeyLength    int `json:"key_length"`   // elements of a head of K
	ValueLength  int `json:"value_length"` // elements of a head of V
	RopeDim      int `json:"rope_dim"`
	KeyLengthSWA int `json:"key_length_swa"` // the same in layers with a window
	ValueLenSWA  int `json:"value_length_swa"`
	Window       int `json:"sliding_window"` // tokens; 0: none

	Experts       int `json:"experts"`
	ExpertsUsed   int `json:"experts_used"`
	ExpertsShared int `json:"experts_shared"`
	ExpertFF      int `json:"expert_ff"`
	DenseLead     int `json:"leading_dense"` // layers without experts, at the start

	KVRank         int `json:"kv_lora_rank"` // MLA
	QRank          int `json:"q_lora_rank"`
	KeyLengthMLA   int `json:"key_length_mla"` // of a head when decompressed
	ValueLengthMLA int `json:"value_length_mla"`

	Split      Split    `json:"split"`
	Tensors    []Tensor `json:"tensors"`
	DataOffset int64    `json:"data_offset"` // where the tensor data begin, in the first file
	FileBytes  int64    `json:"bytes"`       // of all files; -1: unknown
	Missing    int64    `json:"missing"`     // bytes that the files lack behind their header: a broken download

	keys map[string]value
}

// Split says which part of a model in several files this is.
type Split struct {
	No    int `json:"no"`    // from 0
	Count int `json:"count"` // 0: one file
}

// MLA reports whether the cache holds one compressed row for all heads
// (llama_hparams::is_mla of llama.cpp).
func (h *Header) MLA() bool { return h.KeyLengthMLA != 0 && h.ValueLengthMLA != 0 }

// KVElems returns the elements of K and of V that a layer keeps for one token in
// llama.cpp's cache: n_embd_k_gqa and n_embd_v_gqa of src/llama-hparams.cpp. With
// MLA there is no V (src/llama-kv-cache.cpp: has_v). Sliding windows do not
// change it, they change for how many tokens.
func (h *Header) KVElems(layer int) (k, v int64) {
	n := int64(h.KVHeads[layer])
	k, v = n*int64(h.KeyLength), n*int64(h.ValueLength)
	if h.MLA() {
		v = 0
	}
	return k, v
}

// KVBytes returns the bytes of cache that one token takes over all layers, with K
// and V stored in the given types.
func (h *Header) KVBytes(k, v Type) int64 {
	var sum uint64
	for i := range h.Layers {
		nk, nv := h.KVElems(i)
		// KVElems is below 2^48, so no size overflows.
		bk, _ := k.Size(uint64(nk))
		bv, _ := v.Size(uint64(nv))
		sum += bk + bv
	}
	return int64(sum)
}

// Has reports whether the metadata hold a key, whatever its type.
func (h *Header) Has(key string) bool { _, ok := h.keys[key]; return ok }

// Text returns a text of the metadata by its whole key, "" where there is none or
// it is longer than 4 KiB.
func (h *Header) Text(key string) string { return h.keys[key].text }

// Ints returns an array of numbers or booleans by its whole key, or nil; one
// number alone is an array of one. Arrays of more than 1,024 are not kept.
func (h *Header) Ints(key string) []int64 { return h.keys[key].ints }

// facts fills the numbers from the metadata, with the defaults of
// llama_model::load_hparams.
func (h *Header) facts() error {
	if h.keys["general.architecture"].text == "" && h.keys["split.no"].n == 0 {
		return fmt.Errorf("metadata general.architecture is missing: it is no model")
	}
	h.Arch, h.Name = h.Text("general.architecture"), h.Text("general.name")
	f := &facts{h: h}
	h.FileType = f.num("general.file_type", -1, maxFact)
	h.Split = Split{No: f.num("split.no", 0, math.MaxUint16), Count: f.num("split.count", 0, math.MaxUint16)}

	h.Layers = f.arch("block_count", 0, maxLayers)
	h.Embd = f.arch("embedding_length", 0, maxFact)
	h.Context = f.arch("context_length", 0, math.MaxInt32)
	h.Heads = f.perLayer("attention.head_count", nil)
	h.KVHeads = f.perLayer("attention.head_count_kv", h.Heads)
	h.FF = f.perLayer("feed_forward_length", nil)
	head := 0
	if h.Layers > 0 && h.Heads[0] > 0 {
		head = h.Embd / h.Heads[0]
	}
	h.KeyLength = f.arch("attention.key_length", head, maxFact)
	h.ValueLength = f.arch("attention.value_length", head, maxFact)
	h.RopeDim = f.arch("rope.dimension_count", h.KeyLength, maxFact)
	h.KeyLengthSWA = f.arch("attention.key_length_swa", h.KeyLength, maxFact)
	h.ValueLenSWA = f.arch("attention.value_length_swa", h.ValueLength, maxFact)
	h.Window = f.arch("attention.sliding_window", 0, math.MaxInt32)

	h.Experts = f.arch("expert_count", 0, maxFact)
	h.ExpertsUsed = f.arch("expert_used_count", 0, maxFact)
	h.ExpertsShared = f.arch("expert_shared_count", 0, maxFact)
	h.ExpertFF = f.arch("expert_feed_forward_length", 0, maxFact)
	h.DenseLead = f.arch("leading_dense_block_count", 0, maxFact)
	h.KVRank = f.arch("attention.kv_lora_rank", 0, maxFact)
	h.QRank = f.arch("attention.q_lora_rank", 0, maxFact)
	h.KeyLengthMLA = f.arch("attention.key_length_mla", 0, maxFact)
	h.ValueLengthMLA = f.arch("attention.value_length_mla", 0, maxFact)

	h.Vocab = f.arch("vocab_size", 0, math.MaxInt32)
	if v := h.keys["tokenizer.ggml.tokens"]; v.array {
		h.Vocab = int(min(v.n, math.MaxInt32))
	}
	return f.err
}

// facts collects the first thing that is wrong with the metadata.
type facts struct {
	h   *Header
	err error
}

func (f *facts) arch(key string, missing, most int) int {
	return f.num(f.h.Arch+"."+key, missing, most)
}

func (f *facts) num(key string, missing, most int) int {
	v, ok := f.h.keys[key]
	if !ok {
		return missing
	}
	// Some keys stand once or once for each layer; the first serves where one
	// number is wanted and all are the same.
	if len(v.ints) == 0 {
		f.wrong(key, "it is not a whole number")
		return missing
	}
	for _, n := range v.ints {
		if n != v.ints[0] {
			f.wrong(key, "it differs between layers, which no model known here has")
			return missing
		}
	}
	return f.bound(key, v.ints[0], most)
}

func (f *facts) bound(key string, n int64, most int) int {
	if n < 0 || n > int64(most) {
		f.wrong(key, fmt.Sprintf("%d is not from 0 to %d", n, most))
		return 0
	}
	return int(n)
}

func (f *facts) wrong(key, what string) {
	if f.err == nil {
		f.err = fmt.Errorf("metadata %s: %s", key, what)
	}
}

// perLayer returns one number for each layer from a number or an array.
func (f *facts) perLayer(key string, missing []int) []int {
	key = f.h.Arch + "." + key
	list := make([]int, f.h.Layers)
	v, ok := f.h.keys[key]
	switch {
	case !ok:
		copy(list, missing)
	case !v.array && len(v.ints) == 1:
		n := f.bound(key, v.ints[0], maxFact)
		for i := range list {
			list[i] = n
		}
	case v.array && len(v.ints) >= f.h.Layers:
		for i := range list {
			list[i] = f.bound(key, v.ints[i], maxFact)
		}
	default:
		f.wrong(key, fmt.Sprintf("%d numbers for %d layers", len(v.ints), f.h.Layers))
	}
	return list
}
