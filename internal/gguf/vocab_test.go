package gguf

import "testing"

func TestDecode(t *testing.T) {
	const text = "a b~\n\xff"
	if got, ok := Decode(Encode(text)); !ok || got != text {
		t.Errorf("%q, %v", got, ok)
	}
	// A byte's own token spells the character, too.
	if got, ok := Decode([]int{firstByte + 'x', firstText + 'x' - ' '}); !ok || got != "xx" {
		t.Errorf("%q, %v", got, ok)
	}
	for _, id := range []int{-1, unknownID, BeginID, EndID, VocabSize()} {
		if got, ok := Decode([]int{id}); ok {
			t.Errorf("token %d is %q", id, got)
		}
	}
}
