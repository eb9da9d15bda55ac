package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/memory"
)

// hostileCheck: clients that cut connections, send garbage or half a request,
// and come 200 at once, do not bring the server down, do not make it deaf, and
// leave no memory behind.
func hostileCheck(a *args) step {
	rounds, crowd := a.number("rounds", 40, 5*hostileWarm), a.number("crowd", 200, 1)
	allowed := a.allow()
	cfg := a.config()
	return func(ctx context.Context, s *session) (outcome, error) {
		return s.measured(ctx, hostileWork(rounds, crowd, allowed, cfg))
	}
}

// hostileAgain is the length of the second try: a thread of the server takes an arena
// the first time that it meets a large body, so memory rises in steps until each has
// one; a leak goes on rising. How long that takes is chance, and a few rounds seldom
// see the end of it.
const hostileAgain = 6

// hostileWork is rounds of everything.
func hostileWork(rounds, crowd int, allowed float64, cfg func(context.Context, *session) (config, error)) workload {
	return workload{
		unit: memory.Request, allowed: allowed, config: cfg, again: hostileAgain,
		drive: func(ctx context.Context, srv *server, times int) (outcome, error) {
			first, err := srv.complete(ctx, hostilePrompt, 8)
			if err != nil {
				return outcome{}, fmt.Errorf("before anything hostile: %w", err)
			}
			i, enough := 0, srv.s.enoughLooks(times)
			for ; i < times*rounds || time.Now().Before(enough); i++ {
				if err := srv.harass(ctx, i, crowd); err != nil {
					return outcome{}, fmt.Errorf("round %d: %w", i+1, err)
				}
				got, err := srv.complete(ctx, hostilePrompt, 8)
				if err != nil {
					return outcome{}, fmt.Errorf("after round %d: %w", i+1, err)
				}
				if *got.Content != *first.Content {
					return outcome{}, srv.fault("after round %d the same request gets %q, before it got %q", i+1, *got.Content,
						*first.Content)
				}
				// A round counts as one: its requests are of many kinds.
				srv.requests.Add(1)
			}
			return outcome{
				detail:  fmt.Sprintf("%d rounds of hostile clients, %d at once", i, crowd),
				figures: map[string]any{"rounds": i, "crowd": crowd},
				warm:    hostileWarm,
			}, nil
		},
	}
}

// hostileWarm is how many rounds are not judged, as loopWarm.
const hostileWarm = 3

const hostilePrompt = "The quick brown fox"

// harass is one round of everything.
func (srv *server) harass(ctx context.Context, round, crowd int) error {
	garbage := make([]byte, 1<<20)
	//nolint:gosec // seeded, so that a failure comes again
	rnd := rand.New(rand.NewPCG(1, uint64(round)))
	for i := range garbage {
		garbage[i] = byte(rnd.Uint32())
	}
	half := "POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: appl"
	body := "POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
		"1000000\r\n\r\n{\"prompt\":\"a"
	deep := "POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
		"20000\r\n\r\n" + strings.Repeat("[", 20000)
	for _, send := range [][]byte{
		nil, garbage, []byte(half), []byte(body), []byte(deep), []byte("\r\n\r\n"),
		garbage[:1],
	} {
		for _, reset := range []bool{true, false} {
			if err := srv.sendRaw(ctx, send, reset); err != nil {
				return err
			}
		}
	}
	// Bad requests get a client's error, not a server's death.
	for _, bad := range []any{
		"text", map[string]any{"prompt": 1.5, "n_predict": "x"}, map[string]any{"prompt": []any{-1, 1 << 40}, "n_predict": 1},
	} {
		status, b, err := srv.call(ctx, http.MethodPost, "/completion", bad)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return srv.fault("a bad request: %v", err)
		case status < 400:
			return srv.fault("a bad request got %d with %s", status, llamaserver.Quote(b))
		}
	}
	// A client that leaves in the middle of a stream.
	if err := srv.beginLong(ctx); err != nil {
		return err
	}
	return srv.crowd(ctx, crowd)
}

// sendRaw opens a connection, sends what it is given, and leaves: with reset as
// a client that crashed does, else as one that has had enough.
func (srv *server) sendRaw(ctx context.Context, data []byte, reset bool) error {
	dialer := net.Dialer{Timeout: srv.s.answer()}
	c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(srv.port)))
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return srv.fault("the server takes no connection: %v", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(srv.s.answer())); err != nil {
		return err
	}
	// The server may close as soon as it sees that this is nothing for it.
	_, _ = io.Copy(c, bytes.NewReader(data))
	if tcp, ok := c.(*net.TCPConn); ok && reset {
		return tcp.SetLinger(0)
	}
	return nil
}

// crowd asks with many connections at once, and every one gets its answer.
func (srv *server) crowd(ctx context.Context, n int) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			status, body, err := srv.call(ctx, http.MethodPost, "/tokenize", map[string]any{"content": "a"})
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d with %s", status, llamaserver.Quote(body))
			}
			errs[i] = err
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := errors.Join(errs...); err != nil {
		left := 0
		for _, e := range errs {
			if e != nil {
				left++
			}
		}
		return srv.fault("of %d requests at once %d got no answer: %s", n, left, firstLine(err.Error()))
	}
	return nil
}
