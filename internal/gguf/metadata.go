package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// header returns everything before the data section, with its padding.
func (m Model) header(list []tensor) []byte {
	var kvs kvBuffer
	arch := m.arch()
	kvs.str("general.architecture", arch)
	kvs.str("general.name", fmt.Sprintf("llpatch seeded %s, seed %d", arch, m.Seed))
	kvs.num("general.alignment", alignment)
	kvs.num("general.file_type", m.Type.fileType())
	kvs.num("general.quantization_version", 2) // GGML_QNT_VERSION of ggml.h
	num := func(key string, n int) { kvs.num(arch+"."+key, uint32(n)) }
	num("context_length", m.Context)
	num("embedding_length", m.Embd)
	num("block_count", m.Layers)
	num("feed_forward_length", m.FF)
	num("attention.head_count", m.Heads)
	num("attention.head_count_kv", m.KVHeads)
	if m.KVRank == 0 {
		num("attention.key_length", m.HeadSize())
		num("attention.value_length", m.HeadSize())
		num("rope.dimension_count", m.HeadSize())
	} else {
		m.mla(num)
	}
	if m.Experts > 0 {
		num("expert_count", m.Experts)
		num("expert_used_count", m.ExpertsUsed)
	}
	kvs.float(arch+".attention.layer_norm_rms_epsilon", 1e-5)
	kvs.float(arch+".rope.freq_base", 10000)
	num("vocab_size", len(vocabulary))
	if m.KVRank > 0 {
		kvs.flag(arch+".expert_weights_norm", true)
		// ik_llama.cpp does not load a model without these two.
		kvs.float(arch+".expert_weights_scale", 1)
		kvs.float(arch+".rope.scaling.yarn_log_multiplier", 0)
	}

	kvs.tokenizer("llama", vocabulary)
	kvs.num("tokenizer.ggml.bos_token_id", BeginID)
	kvs.num("tokenizer.ggml.eos_token_id", EndID)
	kvs.num("tokenizer.ggml.unknown_token_id", unknownID)
	kvs.flag("tokenizer.ggml.add_bos_token", true)
	kvs.flag("tokenizer.ggml.add_eos_token", false)
	// Else a text comes back with a blank in front.
	kvs.flag("tokenizer.ggml.add_space_prefix", false)
	return kvs.head(list)
}

// head returns what stands before the data section, with its padding: the metadata that b
// holds, and the table of tensors.
func (b *kvBuffer) head(list []tensor) []byte {
	var out kvBuffer
	out.WriteString("GGUF")
	out.u32(3)
	out.u64(uint64(len(list)))
	out.u64(uint64(b.count))
	out.Write(b.Bytes())
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

// tokenizer adds a kind of tokenizer and its vocabulary.
func (b *kvBuffer) tokenizer(kind string, list []token) {
	b.str("tokenizer.ggml.model", kind)
	b.array("tokenizer.ggml.tokens", kvString, uint64(len(list)))
	for _, t := range list {
		b.text(t.text)
	}
	b.array("tokenizer.ggml.scores", kvFloat32, uint64(len(list)))
	for _, t := range list {
		b.u32(math.Float32bits(t.score))
	}
	b.array("tokenizer.ggml.token_type", kvInt32, uint64(len(list)))
	for _, t := range list {
		b.u32(uint32(t.typ))
	}
}

// mla adds what llama.cpp's deepseek2 reads beside a llama's keys. The lengths of
// K and V are those of the cache, where all heads share one compressed row; a
// model with no experts must give their numbers all the same.
func (m Model) mla(num func(string, int)) {
	num("attention.key_length", m.KVRank+m.RopeDim)
	num("attention.value_length", m.KVRank)
	num("attention.key_length_mla", m.HeadSize())
	num("attention.value_length_mla", m.valueDim())
	num("attention.kv_lora_rank", m.KVRank)
	num("attention.q_lora_rank", m.QRank)
	num("rope.dimension_count", m.RopeDim)
	num("leading_dense_block_count", m.denseLead())
	num("expert_feed_forward_length", m.FF)
	num("expert_shared_count", m.ExpertsShared)
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
