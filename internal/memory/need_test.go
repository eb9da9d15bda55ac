package memory

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/gguf"
)

func same(n, v int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestMLAScratch(t *testing.T) {
	if got := MLAScratch(64, 512, 128, 128); got != 34816 {
		t.Errorf("Kimi K2: %d", got)
	}
	if got := MLAScratch(128, 512, 128, 128); got != 67584 {
		t.Errorf("DeepSeek: %d", got)
	}
	// The same from a header, as llama.cpp's converter writes it and as older files have it.
	for name, h := range map[string]gguf.Header{
		"new": {
			Arch: "deepseek2", Layers: 61,
			Heads: same(61, 64), KVHeads: same(61, 1), KVRank: 512, KeyLength: 576, ValueLength: 512,
			KeyLengthMLA: 192, ValueLengthMLA: 128, RopeDim: 64,
		},
		"old": {
			Arch: "deepseek2", Layers: 61,
			Heads: same(61, 64), KVHeads: same(61, 64), KVRank: 512, KeyLength: 192, ValueLength: 128,
			RopeDim: 64,
		},
	} {
		n, err := Forecast(&h, NeedOptions{Ctx: 61440, KeyType: gguf.F16, ValueType: gguf.F16, GPULayers: -1, IK: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(n.Parts, func(p Part) bool { return p.Name == "MLA scratch" }) {
			t.Errorf("%s: no MLA scratch in %+v", name, n.Parts)
		}
		for _, p := range n.Parts {
			// At the crash of issue 687 n_kv was 61440: 1.99 GiB.
			if p.Name == "MLA scratch" && (p.PerToken != 34816 || math.Abs(float64(p.Bytes)/(1<<30)-1.99) > 0.01) {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}

// The rows of the simulation that the pool's waste was first computed with.
func TestLegacyWaste(t *testing.T) {
	for _, c := range []struct{ heads, dim, ub, tokens, need, stock int }{
		{8, 128, 512, 20480, 80, 1092},
		{2, 256, 128, 41000, 80, 1395},
		{8, 256, 256, 32768, 256, 4383},
	} {
		each := int64(2 * c.heads * c.dim)
		need := 2 * each * pad256(int64(c.tokens)) >> 20
		got := int64(math.Round(float64(legacyWaste(c.tokens, c.ub, each, each)) / (1 << 20)))
		if need != int64(c.need) || got != int64(c.stock) {
			t.Errorf("%+v: need %d MiB, held %d MiB", c, need, got)
		}
	}
	if f := float64(legacyWaste(1<<22, 512, 4096, 4096)) / float64(8192<<22); f < 15 || f > 22 {
		t.Errorf("%.1f times the need, the limit is about 21", f)
	}
}

// b8833 with the legacy pool on an H100: 2 layers, n_embd 4096, 32 heads of 128,
// 358 MiB of f16 weights, llama-bench -ub 512 (docs/memory.md).
func TestForecastMeasured(t *testing.T) {
	h := gguf.Header{
		Arch: "llama", Layers: 2, Embd: 4096, Vocab: 259, Heads: same(2, 32), KVHeads: same(2, 32),
		FF: same(2, 11008), KeyLength: 128, ValueLength: 128,
	}
	h.Tensors = []gguf.Tensor{
		{Name: "blk.0.a", Bytes: 179 << 20},
		{Name: "blk.1.a", Bytes: 179 << 20},
		{Name: "output.weight"},
	}
	for _, c := range []struct {
		kv     gguf.Type
		tokens int
		legacy bool
		mib    float64
	}{
		{gguf.F16, 20480, true, 1763},
		{gguf.Q8_0, 20480, true, 5527},
		{gguf.Q8_0, 65536, true, 19947},
		{gguf.Q8_0, 65536, false, 3487}, // trimmed: as good as no waste
	} {
		n, err := Forecast(&h, NeedOptions{Ctx: c.tokens, KeyType: c.kv, ValueType: c.kv, GPULayers: -1, Legacy: c.legacy})
		if err != nil {
			t.Fatal(err)
		}
		got := float64(n.Total) / (1 << 20)
		t.Logf("%v, %d tokens, legacy %v: %.0f MiB, measured %.0f (%+.1f %%)", c.kv, c.tokens, c.legacy, got, c.mib,
			100*(got/c.mib-1))
		if math.Abs(got/c.mib-1) > 0.12 {
			t.Errorf("%v, %d tokens: %.0f MiB, measured %.0f\n%+v", c.kv, c.tokens, got, c.mib, n.Parts)
		}
	}
}

func TestForecastCard(t *testing.T) {
	h := gguf.Header{
		Arch: "llama", Layers: 32, Embd: 4096, Vocab: 128256, Heads: same(32, 32), KVHeads: same(32, 8),
		FF: same(32, 14336), KeyLength: 128, ValueLength: 128, Context: 131072,
	}
	h.Tensors = []gguf.Tensor{
		{Name: "blk.0.w", Bytes: 5 << 30},
		{Name: "output.weight", Bytes: 400 << 20},
		{Name: "token_embd.weight", Bytes: 400 << 20},
	}
	o := NeedOptions{Ctx: 32768, KeyType: gguf.Q8_0, ValueType: gguf.Q8_0, GPULayers: -1, Card: 12 << 30, Legacy: true}
	n, err := Forecast(&h, o)
	if err != nil {
		t.Fatal(err)
	}
	at := func(ctx int) int64 {
		o.Ctx = ctx
		m, err := Forecast(&h, o)
		if err != nil {
			t.Fatal(err)
		}
		return m.Total
	}
	if at(n.Largest) > o.Card || at(n.Largest+256) <= o.Card {
		t.Errorf("largest %d: %d and %d of %d", n.Largest, at(n.Largest), at(n.Largest+256), o.Card)
	}
	// A context that starts and runs out on the way.
	o.Ctx = 65536
	n, err = Forecast(&h, o)
	if err != nil || n.Fits == nil || *n.Fits || n.RunsOut <= 0 || n.RunsOut >= 65536 || n.AtStart > o.Card {
		t.Errorf("%v: %+v", err, n)
	}
	// f16 needs no scratch at all.
	o.KeyType, o.ValueType = gguf.F16, gguf.F16
	if n, _ = Forecast(&h, o); n.PerToken != 131072+6*512 {
		t.Errorf("f16: %v a token", n.PerToken)
	}
	// Half of the layers on the card: half of the cache.
	o.GPULayers = 17
	if half, _ := Forecast(&h, o); half.Parts[0].Name == "KV cache" && half.Parts[0].Bytes*2 != n.Parts[1].Bytes {
		t.Errorf("%+v\n%+v", half.Parts, n.Parts)
	}
	for _, bad := range []NeedOptions{
		{},
		{Ctx: -1},
		{Ctx: MaxCtx + 1},
		{Ctx: 1, UBatch: -1},
		{Ctx: 1, UBatch: math.MaxInt},
		{Ctx: 1, UBatch: MaxCtx + 1},
		{Ctx: 1, Parallel: -1},
		{Ctx: 1, Parallel: MaxSlots + 1},
	} {
		if _, err := Forecast(&h, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	h.Tensors = nil
	if n, err := Forecast(&h, NeedOptions{Ctx: 1}); err != nil || len(n.Notes) != 1 ||
		!strings.Contains(n.Notes[0], "no weights") {
		t.Errorf("a vocabulary: %v, %q", err, n.Notes)
	}
	if _, err := Forecast(&gguf.Header{Arch: "llama"}, NeedOptions{Ctx: 1}); err == nil ||
		!strings.Contains(err.Error(), "vocabulary") {
		t.Errorf("a file without layers: %v", err)
	}
}

// The largest numbers that a header and the options may hold: every part is there
// and more than nothing, or it is an error.
func TestForecastHuge(t *testing.T) {
	const most = 1 << 24 // of gguf
	h := gguf.Header{
		Arch: "llama", Layers: 512, Embd: most, Vocab: math.MaxInt32, Heads: same(512, most), KVHeads: same(512, most),
		FF:        same(512, most),
		KeyLength: most, ValueLength: most, Window: math.MaxInt32, KVRank: most, RopeDim: most, ExpertsUsed: most,
		ExpertFF: most, Context: 4096,
	}
	h.Tensors = []gguf.Tensor{
		{Name: "blk.0.w", Bytes: math.MaxInt64 / 4},
		{Name: "blk.1.w", Bytes: math.MaxInt64 / 4},
		{Name: "blk.2.w", Bytes: math.MaxInt64 / 4},
		{Name: "output.weight", Bytes: math.MaxInt64 / 2},
	}
	small := gguf.Header{
		Arch: "llama", Layers: 2, Embd: 256, Vocab: 259, Heads: same(2, 4), KVHeads: same(2, 4),
		FF: same(2, 512), KeyLength: 64, ValueLength: 64,
	}
	for _, o := range []NeedOptions{
		{Ctx: 1},
		{Ctx: MaxCtx, UBatch: MaxCtx, Parallel: MaxSlots},
		{Ctx: MaxCtx, UBatch: MaxCtx, NoFlash: true},
		{Ctx: MaxCtx, UBatch: 1 << 20, Legacy: true, IK: true},
	} {
		o.KeyType, o.ValueType, o.GPULayers = gguf.Q8_0, gguf.Q8_0, -1
		if o.NoFlash {
			if _, err := Forecast(&small, o); err == nil || !strings.Contains(err.Error(), "without flash attention") {
				t.Errorf("a V cache in Q8_0 without flash attention: %v", err)
			}
			o.ValueType = gguf.F16
		}
		light := h
		light.Tensors = nil
		for _, h := range []gguf.Header{h, light} {
			if n, err := Forecast(&h, o); err == nil || !strings.Contains(err.Error(), "2^63") {
				t.Errorf("%+v: %v, %+v", o, err, n.Parts)
			}
		}
		n, err := Forecast(&small, o)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		var sum int64
		names := ""
		for _, p := range n.Parts {
			sum += p.Bytes
			names += p.Name + ","
			if p.Bytes <= 0 || p.PerToken < 0 {
				t.Errorf("%+v: %+v", o, p)
			}
		}
		if sum != n.Total || !strings.Contains(names, "compute buffer") {
			t.Errorf("%+v: %s %d and %d", o, names, sum, n.Total)
		}
	}
}

func TestCacheTypes(t *testing.T) {
	for s, want := range map[string]string{"f16": "F16", "Q8_0": "Q8_0", "bf16": "BF16", "iq4_nl": "IQ4_NL"} {
		if got, err := ParseCacheType(s); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	if _, err := ParseCacheType("q6_K"); err == nil {
		t.Error("q6_K is no cache type")
	}
}
