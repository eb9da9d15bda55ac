package run

import (
	"bytes"
	"strings"
	"sync"
)

// Lines passes on each line that is written to it. It is safe for several writers.
type Lines struct {
	most int
	each func(line string)

	mu   sync.Mutex
	part []byte // the line that has no end yet; a full one was passed on
}

// NewLines returns a writer that calls each for every line, one after the other and without
// its end. Of a line that is longer than most bytes it passes on as many, as soon as it has
// them, and drops the others: however much a program prints, it takes no more memory.
func NewLines(most int, each func(line string)) *Lines { return &Lines{most: most, each: each} }

// Write takes the next bytes; it never fails.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(p) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		passed := len(l.part) == l.most
		l.part = append(l.part, text[:min(len(text), l.most-len(l.part))]...)
		if !passed && (whole || len(l.part) == l.most) {
			l.pass()
		}
		if whole {
			l.part = l.part[:0]
		}
	}
	return len(p), nil
}

func (l *Lines) pass() { l.each(strings.TrimRight(string(l.part), "\r")) }

// Flush passes on a line that was written without an end.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.part); n > 0 && n < l.most {
		l.pass()
	}
	l.part = l.part[:0]
}

// How much of the output an error keeps: enough for a compiler's message, and
// never more, however much a program prints.
const (
	tailLines = 20
	tailWidth = 500 // bytes of a line
)

// tail keeps the last lines that were written to it.
type tail struct {
	*Lines
	last []string
}

func newTail() *tail {
	t := &tail{}
	t.Lines = NewLines(tailWidth, func(line string) {
		t.last = append(t.last[max(0, len(t.last)+1-tailLines):], strings.ToValidUTF8(line, "?"))
	})
	return t
}

func (t *tail) snapshot() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := append([]string(nil), t.last...)
	if n := len(t.part); n > 0 && n < t.most {
		out = append(out, strings.ToValidUTF8(string(t.part), "?"))
	}
	return out[max(0, len(out)-tailLines):]
}
