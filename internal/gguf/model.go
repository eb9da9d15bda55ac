// Package gguf writes small models with seeded weights and a byte vocabulary, so
// that a binary can be tried on any machine with no download, and reads the
// headers of any model. The same Model gives the same bytes everywhere.
package gguf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
)

// Model is the shape of a model. Layers, Embd, Heads, KVHeads, FF and Context must
// be set. It is a llama (with Experts: as Mixtral is), or with KVRank a deepseek2,
// whose attention is MLA.
type Model struct {
	Layers  int    `json:"layers"`
	Embd    int    `json:"embd"`     // width of the residual stream
	Heads   int    `json:"heads"`    // attention heads
	KVHeads int    `json:"kv_heads"` // heads of K and V; fewer than Heads is GQA; with KVRank it must be 1
	HeadDim int    `json:"head_dim"` // elements of a head; 0: Embd / Heads
	FF      int    `json:"ff"`       // width of the feed-forward layer, or of each expert
	Context int    `json:"context"`  // tokens the model says it was trained for
	Type    Type   `json:"type"`
	Seed    uint64 `json:"seed"`

	Experts       int `json:"experts,omitempty"`        // 0: a dense model
	ExpertsUsed   int `json:"experts_used,omitempty"`   // of them for each token
	ExpertsShared int `json:"experts_shared,omitempty"` // for every token; with KVRank only, and there at least 1
	DenseLead     int `json:"dense_lead,omitempty"`     // layers without experts at the start; with KVRank only

	KVRank   int `json:"kv_rank,omitempty"`   // width of the compressed K and V; 0: no MLA
	QRank    int `json:"q_rank,omitempty"`    // width of the compressed Q; 0: it is not compressed
	RopeDim  int `json:"rope_dim,omitempty"`  // the part of a head that rope turns; with KVRank only
	ValueDim int `json:"value_dim,omitempty"` // elements of a head of V; with KVRank only; 0: HeadDim - RopeDim
}

// presets are shapes with a name. They are small enough for any machine, but for
// the last, and have the head sizes that llama.cpp's kernels are made for.
var presets = []struct {
	name, about string
	model       Model
}{
	{"tiny", "2 layers of 2 heads of 64", Model{Layers: 2, Embd: 128, Heads: 2, KVHeads: 2, FF: 256, Context: 4096}},
	{"dense", "a head of K and V for each head", Model{
		Layers: 4, Embd: 512, Heads: 8, KVHeads: 8, FF: 1024,
		Context: 8192,
	}},
	{"gqa", "4 heads share one of K and V, heads of 128", Model{
		Layers: 4, Embd: 512, Heads: 8, KVHeads: 2, HeadDim: 128,
		FF: 1024, Context: 32768,
	}},
	{"head256", "heads of 256, as Gemma has them", Model{
		Layers: 4, Embd: 512, Heads: 4, KVHeads: 2, HeadDim: 256,
		FF: 1024, Context: 32768,
	}},
	{"moe", "8 experts of which 2 work, as in Mixtral", Model{
		Layers: 4, Embd: 256, Heads: 4, KVHeads: 2, FF: 256,
		Context: 32768, Experts: 8, ExpertsUsed: 2,
	}},
	{"mla", "compressed K and V of 512 + 64, as in DeepSeek", Model{
		Layers: 4, Embd: 256, Heads: 4, KVHeads: 1, HeadDim: 128, FF: 512, Context: 32768,
		KVRank: 512, QRank: 128, RopeDim: 64, ValueDim: 64,
	}},
	{"mla-moe", "the same with 8 experts and a shared one", Model{
		Layers: 4, Embd: 256, Heads: 4, KVHeads: 1, HeadDim: 128, FF: 256, Context: 32768,
		KVRank: 512, QRank: 128, RopeDim: 64, ValueDim: 64, Experts: 8, ExpertsUsed: 2, ExpertsShared: 1, DenseLead: 1,
	}},
	{"8b", "the shape of Llama 3 8B: 4 to 16 GB", Model{
		Layers: 32, Embd: 4096, Heads: 32, KVHeads: 8, FF: 14336,
		Context: 131072,
	}},
}

// Preset returns the shape of that name, as F16 with seed 0.
func Preset(name string) (Model, error) {
	for _, p := range presets {
		if p.name == name {
			p.model.Type = F16
			return p.model, nil
		}
	}
	var names []string
	for _, p := range Presets() {
		names = append(names, p[0])
	}
	return Model{}, &Impossible{Field: "preset", Value: name, Why: "there is no such shape", Nearest: names}
}

// Presets returns the name of each preset and a few words on it.
func Presets() [][2]string {
	list := make([][2]string, 0, len(presets))
	for _, p := range presets {
		list = append(list, [2]string{p.name, p.about})
	}
	return list
}

// Impossible is a shape that cannot be written, or that llama.cpp would not load.
type Impossible struct {
	Field   string // in the words of the JSON
	Value   string
	Why     string
	Nearest []string // values of the field that are possible, if there are any
}

// Error names the field, its value, the reason, and what is possible.
func (e *Impossible) Error() string {
	s := fmt.Sprintf("model: %s %s: %s", strings.ReplaceAll(e.Field, "_", " "), e.Value, e.Why)
	switch len(e.Nearest) {
	case 0:
		return s
	case 1:
		return s + "; possible: " + e.Nearest[0]
	}
	last := len(e.Nearest) - 1
	return s + "; possible: " + strings.Join(e.Nearest[:last], ", ") + " or " + e.Nearest[last]
}

// ExitCode is exit.Usage.
func (e *Impossible) ExitCode() int { return exit.Usage }

// impossible makes the error with numbers.
func impossible(field string, value int, why string, nearest ...int) *Impossible {
	e := &Impossible{Field: field, Value: fmt.Sprint(value), Why: why}
	slices.Sort(nearest)
	for _, n := range slices.Compact(nearest) {
		e.Nearest = append(e.Nearest, fmt.Sprint(n))
	}
	return e
}

// arch is general.architecture.
func (m Model) arch() string {
	if m.KVRank > 0 {
		return "deepseek2"
	}
	return "llama"
}

// HeadSize returns the elements of a head: HeadDim, or what Embd and Heads make of it.
func (m Model) HeadSize() int {
	if m.HeadDim == 0 && m.Heads > 0 {
		return m.Embd / m.Heads
	}
	return m.HeadDim
}

// valueDim returns the elements of a head of V.
func (m Model) valueDim() int {
	switch {
	case m.ValueDim > 0:
		return m.ValueDim
	case m.KVRank > 0:
		return m.HeadSize() - m.RopeDim
	}
	return m.HeadSize()
}

// denseLead returns the layers without experts at the start.
func (m Model) denseLead() int {
	if m.Experts == 0 {
		return m.Layers
	}
	return m.DenseLead
}

// Validate says whether the model can be written and llama.cpp can load it. What
// it returns is an *Impossible.
func (m Model) Validate() error {
	_, err := m.layout()
	return err
}

// Facts are what can be said of a model before it is written.
type Facts struct {
	Bytes   int64  `json:"bytes"` // of the file
	Tensors int    `json:"tensors"`
	Params  uint64 `json:"params"`
	// of llama.cpp's cache for one token, with K and V in that type; Q8_0 is 0
	// where llama.cpp refuses it, because a head has no multiple of 32 elements
	KVF16 int64 `json:"kv_bytes_per_token_f16"`
	KVQ8  int64 `json:"kv_bytes_per_token_q8_0"`
}

// Facts computes the facts; its error is an *Impossible.
func (m Model) Facts() (Facts, error) {
	list, err := m.layout()
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Bytes: m.size(list), Tensors: len(list)}
	for _, t := range list {
		f.Params += t.elems()
	}
	h := Header{
		Layers: m.Layers, KVHeads: slices.Repeat([]int{m.KVHeads}, m.Layers), KeyLength: m.HeadSize(),
		ValueLength: m.HeadSize(),
	}
	if m.KVRank > 0 {
		h.KeyLength, h.ValueLength = m.KVRank+m.RopeDim, m.KVRank
		h.KeyLengthMLA, h.ValueLengthMLA = m.HeadSize(), m.valueDim()
	}
	f.KVF16 = h.KVBytes(F16, F16)
	if h.KeyLength%q8Block == 0 && h.ValueLength%q8Block == 0 {
		f.KVQ8 = h.KVBytes(Q8_0, Q8_0)
	}
	return f, nil
}
