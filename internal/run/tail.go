package run

import (
	"bytes"
	"strings"
	"sync"
)

// How much of the output an error keeps: enough for a compiler's message, and
// never more, however much a program prints.
const (
	tailLines = 20
	tailWidth = 500 // bytes of a line
)

// tail keeps the last lines that were written to it. It is safe for several writers.
type tail struct {
	mu    sync.Mutex
	lines []string
	part  []byte // the line that has no end yet, cut to tailWidth
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	// Only the end of a large chunk can matter.
	if limit := 2 * tailLines * tailWidth; len(p) > limit {
		p = p[len(p)-limit:]
		t.part = t.part[:0]
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			t.grow(p)
			return n, nil
		}
		t.grow(p[:i])
		t.push(string(t.part))
		t.part = t.part[:0]
		p = p[i+1:]
	}
}

func (t *tail) grow(p []byte) {
	if room := tailWidth - len(t.part); room > 0 {
		t.part = append(t.part, p[:min(room, len(p))]...)
	}
}

func (t *tail) push(line string) {
	line = strings.ToValidUTF8(strings.TrimRight(line, "\r"), "?")
	if len(t.lines) == tailLines {
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:tailLines-1]
	}
	t.lines = append(t.lines, line)
}

func (t *tail) snapshot() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := append([]string(nil), t.lines...)
	if len(t.part) > 0 {
		out = append(out, strings.ToValidUTF8(string(t.part), "?"))
	}
	return out[max(0, len(out)-tailLines):]
}
