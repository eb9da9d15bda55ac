package memory

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/gguf"
)

// Trust is how far a part of a forecast can be relied on.
type Trust string

// The degrees of trust.
const (
	Measured Trust = "measured" // read from the file: it is so
	Formula  Trust = "formula"  // llama.cpp's own arithmetic, exact for the versions it is for
	Guess    Trust = "guess"    // an estimate; the next column says how rough
)

// NeedOptions are how a model is run: llama.cpp's own options.
type NeedOptions struct {
	Ctx       int       // -c, over all slots
	KeyType   gguf.Type // -ctk
	ValueType gguf.Type // -ctv
	UBatch    int       // -ub; 0: 512
	GPULayers int       // -ngl; negative: all
	Parallel  int       // -np; 0: one
	NoFlash   bool      // -fa off
	Flash     bool      // -fa on, which the dry run asks for; neither: auto
	Legacy    bool      // a build with GGML_CUDA_NO_VMM, or a system without virtual memory, such as Windows 7
	IK        bool      // ik_llama.cpp with -mla 3 -fa: its prompt path has scratch of its own
	Card      int64     // bytes; 0: not asked
}

// Part is one part of the need.
type Part struct {
	Name     string  `json:"name"`
	Bytes    int64   `json:"bytes"`     // with the whole context used
	PerToken float64 `json:"per_token"` // how much of it comes with each token of context
	When     string  `json:"when"`      // "start", or "prefill": taken while a prompt is read
	Trust    Trust   `json:"trust"`
	Why      string  `json:"why"`
}

// Need is what a model needs of one card.
type Need struct {
	Parts    []Part  `json:"parts"`
	Host     []Part  `json:"host,omitempty"` // what a dry run puts into the host's memory
	Total    int64   `json:"total"`
	AtStart  int64   `json:"at_start"`
	PerToken float64 `json:"per_token"` // bytes, all parts
	// the largest context that fits the card, in steps of 256; 0: none does, or no card
	Largest int      `json:"largest,omitempty"`
	RunsOut int      `json:"runs_out,omitempty"` // the token of a prefill at which the card runs out, where it starts
	Fits    *bool    `json:"fits,omitempty"`     // whether Ctx fits Card; nil: no card was named
	Notes   []string `json:"notes,omitempty"`
}

// ParseCacheType takes a name that -ctk takes, such as f16 or q8_0.
func ParseCacheType(s string) (gguf.Type, error) {
	// kv_cache_types of common/arg.cpp
	names := []string{"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"}
	for _, n := range names {
		if n != strings.ToLower(s) {
			continue
		}
		for t := range gguf.Type(64) {
			if t.Known() && strings.EqualFold(t.String(), n) {
				return t, nil
			}
		}
	}
	return 0, fmt.Errorf("cache type %q: there are %s", s, strings.Join(names, ", "))
}

// MLAScratch is what ik_llama.cpp takes for a token of context where a prompt is
// read with -mla 3 -fa: the copy of the compressed rows as floats, and the
// decompressed K and V of all heads in f16. 34,816 bytes for Kimi K2 (64, 512,
// 128, 128), 67,584 for DeepSeek (128 heads): issue 687 of ik_llama.cpp.
func MLAScratch(heads, rank, nope, value int) int64 {
	return 4*int64(rank) + 2*int64(heads)*int64(nope+value)
}

// MLAPart is the name of the Part that MLAScratch makes.
const MLAPart = "MLA scratch"

// filled is o with what a server takes where nothing is said; it refuses what no server is started with.
func (o NeedOptions) filled() (NeedOptions, error) {
	o.UBatch, o.Parallel = cmp.Or(o.UBatch, 512), cmp.Or(o.Parallel, 1)
	for _, n := range []struct {
		name     string
		is, most int
	}{
		{"a context of %d tokens", o.Ctx, MaxCtx},
		{"a ubatch of %d tokens", o.UBatch, MaxCtx},
		{"%d slots", o.Parallel, MaxSlots},
	} {
		if n.is < 1 || n.is > n.most {
			return o, fmt.Errorf(n.name+": it must be from 1 to %d", n.is, n.most)
		}
	}
	return o, nil
}

// Forecast computes what a model needs.
func Forecast(h *gguf.Header, o NeedOptions) (Need, error) {
	if kind := Companion(h); kind != "" {
		return companion(h, o, kind), nil
	}
	if !Compared(h) {
		return Need{}, &Unproven{Arch: h.Arch}
	}
	o, err := o.filled()
	if err != nil {
		return Need{}, err
	}
	if h.Layers < 1 || len(h.KVHeads) < h.Layers || len(h.Heads) < h.Layers {
		if len(h.Tensors) == 0 {
			return Need{}, errors.New("the file has no weights and says nothing of layers and heads: it is a vocabulary alone")
		}
		return Need{}, errors.New("the file says nothing of layers and heads: it is no model, or not its first part")
	}
	if o.NoFlash && !slices.Contains([]string{"F32", "F16", "BF16"}, o.ValueType.String()) {
		// llama_init_from_model: "V cache quantization requires flash_attn".
		return Need{}, fmt.Errorf("llama.cpp does not start with a V cache in %s and without flash attention: only f32, "+
			"f16 and bf16 go there", o.ValueType)
	}
	n := need(h, o)
	if n.Total == math.MaxInt64 {
		return Need{}, fmt.Errorf("by the file's numbers, %d tokens with a ubatch of %d need more than 2^63 bytes: the "+
			"file is damaged, or no card is meant", o.Ctx, o.UBatch)
	}
	if o.Card > 0 {
		fits := n.Total <= o.Card
		n.Fits = &fits
		n.Largest = largest(h, o)
		n.RunsOut = runsOut(h, o, n)
	}
	n.Notes = notes(h, o)
	return n, nil
}

// notes are what a file and a context say for themselves.
func notes(h *gguf.Header, o NeedOptions) (list []string) {
	if len(h.Tensors) == 0 {
		list = append(list, "the file has no weights (a vocabulary alone): the figures are without them")
	}
	if h.Missing > 0 {
		list = append(list, fmt.Sprintf("the file lacks %s of its weights: a broken download; the figures are those "+
			"of the whole model", FormatBytes(float64(h.Missing))))
	}
	if h.Context > 0 && o.Ctx > h.Context {
		list = append(list, fmt.Sprintf("the model was trained for %d tokens", h.Context))
	}
	return list
}

// MaxCtx is the largest context and ubatch that are computed, in tokens: no model
// comes near. MaxSlots is the most slots: LLAMA_MAX_SEQ of llama.cpp's src/llama-cparams.h.
const (
	MaxCtx   = 1 << 24
	MaxSlots = 256
)

// onCard reports whether a layer is on the card: the last ones are (llama_model::dev_layer).
func (o NeedOptions) onCard(layer, layers int) bool {
	return o.GPULayers < 0 || layer >= layers+1-o.GPULayers
}

// cells are those of the cache: each slot has its own, in steps of 256 (llama_context::llama_context).
func (o NeedOptions) cells() int64 {
	slots := int64(max(o.Parallel, 1))
	return times(pad256(pad256(int64(o.Ctx))/slots), slots)
}

func need(h *gguf.Header, o NeedOptions) Need {
	var n Need
	add := func(p Part) {
		if p.Bytes > 0 {
			n.Parts = append(n.Parts, p)
		}
	}
	add(weights(h, o))
	add(cache(h, o))
	add(scratch(h, o))
	if o.IK && h.KVRank > 0 {
		add(mla(h, o))
	}
	add(compute(h, o))
	add(driver())
	for _, p := range n.Parts {
		n.Total = plus(n.Total, p.Bytes)
		n.PerToken += p.PerToken
		if p.When == "start" {
			n.AtStart = plus(n.AtStart, p.Bytes)
		}
	}
	return n
}

// driver is what CUDA itself takes of a card.
func driver() Part {
	return Part{
		Name: "driver and libraries", Bytes: 500 << 20, When: "start", Trust: Guess,
		Why: "the CUDA context, kernels and cuBLAS: 300 to 700 MiB by card and driver (705 MiB on an H100 with compute " +
			"buffers of a small model); more where all kernels are loaded at the start (CUDA before 11.7, drivers before " +
			"515, Windows before CUDA 12.3): by how much was not measured",
	}
}

// weights are the tensors of the layers on the card. The token embedding stays on
// the host; a model without an output matrix uses it as one, on the card.
func weights(h *gguf.Header, o NeedOptions) Part {
	var sum, embd int64
	output := false
	for _, t := range h.Tensors {
		b := int64(t.Bytes)
		switch {
		case strings.HasPrefix(t.Name, "blk."):
			num, _, _ := strings.Cut(t.Name[4:], ".")
			if i, err := strconv.Atoi(num); err == nil && o.onCard(i, h.Layers) {
				sum = plus(sum, b)
			}
		case strings.HasPrefix(t.Name, "token_embd"):
			embd = plus(embd, b)
		default:
			if o.onCard(h.Layers, h.Layers) {
				sum = plus(sum, b)
				output = output || t.Name == "output.weight"
			}
		}
	}
	why := "the tensors of the layers on the card"
	if !output && o.onCard(h.Layers, h.Layers) {
		sum = plus(sum, embd)
		why += "; the embedding is the output matrix too"
	}
	return Part{Name: "weights", Bytes: sum, When: "start", Trust: Measured, Why: why}
}

// cache is the KV cache: every cell is reserved at the start, in every layer, for the architectures of compared.
func cache(h *gguf.Header, o NeedOptions) Part {
	p := Part{Name: "KV cache", When: "start", Trust: Formula, Why: fmt.Sprintf("K %s, V %s, every cell from the start",
		o.KeyType, o.ValueType)}
	var row int64
	for i := range h.Layers {
		if !o.onCard(i, h.Layers) {
			continue
		}
		k, v := h.KVElems(i)
		bk, _ := o.KeyType.Size(uint64(k))
		bv, _ := o.ValueType.Size(uint64(v))
		row = plus(row, int64(bk+bv))
	}
	p.Bytes, p.PerToken = times(row, o.cells()), float64(row)
	return p
}

// scratch is what flash attention takes while a prompt is read: f16 copies of a
// quantised K and V of one layer, used again by the next (launch_fattn of
// fattn-common.cuh; a single token needs none). Without flash attention it is the
// f16 copy of the scores of a ubatch.
func scratch(h *gguf.Header, o NeedOptions) Part {
	p := Part{Name: "attention scratch", When: "prefill", Trust: Formula}
	var k, v int64 // bytes a cell, of the largest layer
	for i := range h.Layers {
		if !o.onCard(i, h.Layers) {
			continue
		}
		if o.NoFlash {
			k = max(k, 2*int64(o.UBatch)*int64(h.Heads[i]))
			continue
		}
		nk, nv := h.KVElems(i)
		var bk, bv int64
		if o.KeyType != gguf.F16 {
			bk = 2 * nk
		}
		if o.ValueType != gguf.F16 && !h.MLA() {
			bv = 2 * nv
		}
		if bk+bv > k+v {
			k, v = bk, bv
		}
	}
	if k+v == 0 {
		return p
	}
	p.PerToken = float64(k + v)
	p.Bytes = times(k+v, pad256(int64(o.Ctx)))
	p.Why = fmt.Sprintf("f16 copies of K and V of one layer, %s a token; from b9489 reserved at the start",
		FormatBytes(p.PerToken))
	if o.NoFlash {
		p.Why = fmt.Sprintf("f16 scores of a ubatch, %s a token", FormatBytes(p.PerToken))
	}
	if o.Legacy {
		real := legacyWaste(o.Ctx, o.UBatch, k, v)
		p.Why += fmt.Sprintf("; the legacy pool keeps every buffer it has outgrown: %.1f times the need",
			float64(real)/float64(p.Bytes))
		p.PerToken *= float64(real) / float64(p.Bytes)
		p.Bytes = real
	}
	return p
}

func mla(h *gguf.Header, o NeedOptions) Part {
	key, value := cmp.Or(h.KeyLengthMLA, h.KeyLength), cmp.Or(h.ValueLengthMLA, h.ValueLength)
	per := MLAScratch(h.Heads[h.Layers-1], h.KVRank, max(0, key-h.RopeDim), value)
	return Part{
		Name: MLAPart, Bytes: times(per, pad256(int64(o.Ctx))), PerToken: float64(per), When: "prefill", Trust: Formula,
		Why: fmt.Sprintf("ik_llama.cpp, -mla 3 -fa: %d B a token outside what is reserved at the start; -amb 256 bounds it",
			per),
	}
}

// compute is the scheduler's buffer for one ubatch: the widest step of the graph,
// and the mask.
func compute(h *gguf.Header, o NeedOptions) Part {
	ub, cells := int64(o.UBatch), pad256(int64(o.Ctx))
	embd := int64(h.Embd)
	var heads, ff int64
	for i := range h.Layers {
		heads = max(heads, int64(h.Heads[i]))
		if i < len(h.FF) {
			ff = max(ff, int64(h.FF[i]))
		}
	}
	if h.ExpertsUsed > 0 {
		ff = max(ff, times(int64(h.ExpertsUsed), int64(cmp.Or(h.ExpertFF, int(ff)))))
	}
	mask := 6 * ub // f32, and f16 for flash attention
	per := mask
	step := times(4*ub, max(int64(h.Vocab)+embd, plus(times(3, ff), 2*embd)))
	if o.NoFlash {
		per = 4*ub + 4*ub*heads // the scores of all heads
	}
	return Part{
		Name: "compute buffer", Bytes: plus(step, times(per, cells)), PerToken: float64(per), When: "start", Trust: Guess,
		Why: "the widest step of a ubatch (logits or feed-forward) and the mask; within some 30 %",
	}
}

// largest is the largest context, in steps of 256, that fits the card.
func largest(h *gguf.Header, o NeedOptions) int {
	lo, hi := 0, MaxCtx/256/4
	for lo < hi {
		mid := (lo + hi + 1) / 2
		o.Ctx = mid * 256
		if need(h, o).Total <= o.Card {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo * 256
}

// runsOut is the token of a prefill at which a server that started runs out: what
// is reserved at the start is there, and the rest grows. 0 where it does not, or
// does not start.
func runsOut(h *gguf.Header, o NeedOptions, whole Need) int {
	if whole.AtStart > o.Card || whole.Total <= o.Card {
		return 0
	}
	lo, hi := 0, o.Ctx
	for lo < hi {
		mid := (lo + hi) / 2
		at := o
		at.Ctx = max(1, mid)
		sum := whole.AtStart
		for _, p := range need(h, at).Parts {
			if p.When == "prefill" {
				sum = plus(sum, p.Bytes)
			}
		}
		if sum > o.Card {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
