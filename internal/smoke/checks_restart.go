package smoke

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// restartCheck: a server that was stopped, and one that was killed in the
// middle of a completion, can be started again at once on the same port, and
// gives the same answer.
func restartCheck(a *args) step {
	times, n := a.number("times", 3, 1), a.number("n_predict", 16, 1)
	within := a.duration("within", 0)
	cfg := a.config()
	return func(ctx context.Context, s *session) (outcome, error) {
		c, err := cfg(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		c.ready = within
		s.stop(ctx)
		// All on the port of the first.
		ports := s.o.Ports
		defer func() { s.o.Ports = ports }()
		var first answer
		var slowest time.Duration
		for i := range times + 1 {
			srv, err := s.need(ctx, c)
			if err != nil {
				return outcome{}, fmt.Errorf("start %d: %w", i+1, err)
			}
			s.o.Ports = []int{srv.port}
			slowest = max(slowest, srv.ready)
			got, err := srv.complete(ctx, "The quick brown fox", n)
			if err != nil {
				return outcome{}, fmt.Errorf("start %d: %w", i+1, err)
			}
			if i == 0 {
				first = got
			}
			if *got.Content != *first.Content {
				return outcome{}, srv.fault("start %d answers %q, start 1 %q", i+1, *got.Content, *first.Content)
			}
			// Every second end is a crash.
			if i%2 == 0 {
				s.stop(ctx)
				continue
			}
			if err := srv.beginLong(ctx); err != nil {
				return outcome{}, fmt.Errorf("start %d: %w", i+1, err)
			}
			if err := srv.proc.Signal(syscall.SIGKILL); err != nil {
				return outcome{}, fmt.Errorf("start %d: SIGKILL: %w", i+1, err)
			}
			select {
			case <-srv.proc.Done():
			case <-ctx.Done():
				return outcome{}, context.Cause(ctx)
			}
			s.stop(ctx)
			if _, err := awaitFree(ctx, srv.port, s.answer()); err != nil { // the next start says who has it
				return outcome{}, err
			}
		}
		return outcome{
			detail: fmt.Sprintf("started again %d times on port %d, after a stop and after a crash in turn", times,
				s.o.Ports[0]),
			figures: map[string]any{"slowest_ready_seconds": seconds(slowest)},
		}, nil
	}
}
