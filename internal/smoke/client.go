package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
)

// fault is a wrong answer: what makes a check fail, and not merely not run.
type fault struct {
	msg  string
	name string // the defect, where a proof can expect it by name
	log  string
	tail []string
	late bool // the program was stopped, for its time was up
	// signal is what ended the program, or empty
	signal string
}

func (f *fault) Error() string { return f.msg }

// deathPatience is how long a server whose connection broke is waited for to be seen
// as dead: a busy machine has taken more than 200 ms.
const deathPatience = time.Second

// fault makes one with the server's last lines. A server that has just died
// needs a moment to be seen as dead, and its death is the better reason.
func (srv *server) fault(format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if srv.dies() {
		msg += "; the server has ended: " + srv.proc.End()
	}
	return srv.plainFault(msg)
}

// dies reports whether the server has ended, or does so now.
func (srv *server) dies() bool { return srv.diesWithin(deathPatience) }

// diesWithin is dies for what a longer wait is worth.
func (srv *server) diesWithin(limit time.Duration) bool {
	select {
	case <-srv.proc.Done():
		return true
	case <-time.After(limit):
		return false
	}
}

// namedFault is a fault that a proof can expect.
func (srv *server) namedFault(name, format string, args ...any) error {
	return &fault{msg: fmt.Sprintf(format, args...), name: name, log: srv.log, tail: srv.proc.Tail()}
}

func (srv *server) plainFault(msg string) error {
	return &fault{msg: msg, log: srv.log, tail: srv.proc.Tail()}
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// call sends a request and reads the whole answer.
func (srv *server) call(ctx context.Context, method, path string, body any) (int, []byte, error) {
	return srv.client.Call(ctx, srv.s.answer(), method, path, body)
}

// get gets a file of the web UI, as a browser does: it is stored compressed, and a client
// that cannot take that is refused.
func (srv *server) get(ctx context.Context, path string) (status int, kind string, body []byte, err error) {
	res, err := srv.client.Request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	if h := res.Header.Get("Content-Type"); h != "" {
		if kind, _, err = mime.ParseMediaType(h); err != nil {
			return 0, "", nil, fmt.Errorf("content type %q: %w", h, err)
		}
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, llamaserver.MaxAnswer))
	return res.StatusCode, kind, body, err
}

// ask posts a request, and reads a JSON answer into out. Anything else is the
// server's fault, unless the whole run was interrupted.
func (srv *server) ask(ctx context.Context, path string, body, out any) error {
	status, b, err := srv.call(ctx, http.MethodPost, path, body)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return srv.fault("POST %s: %v", path, err)
	}
	if status != http.StatusOK {
		return srv.fault("POST %s gave %d with %s", path, status, llamaserver.Quote(b))
	}
	if err := json.Unmarshal(b, out); err != nil {
		return srv.fault("POST %s gave what is no answer (%v): %s", path, err, llamaserver.Quote(b))
	}
	return nil
}
