package memory

import (
	"errors"
	"testing"

	"github.com/llpatch/llpatch/internal/gguf"
)

// straight lays out 1 MiB of weights, 100 bytes of cache a token and no more than 1,000 tokens of a window.
func straight(ctx int) (Layout, error) {
	cells := (ctx + 255) / 256 * 256
	return Layout{
		Cells: cells, Card: Place{Weights: 1 << 20, Context: int64(cells)*100 + int64(min(cells, 1000))*50, Compute: 4096},
		Host: Place{Weights: 7}, ScratchK: int64(cells) * 2, ScratchV: int64(cells) * 2, ScratchCells: int64(cells),
	}, nil
}

func TestLay(t *testing.T) {
	h := gguf.Header{Arch: "x", Context: 4096, Tensors: make([]gguf.Tensor, 1)}
	o := NeedOptions{Ctx: 8192, UBatch: 512, Card: 503 << 20}
	n, err := Lay(&h, o, straight)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]Part{}
	for _, p := range n.Parts {
		parts[p.Name] = p
	}
	for name, want := range map[string]int64{
		"weights": 1 << 20, "KV cache": 819200 + 50000, "compute buffer": 4096, "attention scratch": 4 * 8192,
	} {
		if parts[name].Bytes != want {
			t.Errorf("%s: %d, want %d", name, parts[name].Bytes, want)
		}
	}
	// A window is full: what comes with a token is the rest.
	if p := parts["KV cache"]; p.PerToken != 100 || p.Trust != DryRun || parts["attention scratch"].Trust != Formula {
		t.Errorf("%+v", p)
	}
	if len(n.Host) != 1 || n.Host[0].Bytes != 7 || len(n.Notes) != 1 {
		t.Errorf("%+v, %v", n.Host, n.Notes)
	}
	// 2 MiB less 4,096 and 50,000 bytes are left for 104 a token.
	if n.Fits == nil || !*n.Fits || n.Largest != (2<<20-4096-50000)/104/256*256 || n.RunsOut != 0 {
		t.Errorf("%v, %d, %d", *n.Fits, n.Largest, n.RunsOut)
	}
	// It starts, and a prompt does not fit.
	o.Card = n.AtStart + 4*1024
	if n, err = Lay(&h, o, straight); err != nil || *n.Fits || n.RunsOut < 1024 || n.RunsOut > 1025 {
		t.Errorf("%v: %v, %d", err, *n.Fits, n.RunsOut)
	}
	// Of a vocabulary alone the weights that llama.cpp makes are not told.
	n, err = Lay(&gguf.Header{Arch: "x"}, NeedOptions{Ctx: 8192, UBatch: 512}, straight)
	if err != nil || n.Parts[0].Name != "KV cache" || len(n.Host) != 0 || len(n.Notes) != 1 {
		t.Errorf("%v, %+v", err, n)
	}
	fail := errors.New("no")
	if _, err := Lay(&h, o, func(int) (Layout, error) { return Layout{}, fail }); !errors.Is(err, fail) {
		t.Errorf("%v", err)
	}
}
