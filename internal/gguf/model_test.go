package gguf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	kept "github.com/llpatch/llpatch/internal/golden"
)

// tiny is a model with everything in it: GQA, two layers, rows of two blocks.
var tiny = Model{Layers: 2, Embd: 64, Heads: 4, KVHeads: 2, FF: 128, Context: 512, Type: F16, Seed: 7}

func with(m Model, change func(*Model)) Model {
	change(&m)
	return m
}

// shapes are small models of every shape and type, by name.
func shapes(t *testing.T) map[string]Model {
	t.Helper()
	all := map[string]Model{}
	for _, typ := range writable {
		all["plain "+typ.String()] = with(tiny, func(m *Model) { m.Type = typ })
		for _, p := range Presets() {
			if p[0] == "8b" {
				continue
			}
			m, err := Preset(p[0])
			if err != nil {
				t.Fatal(err)
			}
			m.Type, m.Layers, m.Seed = typ, 2, 1<<63
			all[p[0]+" "+typ.String()] = m
		}
		// MLA with an uncompressed Q, and every layer with experts.
		m := with(all["mla-moe "+typ.String()], func(m *Model) { m.QRank, m.DenseLead, m.ExpertsShared = 0, 0, 2 })
		all["mla, plain q "+typ.String()] = m
	}
	return all
}

// The bytes are a promise: a report names a model by its digest. They are the
// same on every machine (checked on amd64 and 386, whose compilers share no
// floating-point code).
func TestGolden(t *testing.T) {
	var got strings.Builder
	models := shapes(t)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		info, err := models[name].Write(t.Context(), io.Discard, nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s: %d bytes, %d tensors, sha256 %s\n", name, info.Bytes, info.Tensors, info.SHA256)
	}
	kept.Check(t, "testdata/models.golden", got.String())
}

// possible sets the field of an Impossible to a value that it calls possible.
func possible(t *testing.T, m Model, e *Impossible, value string) Model {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	fields[e.Field] = json.Number(value)
	if e.Field == "type" {
		fields[e.Field] = value
	}
	if data, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	var changed Model
	if err := json.Unmarshal(data, &changed); err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestInvalid(t *testing.T) {
	mla := shapes(t)["mla-moe F16"]
	for name, tc := range map[string]struct {
		from   Model
		change func(*Model)
		want   string
	}{
		"no layers":       {tiny, func(m *Model) { m.Layers = 0 }, "layers 0: it must be from 1 to 512; possible: 1"},
		"too many layers": {tiny, func(m *Model) { m.Layers = 513 }, "layers 513: it must be from 1 to 512; possible: 512"},
		"negative embd":   {tiny, func(m *Model) { m.Embd = -64 }, "embd -64: it must be"},
		"no context":      {tiny, func(m *Model) { m.Context = 0 }, "context 0: it must be"},
		"no heads":        {tiny, func(m *Model) { m.Heads = 0 }, "heads 0: it must be"},
		"embd % heads": {tiny, func(m *Model) {
			m.Heads, m.KVHeads = 3, 1
		}, "heads 3: embd 64 is not a multiple of it, so the head dim must be given; possible: 2 or 4"},
		"heads % kv": {tiny, func(m *Model) {
			m.KVHeads = 3
		}, "kv heads 3: heads 4 is not a multiple of it; possible: 2 or 4"},
		"kv > heads": {tiny, func(m *Model) { m.KVHeads = 8 }, "kv heads 8: heads 4 is not a multiple of it; possible: 4"},
		"odd head": {tiny, func(m *Model) {
			m.HeadDim = 17
		}, "head dim 17: rope turns pairs of elements; possible: 16 or 18"},
		"negative head": {tiny, func(m *Model) { m.HeadDim = -2 }, "head dim -2: it must be"},
		"huge head": {tiny, func(m *Model) {
			m.HeadDim = 1 << 23
		}, "head dim 8388608: 4 heads would have more than 16777216 elements; possible: 4194304"},
		"f16 rows": {tiny, func(m *Model) {
			m.FF = 100
		}, "ff 100: blk.0.ffn_down would have rows of 100 elements, and they must be a multiple of 32, a block of Q8_0 " +
			"and Q4_0; possible: 96 or 128"},
		"q8 rows": {tiny, func(m *Model) {
			m.Type, m.Embd, m.HeadDim = Q8_0, 48, 16
		}, "embd 48: token_embd would have rows of 48 elements"},
		"head rows": {tiny, func(m *Model) {
			m.HeadDim = 18
		}, "heads 4: blk.0.attn_output would have rows of 72 elements, and they must be a multiple of 32, a block of Q8_0 " +
			"and Q4_0; possible: 16"},
		"type": {tiny, func(m *Model) { m.Type = 12 }, "type Q4_K: it cannot be written; possible: F16, Q8_0 or Q4_0"},
		"all tensors": {
			tiny, func(m *Model) {
				m.Layers, m.FF, m.Embd, m.HeadDim, m.Experts, m.ExpertsUsed = 512, 1<<24, 1<<24, 16, 512, 1
			},
			"more than a file can hold",
		},
		"too many experts": {tiny, func(m *Model) {
			m.Experts, m.ExpertsUsed = 513, 2
		}, "experts 513: it must be from 0 to 512"},
		"none works": {tiny, func(m *Model) {
			m.Experts = 4
		}, "experts used 0: of 4 experts at least one works, and not more than there are; possible: 1"},
		"more than all":  {tiny, func(m *Model) { m.Experts, m.ExpertsUsed = 4, 5 }, "possible: 4"},
		"used of none":   {tiny, func(m *Model) { m.ExpertsUsed = 1 }, "there are no experts; possible: 0"},
		"shared of none": {tiny, func(m *Model) { m.ExpertsShared = 1 }, "there are no experts; possible: 0"},
		"shared": {tiny, func(m *Model) {
			m.Experts, m.ExpertsUsed, m.ExpertsShared = 4, 2, 1
		}, "only a model with a kv rank (MLA) has it; possible: 0"},
		"rope dim": {tiny, func(m *Model) {
			m.RopeDim = 16
		}, "only a model with a kv rank (MLA) has it; possible: 0"},
		"mla heads": {mla, func(m *Model) {
			m.KVHeads = 4
		}, "with MLA all heads share one compressed K; possible: 1"},
		"mla rope": {mla, func(m *Model) { m.RopeDim = 0 }, "rope dim 0: rope turns pairs of elements; possible: 2"},
		"mla rope is all": {mla, func(m *Model) {
			m.RopeDim = 128
		}, "the part beside rope's 128 must be a multiple of 32; possible: 160"},
		"mla head": {mla, func(m *Model) {
			m.HeadDim = 100
		}, "head dim 100: the part beside rope's 64 must be a multiple of 32; possible: 96 or 128"},
		"mla kv rank": {mla, func(m *Model) {
			m.KVRank = 100
		}, "kv rank 100: blk.0.attn_v_b would have rows of 100 elements"},
		"mla huge rank": {mla, func(m *Model) { m.KVRank = 1 << 24 }, "more than 16777216 elements; possible: 16777152"},
		"mla q rank": {mla, func(m *Model) {
			m.QRank = 33
		}, "q rank 33: blk.0.attn_q_b would have rows of 33 elements"},
		"mla value": {mla, func(m *Model) {
			m.ValueDim = 12
		}, "heads 4: blk.0.attn_output would have rows of 48 elements"},
		"mla lite": {mla, func(m *Model) {
			m.Layers = 27
		}, "layers 27: llama.cpp takes a deepseek2 of 26 or 27 layers for one without a q rank; possible: 25 or 28"},
		"mla no shared": {mla, func(m *Model) {
			m.ExpertsShared = 0
		}, "experts shared 0: a deepseek2 with experts has a shared one; possible: 1"},
		"mla all dense": {mla, func(m *Model) { m.DenseLead = 3 }, "dense lead 3: there are 2 layers; possible: 2"},
		"mla shared rows": {mla, func(m *Model) {
			m.FF, m.ExpertsShared = 24, 4
		}, "ff 24: blk.0.ffn_down would have rows of 24 elements"},
		"mla wide shared": {mla, func(m *Model) {
			m.FF, m.ExpertsShared = 1<<20, 17
		}, "experts shared 17: together they would be wider than 16777216; possible: 16"},
		"mla negative rank": {mla, func(m *Model) { m.KVRank = -1 }, "kv rank -1: it must be"},
	} {
		t.Run(name, func(t *testing.T) {
			m := with(tc.from, tc.change)
			err := m.Validate()
			var e *Impossible
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if _, err := m.Write(t.Context(), io.Discard, nil); err == nil {
				t.Error("Write wrote what Validate refuses")
			}
			// What is called possible must be, where this was all that was wrong.
			for _, value := range e.Nearest {
				err := possible(t, m, e, value).Validate()
				var still *Impossible
				if errors.As(err, &still) && still.Field == e.Field && name != "mla negative rank" && name != "negative embd" {
					t.Errorf("%s %s is not possible either: %v", e.Field, value, err)
				}
			}
		})
	}
}

// Every model that is not refused can be written, is as large as was said, and is
// read back as what it is.
func TestRandomShapes(t *testing.T) {
	written := 0
	for i := range uint64(1500) {
		n := uint64(0)
		pick := func(of ...int) int { n++; return of[word(i, n)%uint64(len(of))] }
		m := Model{
			Layers: pick(1, 2, 3), Embd: pick(32, 48, 64, 96), Heads: pick(1, 2, 3, 4, 8), KVHeads: pick(1, 1, 2, 4),
			HeadDim: pick(0, 0, 16, 32, 64, 6),
			FF:      pick(32, 64, 100), Context: pick(1, 512), Type: writable[pick(0, 1, 2)], Seed: i,
			Experts: pick(0, 0, 1, 4),
		}
		if m.Experts > 0 {
			m.ExpertsUsed = pick(1, 1, 2)
		}
		if pick(0, 1) == 0 {
			m.KVRank, m.KVHeads, m.QRank, m.RopeDim, m.ValueDim = pick(32, 64, 100), pick(1, 1, 1, 2), pick(0, 32),
				pick(16, 32, 48), pick(0, 8, 32)
			m.HeadDim, m.DenseLead = pick(64, 80, 48), pick(0, 1)
			m.ExpertsShared = min(m.Experts, pick(0, 1, 2))
		}
		facts, err := m.Facts()
		if err != nil {
			var e *Impossible
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			continue
		}
		written++
		var b bytes.Buffer
		info, err := m.Write(t.Context(), &b, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := headerOf(t, b.Bytes())
		got := Facts{
			Bytes: h.FileBytes, Tensors: len(h.Tensors), Params: params(h), KVF16: h.KVBytes(F16, F16),
			KVQ8: facts.KVQ8,
		}
		if got != facts || h.Missing != 0 || info.Bytes != facts.Bytes || h.MLA() != (m.KVRank > 0) ||
			h.Experts != m.Experts {
			t.Errorf("%+v\nsaid %+v\nread %+v, missing %d", m, facts, got, h.Missing)
		}
	}
	if written < 60 {
		t.Errorf("only %d of the shapes are possible", written)
	}
}

func TestParseType(t *testing.T) {
	for _, typ := range writable {
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
