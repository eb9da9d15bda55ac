package run_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

// However the bytes come, the lines are the same, and one without an end takes no more than
// its limit.
func TestLines(t *testing.T) {
	const text = "one\r\n\n12345678\n123456789 and more\ntwo\nno end"
	want := []string{"one", "", "12345678", "12345678", "two", "no end"}
	for size := 1; size <= len(text); size++ {
		var got []string
		l := run.NewLines(8, func(line string) { got = append(got, line) })
		for part := range slices.Chunk([]byte(text), size) {
			if n, err := l.Write(part); n != len(part) || err != nil {
				t.Fatalf("%d bytes of %d, %v", n, len(part), err)
			}
		}
		if want := want[:5]; !slices.Equal(got, want) {
			t.Errorf("by %d: %q, want %q", size, got, want)
		}
		for range 2 {
			l.Flush()
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %d, at the end: %q, want %q", size, got, want)
		}
	}
	var got []string
	l := run.NewLines(8, func(line string) { got = append(got, line) })
	for range 1000 {
		_, _ = l.Write([]byte(strings.Repeat("y", 1<<10)))
	}
	l.Flush()
	_, _ = l.Write([]byte("next\n"))
	if want := []string{"yyyyyyyy", "next"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
