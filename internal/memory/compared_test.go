package memory

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/gguf"
)

// encoded reads what EncodeHeader writes.
func encoded(t *testing.T, tensors []gguf.Tensor, meta ...gguf.Entry) gguf.Header {
	t.Helper()
	b, err := gguf.EncodeHeader(meta, tensors)
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.ReadHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Architectures whose layers differ, or that have no cache: each was told a figure that is wrong.
func TestForecastUnproven(t *testing.T) {
	for _, arch := range []string{
		"bert", "falcon-h1", "gemma2", "gemma3", "gemma3n", "gemma4", "gpt-oss", "jamba", "lfm2", "llama4", "mamba",
		"nomic-bert", "qwen35", "qwen3next", "rwkv7", "t5", "an-architecture-of-tomorrow",
	} {
		h := encoded(t, nil,
			gguf.Entry{Key: "general.architecture", Value: arch},
			gguf.Entry{Key: arch + ".block_count", Value: 64},
			gguf.Entry{Key: arch + ".embedding_length", Value: 5120},
			gguf.Entry{Key: arch + ".context_length", Value: 8192},
			gguf.Entry{Key: arch + ".attention.head_count", Value: 20})
		n, err := Forecast(&h, NeedOptions{Ctx: 4096, KeyType: gguf.F16, ValueType: gguf.F16, GPULayers: -1})
		if e, ok := errors.AsType[*Unproven](err); !ok || e.Arch != arch || exit.Code(err) != exit.NotRun ||
			!strings.Contains(exit.Hint(err), "--tag") {
			t.Errorf("%s: %v, %+v", arch, err, n)
		}
	}
	// Layers that predict further tokens: some tags load them, some leave them out.
	h := encoded(t, nil, gguf.Entry{Key: "general.architecture", Value: "deepseek2"},
		gguf.Entry{Key: "deepseek2.block_count", Value: 62}, gguf.Entry{Key: "deepseek2.nextn_predict_layers", Value: 1})
	if _, err := Forecast(&h, NeedOptions{Ctx: 4096}); exit.Code(err) != exit.NotRun {
		t.Errorf("deepseek2 with a layer for the next token: %v", err)
	}
}

// What goes with a model has weights and no context.
func TestForecastCompanion(t *testing.T) {
	weights := []gguf.Tensor{
		{Name: "v.blk.0.w", Type: gguf.F16, Dims: []uint64{1024, 1024}},
		{Name: "mm.0.weight", Type: gguf.F32, Dims: []uint64{1024, 512}, Offset: 2 << 20},
	}
	for kind, meta := range map[string][]gguf.Entry{
		"encoder": {{Key: "general.architecture", Value: "clip"}},
		"LoRA":    {{Key: "general.architecture", Value: "llama"}, {Key: "general.type", Value: "adapter"}},
	} {
		h := encoded(t, weights, meta...)
		n, err := Forecast(&h, NeedOptions{Card: 3 << 20})
		if err != nil || n.Total != 4<<20 || len(n.Parts) != 1 || n.Parts[0].Trust != Measured || n.Fits == nil || *n.Fits ||
			len(n.Notes) != 1 || !strings.Contains(n.Notes[0], kind) {
			t.Errorf("%s: %v, %+v", kind, err, n)
		}
	}
}

// The cells of slots: each has its own, in steps of 256.
func TestForecastSlots(t *testing.T) {
	for _, c := range []struct {
		ctx, slots int
		cells      int64
	}{{4096, 1, 4096}, {4000, 1, 4096}, {4096, 3, 4608}, {256, 256, 65536}} {
		if got := (NeedOptions{Ctx: c.ctx, Parallel: c.slots}).cells(); got != c.cells {
			t.Errorf("%+v: %d cells", c, got)
		}
	}
}

// What an H200 was seen to take of v0.5.0 (docs/evidence/2026-12-01-h200-v0.5.0-cuda13.txt):
// llama, a mixture of experts, and MLA.
func TestForecastOnCard(t *testing.T) {
	for _, c := range []struct {
		preset      string
		typ         gguf.Type
		layers      int
		weights, kv float64 // MiB, at 65,536 tokens; 4,096 take a sixteenth
	}{
		{"head256", gguf.Q4_0, 8, 13.63, 1024}, {"moe", gguf.Q4_0, 8, 7.74, 256}, {"mla-moe", gguf.Q8_0, 6, 12.83, 432},
	} {
		m, err := gguf.Preset(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		m.Type, m.Layers, m.Context = c.typ, c.layers, 131072
		path := filepath.Join(t.TempDir(), "m.gguf")
		if _, err := gguf.WriteFile(t.Context(), path, m, nil); err != nil {
			t.Fatal(err)
		}
		h, err := gguf.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for ctx, kv := range map[int]float64{65536: c.kv, 4096: c.kv / 16} {
			n, err := Forecast(&h, NeedOptions{Ctx: ctx, KeyType: gguf.F16, ValueType: gguf.F16, GPULayers: -1})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range n.Parts {
				got := float64(p.Bytes) / (1 << 20)
				if p.Name == "weights" && math.Abs(got-c.weights) > 0.05 || p.Name == "KV cache" && math.Abs(got-kv) > 0.05 {
					t.Errorf("%s at %d: %s %.2f MiB, measured were %.2f and %.2f", c.preset, ctx, p.Name, got, c.weights, kv)
				}
			}
		}
	}
}
