package gguf

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// tiny is a model with everything in it: GQA, two layers, rows of two blocks.
var tiny = Model{Layers: 2, Embd: 64, Heads: 4, KVHeads: 2, FF: 128, Context: 512, Type: F16, Seed: 7}

func with(m Model, change func(*Model)) Model {
	change(&m)
	return m
}

func TestGolden(t *testing.T) {
	// The bytes are a promise: a report names a model by its digest. They are
	// the same on every machine (checked on amd64 and 386, whose compilers
	// share no floating-point code).
	for name, tc := range map[string]struct {
		model Model
		want  Info
	}{
		"f16":  {tiny, Info{Bytes: 249056, SHA256: "1d89a8a6a9a292bb9403fdd2b6326eb05341c8986245d202ffa86daf60d2e48e", Tensors: 21}},
		"q8_0": {with(tiny, func(m *Model) { m.Type, m.Seed = Q8_0, 1<<63 }), Info{Bytes: 137536, SHA256: "1d0fcad002c1069943caf089b90f1b51f7da1351d010e74b572be2372e46b1db", Tensors: 21}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.model.Write(t.Context(), io.Discard, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Model)
		want   string
	}{
		"no layers":       {func(m *Model) { m.Layers = 0 }, "layers is 0, it must be from 1 to 512"},
		"too many layers": {func(m *Model) { m.Layers = 513 }, "layers is 513"},
		"negative embd":   {func(m *Model) { m.Embd = -64 }, "embd is -64"},
		"no context":      {func(m *Model) { m.Context = 0 }, "context is 0"},
		"no heads":        {func(m *Model) { m.Heads = 0 }, "heads is 0"},
		"embd % heads":    {func(m *Model) { m.Heads = 3 }, "embd 64 is not a multiple of heads 3"},
		"heads % kv":      {func(m *Model) { m.KVHeads = 3 }, "heads 4 is not a multiple of kv heads 3"},
		"odd head":        {func(m *Model) { m.HeadDim = 17 }, "head dim 17 is odd"},
		"negative head":   {func(m *Model) { m.HeadDim = -2 }, "head dim is -2"},
		"f16 rows":        {func(m *Model) { m.FF = 100 }, "blk.0.ffn_down.weight would have rows of 100 elements"},
		"q8 rows":         {func(m *Model) { m.Type, m.Embd = Q8_0, 48 }, "token_embd.weight would have rows of 48 elements"},
		"head rows":       {func(m *Model) { m.HeadDim = 18 }, "blk.0.attn_output.weight would have rows of 72 elements"},
		"type":            {func(m *Model) { m.Type = 12 }, "type Q4_K cannot be written"},
		"one tensor": {
			func(m *Model) { m.Embd, m.FF = math.MaxInt32&^63, math.MaxInt32&^31 },
			"more than a file can hold",
		},
		"all tensors": {
			func(m *Model) { m.Layers, m.FF, m.Embd = 512, 1<<30, 1<<29 },
			"more than a file can hold",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := with(tiny, tc.change)
			err := m.Validate()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if _, err := m.Write(t.Context(), io.Discard, nil); err == nil {
				t.Error("Write wrote what Validate refuses")
			}
		})
	}
}

func TestParseType(t *testing.T) {
	for _, typ := range []Type{F16, Q8_0} {
		text, err := typ.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Type
		if err := back.UnmarshalText(text); err != nil || back != typ {
			t.Errorf("%s came back as %s, %v", typ, back, err)
		}
	}
	if _, err := ParseType("q4_K"); err == nil {
		t.Error("q4_K was taken")
	}
}

func TestUnitShift(t *testing.T) {
	for n := uint64(1); n < 1<<20; n = n*5/4 + 1 {
		a := math.Ldexp(1, -unitShift(n))
		limit := math.Sqrt(3 / float64(n))
		if n >= 3 && (a > limit || 2*a <= limit) {
			t.Errorf("n %d: 2^-k is %g, want the largest power of two up to %g", n, a, limit)
		}
	}
}

// failing fails once n bytes have been written.
type failing struct{ n int }

var errFull = errors.New("disk is full")

func (f *failing) Write(b []byte) (int, error) {
	if len(b) > f.n {
		return f.n, errFull
	}
	f.n -= len(b)
	return len(b), nil
}
