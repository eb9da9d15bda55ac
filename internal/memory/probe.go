package memory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reading is device memory at one time, in bytes, over all cards of a probe.
type Reading struct {
	Used   int64    // taken on the cards, by whomever
	Total  int64    // what the cards have
	Cards  int      // how many
	Own    int64    // taken by the watched processes, where HasOwn
	HasOwn bool     // the tool gives figures per process, and has some of ours
	Host   int64    // host memory that the device itself takes in the program: a simulated one's records
	Others []Holder // other programs on the cards, as far as they can be seen
	Notes  []string // what the tool could not tell; each is kept once
	// Absent says why there is no device to read yet, where nothing is taken of it
	// if it does come. Where it never does, VRAM is not known, and not nothing.
	Absent string
}

// Holder is a program that holds device memory.
type Holder struct {
	PID   int
	Bytes int64 // -1: not known
}

// Probe reads device memory about every so often and passes each reading on,
// until ctx ends. It returns why it ended before that: a tool that is missing,
// prints what cannot be read, or hangs. watched returns the processes whose
// memory is meant; none before the program has begun.
type Probe func(ctx context.Context, every time.Duration, watched func() []int, out func(Reading)) error

// errNoReading is wrapped where a tool runs but gives no figures.
var errNoReading = errors.New("no figures")

// silence is how long a tool may print nothing before it counts as hanging.
func silence(every time.Duration) time.Duration { return max(10*time.Second, 20*every) }

// Poll makes a probe of a function that is called once a reading. A call that
// takes longer than the silence allowed ends the probe.
func Poll(name string, read func(ctx context.Context, watched []int) (Reading, error)) Probe {
	return func(ctx context.Context, every time.Duration, watched func() []int, out func(Reading)) error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			one, cancel := context.WithTimeout(ctx, silence(every))
			r, err := read(one, watched())
			expired := one.Err() != nil && ctx.Err() == nil
			cancel()
			switch {
			case ctx.Err() != nil:
				return nil
			case expired:
				return fmt.Errorf("%s: it gave no answer for %v and was stopped: %w", name, silence(every), errNoReading)
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			}
			out(r)
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}
}
