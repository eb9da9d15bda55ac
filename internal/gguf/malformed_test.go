package gguf

import (
	"bytes"
	"strings"
	"testing"
)

// Each is small, the same every time, and has what its name says and nothing else wrong that
// our own reader would see.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		err  string // of our reader
		fact func(Header) bool
	}{
		"empty key":                 {"has a name of 0 bytes", nil},
		"dimension of 0":            {`tensor "a" has [32] by 0 elements`, nil},
		"alignment of another type": {"alignment", nil},
		"one block too many":        {"block_count: 513 is not from 0 to 512", nil},
		"one vocoder block too many": {"", func(h Header) bool {
			return h.Layers == 1 && h.Ints("wavtokenizer-dec.posnet.block_count")[0] == 2 && h.Missing == 0
		}},
		"special token after the last": {"", func(h Header) bool {
			return h.Vocab == EndID && !h.Has("tokenizer.ggml.eos_token_id")
		}},
		"byte token of -1": {"", func(h Header) bool {
			return h.Text("tokenizer.ggml.model") == "plamo2" && h.Vocab == firstByte+2
		}},
		"charsmap of 3 bytes": {"", func(h Header) bool {
			return len(h.Ints("tokenizer.ggml.precompiled_charsmap")) == 3
		}},
		"token with a NUL at its end": {"", func(h Header) bool {
			return h.Text("tokenizer.ggml.model") == "rwkv" && h.Vocab == firstByte+2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, err := Malformed(name)
			again, _ := Malformed(name)
			if err != nil || !bytes.Equal(content, again) || len(content) > 128<<10 {
				t.Fatalf("%d bytes: %v", len(content), err)
			}
			h, err := ReadHeader(bytes.NewReader(content), int64(len(content)))
			switch {
			case want.err == "" && (err != nil || !want.fact(h)):
				t.Errorf("%+v: %v", h, err)
			case want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)):
				t.Errorf("%v", err)
			}
		})
	}
	if len(MalformedNames()) != 9 {
		t.Errorf("%q", MalformedNames())
	}
	if _, err := Malformed("nothing"); err == nil {
		t.Error("a model that is not there")
	}
}
