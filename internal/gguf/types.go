package gguf

import (
	"fmt"
	"math/bits"
	"strings"
)

// Type is how a tensor is stored: ggml_type of llama.cpp's ggml/include/ggml.h.
type Type uint32

// The types that a model can be written in, and F32, which norms have.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q8_0 Type = 8
)

// kinds has every type that llama.cpp v0.5.0 and the tags before it know, with
// the elements that it stores together and in how many bytes: the structs and
// static_asserts of ggml/src/ggml-common.h. Types that were removed have no name.
var kinds = [...]struct {
	name         string
	elems, bytes uint64
}{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", q4Block, q4Bytes}, 3: {"Q4_1", 32, 20},
	6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24}, 8: {"Q8_0", q8Block, q8Bytes}, 9: {"Q8_1", 32, 36},
	10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144}, 13: {"Q5_K", 256, 176},
	14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110},
	22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2},
	26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8}, 29: {"IQ1_M", 256, 56},
	30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
}

// Known reports whether the type's size is known here.
func (t Type) Known() bool { return t < Type(len(kinds)) && kinds[t].elems != 0 }

// Size returns the bytes that so many elements in a row take; a block that is
// begun counts whole. It is 0 for a type that is not Known, and false where the
// number does not fit 63 bits.
func (t Type) Size(elems uint64) (uint64, bool) {
	if !t.Known() {
		return 0, true
	}
	k := kinds[t]
	blocks := elems / k.elems
	if elems%k.elems != 0 {
		blocks++
	}
	hi, lo := bits.Mul64(blocks, k.bytes)
	return lo, hi == 0 && lo>>63 == 0
}

// ParseType takes the name of a type that a model can be written in, in either
// case, and returns the Type.
func ParseType(s string) (Type, error) {
	for _, t := range writable {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("model type %q: only f16, q8_0 and q4_0 can be written", s)
}

// writable has the types of a model's matrices.
var writable = []Type{F16, Q8_0, Q4_0}

// String returns the type's name as llama.cpp spells it in file names.
func (t Type) String() string {
	if t.Known() {
		return kinds[t].name
	}
	return fmt.Sprintf("Type(%d)", uint32(t))
}

// MarshalText gives the type its name in JSON.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *Type) UnmarshalText(b []byte) error {
	for i := range kinds {
		if Type(i).Known() && strings.EqualFold(string(b), kinds[i].name) {
			*t = Type(i)
			return nil
		}
	}
	var n uint32
	if _, err := fmt.Sscanf(string(b), "Type(%d)", &n); err != nil {
		return fmt.Errorf("tensor type %q is unknown", b)
	}
	*t = Type(n)
	return nil
}

// fileType is general.file_type: llama_ftype of llama.cpp's include/llama.h.
func (t Type) fileType() uint32 {
	switch t {
	case Q8_0:
		return 7
	case Q4_0:
		return 2
	}
	return 1
}

// block is how many elements the type stores together, and in how many bytes.
func (t Type) block() (elems, bytes uint64) { return kinds[t].elems, kinds[t].bytes }
