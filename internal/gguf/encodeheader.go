package gguf

import "fmt"

// Entry is one key of the metadata with its value: a string, an int (written as 32 bits
// without sign), a float32, a bool, or a slice of string, int (32 bits with sign) or bool.
type Entry struct {
	Key   string
	Value any
}

// EncodeHeader returns the header of a GGUF file that says so, up to where its tensors'
// data would begin. It is for the checks of what reads foreign files: nothing is looked at
// but the types of the values, and any other type is an error. Of a tensor it takes Name,
// Type, Dims and Offset.
func EncodeHeader(meta []Entry, tensors []Tensor) ([]byte, error) {
	var b kvBuffer
	for _, e := range meta {
		switch v := e.Value.(type) {
		case string:
			b.str(e.Key, v)
		case int:
			b.num(e.Key, uint32(v))
		case float32:
			b.float(e.Key, v)
		case bool:
			b.flag(e.Key, v)
		case []string:
			b.array(e.Key, kvString, uint64(len(v)))
			for _, s := range v {
				b.text(s)
			}
		case []int:
			b.array(e.Key, kvInt32, uint64(len(v)))
			for _, n := range v {
				b.u32(uint32(int32(n)))
			}
		case []bool:
			b.array(e.Key, kvBool, uint64(len(v)))
			for _, on := range v {
				b.WriteByte(map[bool]byte{true: 1}[on])
			}
		default:
			return nil, fmt.Errorf("metadata %s: a %T cannot be written", e.Key, v)
		}
	}
	var list []tensor
	for _, t := range tensors {
		list = append(list, tensor{name: t.Name, dims: t.Dims, typ: t.Type, offset: t.Offset})
	}
	return b.head(list), nil
}
