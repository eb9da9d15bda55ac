package gguf

import (
	"strings"
	"testing"
)

func TestPrompt(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 2, 3, 64, 1000, 65536} {
		for seed := range uint64(20) {
			p := Prompt(n, seed)
			if got := len(Encode(p)); got != max(n, 0) {
				t.Fatalf("%d tokens of seed %d: %d", n, seed, got)
			}
			if strings.TrimSpace(p) != p {
				t.Errorf("%d tokens of seed %d end in space: %q", n, seed, p[max(0, len(p)-20):])
			}
		}
	}
	p := Prompt(65536, 1)
	for n := 1; n < 3000; n += 7 {
		if short := Prompt(n, 1); short[:n-1] != p[:n-1] {
			t.Fatalf("the text of %d tokens is no beginning of the longer one", n)
		}
	}
	if p != Prompt(65536, 1) || p == Prompt(65536, 2) {
		t.Error("the text must follow from the seed")
	}
	// Varied: most words are there, and no line stands twice.
	words, lines := map[string]bool{}, map[string]bool{}
	for w := range strings.FieldsSeq(p) {
		words[strings.ToLower(strings.Trim(w, ".,?!"))] = true
	}
	for l := range strings.Lines(p) {
		if lines[l] {
			t.Errorf("twice: %s", l)
		}
		lines[l] = true
	}
	if len(words) < len(promptWords)*9/10 || len(lines) < 100 {
		t.Errorf("%d words in %d lines", len(words), len(lines))
	}
	const want = "Snow not, 704 yes, strong, together are milk soldier, become" // the first 60 bytes for seed 1
	if got := p[:60]; got != want {
		t.Errorf("it starts with %q, want %q", got, want)
	}
}
