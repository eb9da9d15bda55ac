package gguf

import (
	"fmt"
	"unicode/utf8"
)

// token types: llama_token_type of llama.cpp's include/llama.h.
const (
	tokenNormal  = 1
	tokenUnknown = 2
	tokenControl = 3
	tokenByte    = 6
)

// Ids of the special tokens, where SentencePiece's llama vocabulary has them.
const (
	unknownID = 0
	BeginID   = 1 // <s>, which llama.cpp puts before a prompt
	EndID     = 2 // </s>
)

// firstByte is the id of <0x00>; firstText that of the first printable token.
const (
	firstByte = 3
	firstText = firstByte + 256
)

// space is how SentencePiece spells a blank.
const space = "\u2581"

type token struct {
	text  string
	score float32
	typ   int32
}

// vocabulary has the special tokens, the 256 bytes and the printable characters
// of ASCII: any text becomes tokens, one for each printable character.
var vocabulary = makeVocabulary()

func makeVocabulary() []token {
	list := []token{
		{"<unk>", 0, tokenUnknown},
		{"<s>", 0, tokenControl},
		{"</s>", 0, tokenControl},
	}
	for b := range 256 {
		list = append(list, token{fmt.Sprintf("<0x%02X>", b), 0, tokenByte})
	}
	// Scores fall with the id, as in a trained vocabulary.
	text := func(s string) {
		list = append(list, token{s, -float32(len(list) - firstText), tokenNormal})
	}
	text(space)
	for c := '!'; c <= '~'; c++ {
		text(string(c))
	}
	return list
}

// VocabSize is the number of tokens of every model.
func VocabSize() int { return len(vocabulary) }

// Encode returns the tokens that llama.cpp must make of a text, without the
// leading <s>: one for each blank and printable ASCII character, and one for
// each byte of everything else. The character U+2581 is a blank to
// SentencePiece and comes back as one.
func Encode(text string) []int {
	ids := make([]int, 0, len(text))
	for i := 0; i < len(text); {
		c := text[i]
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == ' ' || r == '\u2581':
			ids = append(ids, firstText)
			i += n
		case c > ' ' && c <= '~':
			ids = append(ids, firstText+int(c-' '))
			i++
		default:
			ids = append(ids, firstByte+int(c))
			i++
		}
	}
	return ids
}

// Decode returns the text of tokens, in which a printable character may also
// stand as its byte. It is not ok where one of them is special or no token.
func Decode(ids []int) (text string, ok bool) {
	out := make([]byte, 0, len(ids))
	for _, id := range ids {
		switch {
		case id >= firstText && id < len(vocabulary):
			out = append(out, byte(' '+id-firstText))
		case id >= firstByte && id < firstText:
			out = append(out, byte(id-firstByte))
		default:
			return "", false
		}
	}
	return string(out), true
}
