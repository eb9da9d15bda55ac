package gguf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	parser "github.com/gpustack/gguf-parser-go"
)

// write returns the model's file, written and read back by another reader.
func write(t *testing.T, m Model) (string, Info, *parser.GGUFFile) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	info, err := WriteFile(t.Context(), path, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseGGUFFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, info, f
}

func TestReadBack(t *testing.T) {
	models := shapes(t)
	// Several chunks to a tensor, with zeros that end inside a chunk.
	models["large"] = Model{Layers: 1, Embd: 3072, Heads: 24, KVHeads: 8, FF: 1024, Context: 131072, Type: Q8_0, Seed: 3}
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			path, info, f := write(t, m)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(data)
			if want := (Info{
				Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:]),
				Tensors: int(f.Header.TensorCount),
			}); info != want {
				t.Errorf("info is %+v, the file has %+v", info, want)
			}
			if f.Header.Version != 3 {
				t.Errorf("version %d", f.Header.Version)
			}
			arch := f.Architecture()
			got := Model{
				Layers: int(arch.BlockCount), Embd: int(arch.EmbeddingLength), Heads: int(arch.AttentionHeadCount),
				KVHeads: int(arch.AttentionHeadCountKV), HeadDim: int(arch.AttentionKeyLength),
				FF: int(arch.FeedForwardLength[0]), Context: int(arch.MaximumContextLength), Type: m.Type, Seed: m.Seed,
				Experts: int(arch.ExpertCount), ExpertsUsed: int(arch.ExpertUsedCount), ExpertsShared: int(arch.ExpertSharedCount),
				// Not among what the other reader knows.
				DenseLead: m.DenseLead,
			}
			want := with(m, func(m *Model) { m.HeadDim = m.HeadSize() })
			name := "llama"
			if m.KVRank > 0 {
				name = "deepseek2"
				if got.HeadDim != m.KVRank+m.RopeDim || int(arch.AttentionValueLength) != m.KVRank ||
					int(arch.RoPEDimensionCount) != m.RopeDim {
					t.Errorf("cache of %d and %d, rope %d", got.HeadDim, arch.AttentionValueLength, arch.RoPEDimensionCount)
				}
				got.HeadDim, got.KVRank, got.QRank, got.RopeDim, got.ValueDim = m.HeadDim, m.KVRank, m.QRank, m.RopeDim, m.ValueDim
			}
			if d := cmp.Diff(want, got); d != "" || arch.Architecture != name {
				t.Errorf("a %s; model (-wrote +read):\n%s", arch.Architecture, d)
			}
			tok := f.Tokenizer()
			if tok.Model != "llama" || tok.TokensLength != uint64(VocabSize()) || tok.BOSTokenID != BeginID ||
				tok.EOSTokenID != EndID {
				t.Errorf("tokenizer %+v", tok)
			}
			checkTensors(t, m, f, uint64(len(data)))
		})
	}
}

// checkTensors: each tensor starts where the one before ends, on 32 bytes, and the
// last ends with the file.
func checkTensors(t *testing.T, m Model, f *parser.GGUFFile, size uint64) {
	t.Helper()
	end := uint64(f.TensorDataStartOffset)
	for _, ti := range f.TensorInfos {
		at := uint64(f.TensorDataStartOffset) + ti.Offset
		if at != end || at%alignment != 0 {
			t.Errorf("%s at %d, want %d", ti.Name, at, end)
		}
		end = align(at + ti.Bytes())
		typ := parser.GGMLType(m.Type)
		if strings.HasSuffix(ti.Name, "norm.weight") || strings.Contains(ti.Name, "ffn_gate_inp") {
			typ = parser.GGMLTypeF32
		}
		if ti.Type != typ {
			t.Errorf("%s is %s, want %s", ti.Name, ti.Type, typ)
		}
	}
	if end != size {
		t.Errorf("tensors end at %d of %d bytes", end, size)
	}
}

// tensorData returns the bytes of each tensor.
func tensorData(t *testing.T, m Model) map[string][]byte {
	t.Helper()
	path, _, f := write(t, m)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, ti := range f.TensorInfos {
		all[ti.Name] = data[uint64(f.TensorDataStartOffset)+ti.Offset:][:ti.Bytes()]
	}
	return all
}

func TestWeights(t *testing.T) {
	one := tensorData(t, tiny)
	more := tensorData(t, with(tiny, func(m *Model) { m.Layers = 3 }))
	other := tensorData(t, with(tiny, func(m *Model) { m.Seed++ }))
	list, err := tiny.layout()
	if err != nil {
		t.Fatal(err)
	}
	scales := map[string]int{}
	for _, ts := range list {
		scales[ts.name] = ts.scale
	}
	seen := map[string]string{}
	for name, b := range one {
		if !bytes.Equal(b, more[name]) {
			t.Errorf("%s changed with the number of layers", name)
		}
		if bytes.Equal(b, other[name]) {
			t.Errorf("%s is the same for another seed", name)
		}
		if twin := seen[string(b)]; twin != "" {
			t.Errorf("%s and %s are the same", name, twin)
		}
		seen[string(b)] = name
		if strings.HasSuffix(name, "norm.weight") {
			continue
		}
		// Mean near 0, and the mean square that the tensor's scale gives, within 5
		// standard errors of so many samples; the scales vary by block only.
		values := b
		if name == "output.weight" {
			if zeros := b[:firstText*tiny.Embd*2]; len(bytes.Trim(zeros, "\x00")) != 0 {
				t.Error("control and byte tokens have logits")
			}
			values = b[firstText*tiny.Embd*2:]
		}
		n, mean, square := float64(len(values)/2), 0.0, 0.0
		for i := 0; i < len(values); i += 2 {
			v := unhalf(uint16(values[i]) | uint16(values[i+1])<<8)
			mean += v / n
			square += v * v / n
		}
		want := meanSquare(scales[name])
		if math.Abs(mean) > 5*math.Sqrt(want/n) || math.Abs(square/want-1) > 5/math.Sqrt(n/32) {
			t.Errorf("%s: mean %g, mean square %g, want %g", name, mean, square, want)
		}
	}
}

func TestWriterErrors(t *testing.T) {
	big := Model{Layers: 2, Embd: 1024, Heads: 8, KVHeads: 8, FF: 4096, Context: 512, Type: F16, Seed: 1}
	for _, n := range []int{0, 100, 1 << 20, 5<<20 + 1} {
		if _, err := big.Write(t.Context(), &failing{n}, nil); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	short := writerFunc(func(b []byte) (int, error) { return len(b) / 2, nil })
	if _, err := big.Write(t.Context(), short, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a short write: %v", err)
	}

	// A cancel in the middle leaves nothing behind.
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := WriteFile(ctx, filepath.Join(dir, "m.gguf"), big, func(_ string, done, total int64) {
		if done > total/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	if _, err := WriteFile(t.Context(), filepath.Join(dir, "no", "m.gguf"), tiny, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
	// A model that cannot be written does not touch what is there.
	path := filepath.Join(dir, "old.gguf")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteFile(t.Context(), path, Model{}, nil); err == nil {
		t.Error("an empty model was written")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("the old file is now %q, %v", b, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestProgress(t *testing.T) {
	var done, total int64
	info, err := tiny.Write(t.Context(), io.Discard, func(_ string, d, all int64) {
		if d <= done || d > all {
			t.Errorf("progress from %d to %d of %d", done, d, all)
		}
		done, total = d, all
	})
	if err != nil || done != info.Bytes || total != info.Bytes {
		t.Errorf("ended at %d of %d, wrote %d, %v", done, total, info.Bytes, err)
	}
}

func TestEncode(t *testing.T) {
	id := func(s string) int {
		for i, v := range vocabulary {
			if v.text == s {
				return i
			}
		}
		t.Fatalf("no token %q", s)
		return 0
	}
	got := Encode("A é\n~<s>")
	want := []int{id("A"), id(space), id("<0xC3>"), id("<0xA9>"), id("<0x0A>"), id("~"), id("<"), id("s"), id(">")}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, typ := range writable {
		b.Run(typ.String(), func(b *testing.B) {
			m := Model{Layers: 2, Embd: 4096, Heads: 32, KVHeads: 8, FF: 14336, Context: 4096, Type: typ, Seed: 1}
			for b.Loop() {
				info, err := m.Write(b.Context(), io.Discard, nil)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(info.Bytes)
			}
		})
	}
}
