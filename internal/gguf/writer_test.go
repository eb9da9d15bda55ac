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
	for name, m := range map[string]Model{
		"f16":      tiny,
		"q8_0":     with(tiny, func(m *Model) { m.Type = Q8_0 }),
		"head dim": with(tiny, func(m *Model) { m.HeadDim = 32 }),
		// Several chunks to a tensor, with zeros that end inside a chunk.
		"large": {Layers: 1, Embd: 3072, Heads: 24, KVHeads: 8, FF: 1024, Context: 131072, Type: Q8_0, Seed: 3},
	} {
		t.Run(name, func(t *testing.T) {
			path, info, f := write(t, m)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(data)
			if want := (Info{Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Tensors: 3 + 9*m.Layers}); info != want {
				t.Errorf("info is %+v, the file has %+v", info, want)
			}
			if f.Header.Version != 3 || int(f.Header.TensorCount) != info.Tensors {
				t.Errorf("version %d with %d tensors", f.Header.Version, f.Header.TensorCount)
			}
			arch := f.Architecture()
			got := Model{
				Layers: int(arch.BlockCount), Embd: int(arch.EmbeddingLength), Heads: int(arch.AttentionHeadCount),
				KVHeads: int(arch.AttentionHeadCountKV), HeadDim: int(arch.AttentionKeyLength),
				FF: int(arch.FeedForwardLength[0]), Context: int(arch.MaximumContextLength), Type: m.Type, Seed: m.Seed,
			}
			want := with(m, func(m *Model) { m.HeadDim = m.headDim() })
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("model (-wrote +read):\n%s", d)
			}
			tok := f.Tokenizer()
			if tok.Model != "llama" || tok.TokensLength != uint64(VocabSize()) || tok.BOSTokenID != BeginID || tok.EOSTokenID != EndID {
				t.Errorf("tokenizer %+v", tok)
			}
			// Each tensor starts where the one before ends, on 32 bytes, and
			// the last ends with the file.
			end := uint64(f.TensorDataStartOffset)
			for _, ti := range f.TensorInfos {
				at := uint64(f.TensorDataStartOffset) + ti.Offset
				if at != end || at%alignment != 0 {
					t.Errorf("%s at %d, want %d", ti.Name, at, end)
				}
				end = align(at + ti.Bytes())
				typ := parser.GGMLTypeF16
				switch {
				case strings.HasSuffix(ti.Name, "norm.weight"):
					typ = parser.GGMLTypeF32
				case m.Type == Q8_0:
					typ = parser.GGMLTypeQ8_0
				}
				if ti.Type != typ {
					t.Errorf("%s is %s, want %s", ti.Name, ti.Type, typ)
				}
			}
			if end != uint64(len(data)) {
				t.Errorf("tensors end at %d of %d bytes", end, len(data))
			}
		})
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
		// Uniform in [-a, a): mean near 0, variance a*a/3, within 5 standard
		// errors of so many samples.
		values := b
		if name == "output.weight" {
			if zeros := b[:firstText*tiny.Embd*2]; len(bytes.Trim(zeros, "\x00")) != 0 {
				t.Error("control and byte tokens have logits")
			}
			values = b[firstText*tiny.Embd*2:]
		}
		n, mean, square, top := float64(len(values)/2), 0.0, 0.0, 0.0
		for i := 0; i < len(values); i += 2 {
			v := unhalf(uint16(values[i]) | uint16(values[i+1])<<8)
			mean += v / n
			square += v * v / n
			top = max(top, math.Abs(v))
		}
		_, exp := math.Frexp(top * (1 - 1e-9))
		a := math.Ldexp(1, exp)
		if math.Abs(mean) > 5*a/math.Sqrt(3*n) || math.Abs(square/(a*a/3)-1) > 5/math.Sqrt(n) {
			t.Errorf("%s: mean %g, mean square %g, largest %g", name, mean, square, top)
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
	for _, typ := range []Type{F16, Q8_0} {
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
