package memory

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Tally is how far a workload has come and what it has to say. Its methods, and its
// counters, may be used by several goroutines at once; its zero value has nothing yet.
type Tally struct {
	Tokens   atomic.Int64
	Requests atomic.Int64

	mu    sync.Mutex
	notes []string
}

// Progress is what Options.Progress asks for.
func (t *Tally) Progress() Progress {
	return Progress{Tokens: t.Tokens.Load(), Requests: t.Requests.Load()}
}

// Note keeps a sentence, once.
func (t *Tally) Note(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.notes, s) {
		t.notes = append(t.notes, s)
	}
}

// Notes returns what was noted, in order.
func (t *Tally) Notes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.notes)
}
