package smoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
)

// stopCheck: one SIGTERM ends an idle server within a time (5s), with exit code
// 0; a server in the middle of a completion ends without SIGKILL once its client
// has gone; and its port is free again.
func stopCheck(a *args) step {
	limit := a.duration("within", 5*time.Second)
	cfg := a.config()
	return func(ctx context.Context, s *session) (outcome, error) {
		c, err := cfg(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		s.stop(ctx)
		idle, err := s.stopOne(ctx, c, limit, false, nil)
		if err != nil {
			return outcome{}, fmt.Errorf("idle: %w", err)
		}
		// Room for a completion that does not end by itself meanwhile.
		c.args = append(c.args[:len(c.args):len(c.args)], "-c", "16384")
		busy, err := s.stopOne(ctx, c, limit, true, (*server).beginLong)
		if err != nil {
			return outcome{}, fmt.Errorf("during a completion: %w", err)
		}
		return outcome{
			detail: fmt.Sprintf("idle after %v, during a completion after %v", round(idle.took), round(busy.took)),
			figures: map[string]any{
				"idle_seconds": seconds(idle.took), "busy_seconds": seconds(busy.took), "busy_sigterms": busy.terms,
			},
		}, nil
	}
}

// stopOne starts a server of its own, gives it something to do, at which it is still busy or not, and stops it.
func (s *session) stopOne(ctx context.Context, c config, limit time.Duration, busy bool,
	begin func(*server, context.Context) error,
) (ending, error) {
	srv, err := s.need(ctx, c)
	if err != nil {
		return ending{}, err
	}
	s.server = nil // it is this check's to stop
	if begin != nil {
		if err := begin(srv, ctx); err != nil {
			srv.stop(ctx, 0)
			return ending{}, err
		}
	}
	if srv.proc.Ended() {
		err := srv.fault("the server did not wait to be stopped")
		srv.stop(ctx, 0)
		return ending{}, err
	}
	end := srv.stop(ctx, limit)
	switch {
	case ctx.Err() != nil:
		return end, context.Cause(ctx)
	case end.killed && !busy:
		return end, srv.plainFault(fmt.Sprintf("SIGTERM did not end the server within %v, and another not within %v: it "+
			"had to be killed", limit, killGrace))
	case end.killed:
		return end, srv.plainFault(fmt.Sprintf("with its client gone, two SIGTERMs within %v did not end the server: it "+
			"had to be killed", limit+killGrace))
	case !busy && end.terms > 1:
		return end, srv.plainFault(fmt.Sprintf("one SIGTERM did not end the idle server within %v", limit))
	// Upstream's handler ends with exit code 1 on the second SIGTERM.
	case end.how != "exit code 0" && end.terms < 2:
		return end, srv.plainFault("after SIGTERM the server ended with " + end.how)
	}
	free, err := awaitFree(ctx, srv.port, killGrace)
	if err != nil {
		return end, err
	}
	if !free {
		return end, srv.plainFault(fmt.Sprintf("the server is gone, but its port %d is still listened on", srv.port))
	}
	return end, nil
}

// beginLong begins a completion, waits for its first chunk, and leaves: the
// server is in the middle of it, and its client is gone.
func (srv *server) beginLong(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, srv.s.answer())
	defer cancel()
	res, err := srv.client.Request(limit, http.MethodPost, "/completion", completionRequest("On and on", 16000, true))
	if err != nil {
		return srv.fault("POST /completion as a stream: %v", err)
	}
	defer res.Body.Close()
	seen := errors.New("a chunk came")
	err = llamaserver.Events(res.Body, func([]byte) error { return seen })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !errors.Is(err, seen) {
		return srv.fault("the stream of a long completion gave no chunk: status %d, %v", res.StatusCode, err)
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
