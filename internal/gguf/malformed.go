package gguf

import (
	"fmt"
	"maps"
	"slices"
)

// malformed are model files with one thing wrong: a field that is empty, a count or an index
// one beyond what there is, or one below. None is made to do more than to be refused.
var malformed = map[string]func() []byte{
	"empty key": func() []byte {
		var kvs kvBuffer
		kvs.str("", "")
		return kvs.head(nil)
	},
	"dimension of 0": func() []byte {
		var kvs kvBuffer
		kvs.str("general.architecture", "llama")
		return kvs.head([]tensor{{name: "a", dims: []uint64{32, 0}, typ: F32}})
	},
	"alignment of another type": func() []byte {
		var kvs kvBuffer
		kvs.str("general.alignment", "32")
		return kvs.head(nil)
	},
	// llama.cpp keeps 512. Gemma's layers have a window each, which no key fills.
	"one block too many": func() []byte {
		var kvs kvBuffer
		kvs.shape("gemma3", 513)
		kvs.num("gemma3.attention.sliding_window", 16)
		return kvs.head(nil)
	},
	"one vocoder block too many": vocoder,
	"special token after the last": func() []byte {
		var kvs kvBuffer
		kvs.shape("llama", 1)
		kvs.tokenizer("llama", vocabulary[:EndID]) // whose </s> is EndID where the model does not say
		return kvs.head(nil)
	},
	"byte token of -1": func() []byte {
		var kvs kvBuffer
		kvs.shape("llama", 1)
		kvs.tokenizer("plamo2", append(slices.Clone(vocabulary[:firstByte+1]), token{"<0x-1>", 0, tokenByte}))
		return kvs.head(nil)
	},
	// Its first number has four bytes.
	"charsmap of 3 bytes": func() []byte {
		var kvs kvBuffer
		kvs.shape("llama", 1)
		kvs.tokenizer("t5", vocabulary[:firstByte])
		kvs.array("tokenizer.ggml.precompiled_charsmap", kvUint8, 3)
		kvs.Write(make([]byte, 3))
		return kvs.head(nil)
	},
	// The text ends where the longer of the two would go on.
	"token with a NUL at its end": func() []byte {
		var kvs kvBuffer
		kvs.shape("llama", 1)
		kvs.tokenizer("rwkv", append(slices.Clone(vocabulary[:firstByte]), token{`\n`, 0, tokenNormal},
			token{`\n\x00`, 0, tokenNormal}))
		return kvs.head(nil)
	},
}

// Malformed returns the bytes of a small file with that one thing wrong, for the checks that
// a program refuses it. The name is one of MalformedNames.
func Malformed(name string) ([]byte, error) {
	make, ok := malformed[name]
	if !ok {
		return nil, fmt.Errorf("there is no malformed model %q", name)
	}
	return make(), nil
}

// MalformedNames returns what can be wrong, sorted.
func MalformedNames() []string { return slices.Sorted(maps.Keys(malformed)) }

// shape adds what llama.cpp asks of a model before it reads the vocabulary.
func (b *kvBuffer) shape(arch string, layers int) {
	b.str("general.architecture", arch)
	b.num(arch+".context_length", 64)
	b.num(arch+".embedding_length", 32)
	b.num(arch+".block_count", uint32(layers))
	b.float(arch+".attention.layer_norm_rms_epsilon", 1e-5)
}

// vocoder is one block of WavTokenizer's decoder that says it has two of its posnet. The
// tensors of the first are there, since they are looked for before the second's.
func vocoder() []byte {
	const arch, width = "wavtokenizer-dec", 32
	var kvs kvBuffer
	kvs.shape(arch, 1)
	kvs.num(arch+".features_length", width)
	kvs.num(arch+".embedding_length_out", width)
	kvs.num(arch+".vocab_size", 1)
	kvs.num(arch+".posnet.embedding_length", width)
	kvs.num(arch+".posnet.block_count", 2)
	kvs.num(arch+".convnext.embedding_length", width)
	kvs.num(arch+".convnext.block_count", 1)
	kvs.float(arch+".attention.layer_norm_epsilon", 1e-5)
	kvs.float(arch+".attention.group_norm_epsilon", 1e-5)
	kvs.num(arch+".attention.group_norm_groups", 1)
	kvs.str("tokenizer.ggml.model", "none")

	var list []tensor
	var offset uint64
	add := func(name string, dims ...uint64) {
		t := tensor{name: name, dims: dims, typ: F32, offset: offset}
		t.size = 4 * t.elems()
		offset = align(offset + t.size)
		list = append(list, t)
	}
	add("token_embd.weight", width, 1)
	add("conv1d.weight", 7, width, width)
	add("conv1d.bias", 1, width)
	for _, part := range []string{"1", "2"} {
		add("posnet.0.norm"+part+".weight", 1, width)
		add("posnet.0.norm"+part+".bias", 1, width)
		add("posnet.0.conv"+part+".weight", 3, width, width)
		add("posnet.0.conv"+part+".bias", 1, width)
	}
	return append(kvs.head(list), make([]byte, offset)...)
}
