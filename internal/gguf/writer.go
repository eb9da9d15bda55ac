package gguf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/llpatch/llpatch/internal/atomicfile"
)

// alignment is where tensors start: GGUF's default, also written as
// general.alignment.
const alignment = 32

// chunkElems is how many elements are made at once: 1 MiB of F16. It is a
// multiple of q8Block.
const chunkElems = 512 << 10

func align(n uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }

// Info says what was written.
type Info struct {
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"` // of the whole file, in hex
	Tensors int    `json:"tensors"`
}

// Progress is called with the bytes done so far and in all. It may be nil.
type Progress func(what string, done, total int64)

// WriteFile writes the model to path, which has the whole model or is as it
// was before.
func WriteFile(ctx context.Context, path string, m Model, progress Progress) (Info, error) {
	// Before a file is made: a model that cannot be needs no folder.
	if err := m.Validate(); err != nil {
		return Info{}, err
	}
	f, err := atomicfile.Create(path, 0o644)
	if err != nil {
		return Info{}, fmt.Errorf("write model %s: %w", path, err)
	}
	defer func() { _ = f.Cleanup() }() // does nothing once the file is in place
	info, err := m.Write(ctx, f, progress)
	if err != nil {
		return Info{}, fmt.Errorf("write model %s: %w", path, err)
	}
	if err := f.Commit(); err != nil {
		return Info{}, fmt.Errorf("write model %s: %w", path, err)
	}
	return info, nil
}

// Write writes the model to w as GGUF version 3. It holds a few MiB at a time,
// whatever the model's size; chunks are made on all cores and written in order.
func (m Model) Write(ctx context.Context, w io.Writer, progress Progress) (Info, error) {
	list, err := m.layout()
	if err != nil {
		return Info{}, err
	}
	head := m.header(list)
	last := list[len(list)-1]
	total := int64(len(head)) + int64(align(last.offset+last.size))

	workers := runtime.GOMAXPROCS(0)
	free := make(chan []byte, workers+1)
	for range workers + 1 {
		free <- make([]byte, 0, 2*chunkElems)
	}
	// A chunk's place in the file is its place in this queue; its bytes come
	// through its own channel when they are made.
	queue := make(chan chan []byte, workers+1)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(queue)
		tables := map[int]*halves{}
		for i := range list {
			t := &list[i]
			if t.typ == F16 && tables[t.shift] == nil {
				tables[t.shift] = newHalves(t.shift)
			}
			table := tables[t.shift]
			for from := uint64(0); from < t.elems(); from += chunkElems {
				var buf []byte
				select {
				case buf = <-free:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				made := make(chan []byte, 1)
				queue <- made // never full: it has room for every buffer
				go func() { made <- t.chunk(buf, table, from) }()
			}
		}
		return nil
	})

	info := Info{Tensors: len(list)}
	g.Go(func() error {
		sum := sha256.New()
		write := func(b []byte) error {
			sum.Write(b)
			n, err := w.Write(b)
			info.Bytes += int64(n)
			if err == nil && n < len(b) {
				err = io.ErrShortWrite
			}
			if err != nil {
				return fmt.Errorf("at byte %d of %d: %w", info.Bytes, total, err)
			}
			if progress != nil {
				progress("model", info.Bytes, total)
			}
			return nil
		}
		if err := write(head); err != nil {
			return err
		}
		for made := range queue {
			buf := <-made
			if err := write(buf); err != nil {
				return err
			}
			free <- buf
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		info.SHA256 = hex.EncodeToString(sum.Sum(nil))
		return nil
	})
	if err := g.Wait(); err != nil {
		return Info{}, err
	}
	return info, nil
}

// chunk makes chunkElems elements, or what is left of the tensor with its
// padding, and returns them in buf's memory.
func (t *tensor) chunk(buf []byte, table *halves, from uint64) []byte {
	per, size := t.typ.block()
	n := min(chunkElems, t.elems()-from)
	bytes := n / per * size
	if from+n == t.elems() {
		bytes = align(t.size) - from/per*size
	}
	if uint64(cap(buf)) < bytes {
		buf = make([]byte, bytes)
	}
	buf = buf[:bytes]

	zeros := uint64(0)
	if from < t.zeros {
		zeros = min(n, t.zeros-from)
	}
	// A block of zeros is zero bytes in every type.
	clear(buf[:zeros/per*size])
	clear(buf[n/per*size:])
	rest, start, count := buf[zeros/per*size:], from+zeros, n-zeros
	switch t.typ {
	case F16:
		fillF16(rest, table, t.seed, start, count)
	case Q8_0:
		fillQ8(rest, t.shift, t.seed, start, count)
	default:
		fillNorm(rest, t.seed, start, count)
	}
	return buf
}

// header returns everything before the data section, with its padding.
func (m Model) header(list []tensor) []byte {
	var kvs, out kvBuffer
	kvs.str("general.architecture", "llama")
	kvs.str("general.name", fmt.Sprintf("llpatch seeded llama, seed %d", m.Seed))
	kvs.num("general.alignment", alignment)
	kvs.num("general.file_type", m.Type.fileType())
	kvs.num("general.quantization_version", 2) // GGML_QNT_VERSION of ggml.h
	kvs.num("llama.context_length", uint32(m.Context))
	kvs.num("llama.embedding_length", uint32(m.Embd))
	kvs.num("llama.block_count", uint32(m.Layers))
	kvs.num("llama.feed_forward_length", uint32(m.FF))
	kvs.num("llama.attention.head_count", uint32(m.Heads))
	kvs.num("llama.attention.head_count_kv", uint32(m.KVHeads))
	kvs.num("llama.attention.key_length", uint32(m.headDim()))
	kvs.num("llama.attention.value_length", uint32(m.headDim()))
	kvs.num("llama.rope.dimension_count", uint32(m.headDim()))
	kvs.float("llama.attention.layer_norm_rms_epsilon", 1e-5)
	kvs.float("llama.rope.freq_base", 10000)
	kvs.num("llama.vocab_size", uint32(len(vocabulary)))

	kvs.str("tokenizer.ggml.model", "llama")
	kvs.array("tokenizer.ggml.tokens", kvString, uint64(len(vocabulary)))
	for _, t := range vocabulary {
		kvs.text(t.text)
	}
	kvs.array("tokenizer.ggml.scores", kvFloat32, uint64(len(vocabulary)))
	for _, t := range vocabulary {
		kvs.u32(math.Float32bits(t.score))
	}
	kvs.array("tokenizer.ggml.token_type", kvInt32, uint64(len(vocabulary)))
	for _, t := range vocabulary {
		kvs.u32(uint32(t.typ))
	}
	kvs.num("tokenizer.ggml.bos_token_id", BeginID)
	kvs.num("tokenizer.ggml.eos_token_id", EndID)
	kvs.num("tokenizer.ggml.unknown_token_id", unknownID)
	kvs.flag("tokenizer.ggml.add_bos_token", true)
	kvs.flag("tokenizer.ggml.add_eos_token", false)
	// Else a text comes back with a blank in front.
	kvs.flag("tokenizer.ggml.add_space_prefix", false)

	out.WriteString("GGUF")
	out.u32(3)
	out.u64(uint64(len(list)))
	out.u64(uint64(kvs.count))
	out.Write(kvs.Bytes())
	for _, t := range list {
		out.text(t.name)
		out.u32(uint32(len(t.dims)))
		for _, d := range t.dims {
			out.u64(d)
		}
		out.u32(uint32(t.typ))
		out.u64(t.offset)
	}
	out.Write(make([]byte, align(uint64(out.Len()))-uint64(out.Len())))
	return out.Bytes()
}

// kvBuffer appends in GGUF's little-endian encoding and counts the keys.
type kvBuffer struct {
	bytes.Buffer
	count int
}

func (b *kvBuffer) u32(v uint32) { b.Write(binary.LittleEndian.AppendUint32(nil, v)) }
func (b *kvBuffer) u64(v uint64) { b.Write(binary.LittleEndian.AppendUint64(nil, v)) }

func (b *kvBuffer) text(s string) {
	b.u64(uint64(len(s)))
	b.WriteString(s)
}

func (b *kvBuffer) key(name string, typ uint32) {
	b.count++
	b.text(name)
	b.u32(typ)
}

func (b *kvBuffer) str(name, v string) {
	b.key(name, kvString)
	b.text(v)
}

func (b *kvBuffer) num(name string, v uint32) {
	b.key(name, kvUint32)
	b.u32(v)
}

func (b *kvBuffer) float(name string, v float32) {
	b.key(name, kvFloat32)
	b.u32(math.Float32bits(v))
}

func (b *kvBuffer) flag(name string, v bool) {
	b.key(name, kvBool)
	if v {
		b.WriteByte(1)
	} else {
		b.WriteByte(0)
	}
}

func (b *kvBuffer) array(name string, typ uint32, n uint64) {
	b.key(name, kvArray)
	b.u32(typ)
	b.u64(n)
}
