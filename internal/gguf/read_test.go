package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	parser "github.com/gpustack/gguf-parser-go"
)

// fileOf builds a header by hand.
type fileOf struct {
	kvs     kvBuffer
	table   kvBuffer
	tensors int
}

func (f *fileOf) arch(name string) *fileOf { f.kvs.str("general.architecture", name); return f }

func (f *fileOf) num(key string, v uint32) *fileOf { f.kvs.num(key, v); return f }

func (f *fileOf) nums(key string, v ...uint32) *fileOf {
	f.kvs.array(key, kvUint32, uint64(len(v)))
	for _, n := range v {
		f.kvs.u32(n)
	}
	return f
}

func (f *fileOf) tensor(name string, typ Type, offset uint64, dims ...uint64) *fileOf {
	f.tensors++
	f.table.text(name)
	f.table.u32(uint32(len(dims)))
	for _, d := range dims {
		f.table.u64(d)
	}
	f.table.u32(uint32(typ))
	f.table.u64(offset)
	return f
}

func (f *fileOf) bytes() []byte {
	var b kvBuffer
	b.WriteString("GGUF")
	b.u32(3)
	b.u64(uint64(f.tensors))
	b.u64(uint64(f.kvs.count))
	b.Write(f.kvs.Bytes())
	b.Write(f.table.Bytes())
	return b.Bytes()
}

func small() *fileOf { return new(fileOf).arch("llama").num("llama.block_count", 2) }

func headerOf(t *testing.T, b []byte) Header {
	t.Helper()
	h, err := ReadHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// params is the number of weights in all tensors.
func params(h Header) (n uint64) {
	for _, t := range h.Tensors {
		n += t.Elems
	}
	return n
}

func TestReadHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	info, err := WriteFile(t.Context(), path, tiny, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if h.Arch != "llama" || h.Layers != 2 || h.Embd != 64 || h.Context != 512 || h.Vocab != VocabSize() ||
		!slices.Equal(h.Heads, []int{4, 4}) || !slices.Equal(h.KVHeads, []int{2, 2}) ||
		!slices.Equal(h.FF, []int{128, 128}) ||
		h.KeyLength != 16 || h.ValueLength != 16 || h.RopeDim != 16 || h.FileType != 1 || h.FileBytes != info.Bytes ||
		h.Missing != 0 {
		t.Errorf("got %+v", h)
	}
	// K and V of 2 heads of 16 in 2 layers; Q8_0 has 34 bytes for 32 elements.
	if k, v := h.KVElems(1); k != 32 || v != 32 || h.KVBytes(F16, F16) != 256 || h.KVBytes(Q8_0, F16) != 2*(34+64) {
		t.Errorf("cache: %d, %d, %d, %d", k, v, h.KVBytes(F16, F16), h.KVBytes(Q8_0, F16))
	}
	// Every tensor as the independent reader has it.
	f, err := parser.ParseGGUFFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want []Tensor
	for _, ti := range f.TensorInfos {
		want = append(want, Tensor{
			Name: ti.Name, Type: Type(ti.Type), Dims: ti.Dimensions, Elems: ti.Elements(),
			Bytes: ti.Bytes(), Offset: ti.Offset,
		})
	}
	if d := cmp.Diff(want, h.Tensors); d != "" {
		t.Error(d)
	}
	if h.DataOffset != f.TensorDataStartOffset || params(h) != uint64(f.Metadata().Parameters) {
		t.Errorf("data at %d, want %d; %d parameters, want %d", h.DataOffset, f.TensorDataStartOffset, params(h),
			f.Metadata().Parameters)
	}
}

func TestTypeSizes(t *testing.T) {
	// Every type that both know has the independent reader's size.
	seen := 0
	for typ := range Type(len(kinds)) {
		trait, ok := parser.GGMLType(typ).Trait()
		if !ok || !typ.Known() {
			continue
		}
		seen++
		if per, size := typ.block(); per != trait.BlockSize || size != trait.TypeSize {
			t.Errorf("%s: %d in %d bytes, want %d in %d", typ, per, size, trait.BlockSize, trait.TypeSize)
		}
		text, err := typ.MarshalText()
		var back Type
		if err := errors.Join(err, back.UnmarshalText(text)); err != nil || back != typ {
			t.Errorf("%s came back as %s, %v", typ, back, err)
		}
	}
	if seen < 28 {
		t.Errorf("only %d types were compared", seen)
	}
	var far Type
	if err := far.UnmarshalText([]byte(Type(137).String())); err != nil || far != 137 {
		t.Errorf("Type(137) came back as %s, %v", far, err)
	}
}

func TestReadForeign(t *testing.T) {
	t.Run("layers that differ", func(t *testing.T) {
		h := headerOf(t, small().num("llama.embedding_length", 64).num("llama.attention.head_count", 4).
			nums("llama.attention.head_count_kv", 0, 2).nums("llama.feed_forward_length", 32, 64, 96).bytes())
		if !slices.Equal(h.KVHeads, []int{0, 2}) || !slices.Equal(h.FF, []int{32, 64}) || h.KVBytes(F16, F16) != 2*2*16*2 {
			t.Errorf("%v, %v, %d bytes", h.KVHeads, h.FF, h.KVBytes(F16, F16))
		}
	})
	t.Run("mla", func(t *testing.T) {
		h := headerOf(t, small().num("llama.attention.head_count", 8).num("llama.attention.head_count_kv", 1).
			num("llama.attention.key_length", 576).num("llama.attention.value_length", 512).
			num("llama.attention.key_length_mla", 192).num("llama.attention.value_length_mla", 128).bytes())
		if !h.MLA() || h.KVBytes(F16, F16) != 2*576*2 {
			t.Errorf("MLA %v, %d bytes", h.MLA(), h.KVBytes(F16, F16))
		}
	})
	t.Run("a type of the future", func(t *testing.T) {
		b := small().tensor("a", 200, 0, 64).tensor("b", F32, 96, 8).tensor("c", 201, 128, 8).bytes()
		b = append(b, make([]byte, int(align(uint64(len(b))))-len(b)+128+40)...)
		h := headerOf(t, b)
		if h.Tensors[0].Bytes != 96 || h.Tensors[2].Bytes != 40 || h.Missing != 0 {
			t.Errorf("%+v, missing %d", h.Tensors, h.Missing)
		}
	})
	t.Run("cut in the weights", func(t *testing.T) {
		b := small().tensor("a", F32, 0, 1000).bytes()
		if h := headerOf(t, b); h.Missing != h.DataOffset+4000-int64(len(b)) {
			t.Errorf("missing %d of a file of %d bytes", h.Missing, len(b))
		}
		h, err := ReadHeader(bytes.NewReader(b), -1)
		if err != nil || h.Missing != 0 || h.FileBytes != -1 {
			t.Errorf("of unknown size: %+v, %v", h, err)
		}
	})
	t.Run("a long template", func(t *testing.T) {
		f := small()
		f.kvs.str("tokenizer.chat_template", strings.Repeat("x", keepText+1))
		f.kvs.array("tokenizer.ggml.tokens", kvString, 3)
		for _, s := range []string{"a", "", "c"} {
			f.kvs.text(s)
		}
		h := headerOf(t, f.bytes())
		if h.Vocab != 3 || !h.Has("tokenizer.chat_template") || h.Text("tokenizer.chat_template") != "" {
			t.Errorf("%+v", h)
		}
	})
	t.Run("every kind of number", func(t *testing.T) {
		f := small()
		for typ, b := range map[uint32][]byte{
			kvUint8: {200}, kvInt8: {0xfe}, kvUint16: {1, 2}, kvInt16: {0xfe, 0xff}, kvInt32: {0xfe, 0xff, 0xff, 0xff},
			kvBool:   {7},
			kvUint64: {1, 0, 0, 0, 1, 0, 0, 0}, kvInt64: {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		} {
			f.kvs.key(fmt.Sprint("k", typ), typ)
			f.kvs.Write(b)
		}
		f.kvs.key("half", kvFloat64)
		f.kvs.Write([]byte{0, 0, 0, 0, 0, 0, 0xe0, 0x3f})
		h := headerOf(t, f.bytes())
		for typ, want := range map[uint32]int64{
			kvUint8: 200, kvInt8: -2, kvUint16: 513, kvInt16: -2, kvInt32: -2, kvBool: 1,
			kvUint64: 1<<32 + 1, kvInt64: -2,
		} {
			if got := h.Ints(fmt.Sprint("k", typ)); !slices.Equal(got, []int64{want}) {
				t.Errorf("type %d: %d, want %d", typ, got, want)
			}
		}
		if !h.Has("half") || h.Ints("half") != nil {
			t.Errorf("half is %d", h.Ints("half"))
		}
	})
}

func TestReadHostile(t *testing.T) {
	raw := func(change func(*fileOf)) []byte { f := small(); change(f); return f.bytes() }
	count := func(tensors, keys uint64) []byte {
		var b kvBuffer
		b.WriteString("GGUF")
		b.u32(3)
		b.u64(tensors)
		b.u64(keys)
		return b.Bytes()
	}
	version := func(v uint32) []byte {
		b := small().bytes()
		b[4], b[5], b[6], b[7] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		return b
	}
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"empty":       {nil, "no GGUF file"},
		"a program":   {[]byte("\x7fELF\x02\x01\x01"), `starts with "\x7fELF"`},
		"version 1":   {version(1), "GGUF version 1"},
		"version 4":   {version(4), "GGUF version 4"},
		"big-endian":  {version(3 << 24), "big-endian"},
		"tensors":     {count(1<<63, 1), "more than"},
		"keys":        {count(0, 1<<40), "more than"},
		"cut at once": {count(0, 3), "ends inside its header: at byte 24 it wants 8 more, and 0 are left"},
		"no arch":     {new(fileOf).num("x", 1).bytes(), "general.architecture is missing"},
		"a long key": {
			raw(func(f *fileOf) { f.num(strings.Repeat("k", maxName+1), 1) }),
			"metadata key 3 of 3 has a name of 257 bytes",
		},
		"twice":    {raw(func(f *fileOf) { f.num("x", 1).num("x", 2) }), `"x" stands there twice`},
		"text":     {raw(func(f *fileOf) { f.kvs.key("x", kvString); f.kvs.u64(1 << 62) }), "ends inside its header"},
		"array":    {raw(func(f *fileOf) { f.kvs.array("x", kvUint32, 1<<40) }), "more than a header can hold"},
		"texts":    {raw(func(f *fileOf) { f.kvs.array("x", kvString, 1<<60) }), "ends inside its header"},
		"nested":   {raw(func(f *fileOf) { f.kvs.array("x", kvArray, 1) }), "has type 9"},
		"type":     {raw(func(f *fileOf) { f.kvs.key("x", 99) }), "has type 99"},
		"align 0":  {raw(func(f *fileOf) { f.num("general.alignment", 0) }), "power of two"},
		"align 48": {raw(func(f *fileOf) { f.num("general.alignment", 48) }), "power of two"},
		"align []": {raw(func(f *fileOf) { f.nums("general.alignment") }), "power of two"},
		"layers": {
			new(fileOf).arch("llama").num("llama.block_count", 1<<31).bytes(),
			"llama.block_count: 2147483648 is not from 0 to 512",
		},
		"layers []": {new(fileOf).arch("llama").nums("llama.block_count").bytes(), "not a whole number"},
		"heads":     {raw(func(f *fileOf) { f.nums("llama.attention.head_count", 1) }), "1 numbers for 2 layers"},
		"head size": {raw(func(f *fileOf) { f.num("llama.attention.key_length", 1<<30) }), "is not from 0"},
		"varies":    {raw(func(f *fileOf) { f.nums("llama.attention.key_length", 1, 2) }), "differs between layers"},
		"dims":      {raw(func(f *fileOf) { f.tensor("t", F32, 0, 1, 1, 1, 1, 1) }), "5 dimensions"},
		"zero":      {raw(func(f *fileOf) { f.tensor("t", F32, 0, 0) }), "cannot be"},
		"overflow":  {raw(func(f *fileOf) { f.tensor("t", F32, 0, 1<<40, 1<<40) }), "cannot be"},
		"bytes":     {raw(func(f *fileOf) { f.tensor("t", F32, 0, 1<<62) }), "more than a file can hold"},
		"offset":    {raw(func(f *fileOf) { f.tensor("t", F32, 1<<63, 1) }), "more than a file can hold"},
		"rows":      {raw(func(f *fileOf) { f.tensor("t", Q8_0, 0, 48, 2) }), "rows of 48 elements"},
		"same name": {raw(func(f *fileOf) { f.tensor("t", F32, 0, 1).tensor("t", F32, 32, 1) }), `"t" stands there twice`},
		"overlap": {raw(func(f *fileOf) {
			f.tensor("t", F32, 0, 64).tensor("u", F32, 32, 1)
		}), `"t" and "u" lie over each other`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int64{int64(len(tc.file)), -1} {
				_, err := ReadHeader(bytes.NewReader(tc.file), size)
				if err == nil || size >= 0 && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("size %d: got %v, want %q", size, err, tc.want)
				}
			}
		})
	}
}

func TestReadCutAnywhere(t *testing.T) {
	var b bytes.Buffer
	if _, err := tiny.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	h := headerOf(t, b.Bytes())
	for n := range int(h.DataOffset) - alignment {
		for _, size := range []int64{int64(n), -1} {
			if _, err := ReadHeader(bytes.NewReader(b.Bytes()[:n]), size); err == nil {
				t.Fatalf("%d of %d bytes were taken for a whole header", n, h.DataOffset)
			}
		}
	}
	half := b.Bytes()[:b.Len()/2]
	if h := headerOf(t, half); h.Missing != int64(b.Len()-len(half)) {
		t.Errorf("half a file lacks %d, want %d", h.Missing, b.Len()-len(half))
	}
}

// endless is a stream that never ends: a device named as a model.
type endless struct{ head io.Reader }

func (e endless) Read(b []byte) (int, error) {
	if n, err := e.head.Read(b); err == nil {
		return n, nil
	}
	clear(b)
	return len(b), nil
}

func TestReadIsBounded(t *testing.T) {
	f := small()
	f.kvs.array("x", kvString, 1<<60) // of empty texts, for ever
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadHeader(endless{bytes.NewReader(f.bytes())}, -1)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "goes on past 128 MiB") {
		t.Errorf("got %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes", took)
	}
	if _, err := ReadHeader(strings.NewReader(""), 0); !errors.Is(err, ErrNotGGUF) ||
		!strings.Contains(err.Error(), "it is empty") {
		t.Errorf("an empty file: %v", err)
	}
	// A vocabulary alone has no weights, and no padding before them.
	h := Header{FileBytes: 100}
	if err := h.place(100); err != nil || h.Missing != 0 {
		t.Errorf("a vocabulary: %v, missing %d", err, h.Missing)
	}
	if _, err := ReadFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "no.gguf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestReadSplit(t *testing.T) {
	dir := t.TempDir()
	part := func(name string, f *fileOf) string {
		path := filepath.Join(dir, name)
		b := f.bytes()
		b = append(b, make([]byte, int(align(uint64(len(b))))-len(b)+32)...)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := part("m-00001-of-00002.gguf", small().num("split.no", 0).num("split.count", 2).tensor("a", F32, 0, 8))
	if _, err := ReadFile(first); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "part 2 of 2") {
		t.Errorf("the second is missing: %v", err)
	}
	second := part("m-00002-of-00002.gguf", new(fileOf).num("split.no", 1).num("split.count", 2).tensor("b", F32, 0, 8))
	h, err := ReadFile(first)
	if err != nil || len(h.Tensors) != 2 || params(h) != 16 || h.Layers != 2 || h.Missing != 0 {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := ReadFile(second); err == nil || !strings.Contains(err.Error(), "name the first") {
		t.Errorf("the second part: %v", err)
	}
}

func FuzzReadHeader(f *testing.F) {
	var b bytes.Buffer
	if _, err := tiny.Write(f.Context(), &b, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes()[:4<<10])
	f.Add(small().bytes())
	f.Add(small().num("llama.attention.head_count", 4).nums("llama.attention.head_count_kv", 1,
		2).num("general.alignment", 64).
		tensor("a", Q8_0, 0, 32, 2).tensor("b", 200, 128, 3).bytes())
	f.Add(new(fileOf).num("split.no", 1).num("split.count", 2).tensor("b", F32, 0, 8).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, size := range []int64{int64(len(b)), -1} {
			h, err := ReadHeader(bytes.NewReader(b), size)
			if err != nil {
				continue
			}
			// What is said of a file can be used without a further check.
			if len(h.Heads) != h.Layers || len(h.KVHeads) != h.Layers || len(h.FF) != h.Layers {
				t.Errorf("%d layers, with %d, %d and %d numbers", h.Layers, len(h.Heads), len(h.KVHeads), len(h.FF))
			}
			if n := h.KVBytes(F16, Q8_0); n < 0 || h.Missing < 0 || h.DataOffset < 24 {
				t.Errorf("cache %d, missing %d, data at %d", n, h.Missing, h.DataOffset)
			}
			for _, ti := range h.Tensors {
				if int64(ti.Offset+ti.Bytes) < 0 {
					t.Errorf("%+v ends nowhere", ti)
				}
			}
		}
	})
}
