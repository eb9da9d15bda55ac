package memory

import (
	"slices"
	"sync"
	"testing"
)

func TestTally(t *testing.T) {
	var tally Tally
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				tally.Tokens.Add(2)
				tally.Requests.Add(1)
				tally.Note("again")
			}
		})
	}
	all.Wait()
	tally.Note("once")
	tally.Note("again")
	if got := tally.Progress(); got != (Progress{Tokens: 1600, Requests: 800}) {
		t.Errorf("%+v", got)
	}
	if got := tally.Notes(); !slices.Equal(got, []string{"again", "once"}) {
		t.Errorf("%q", got)
	}
}
