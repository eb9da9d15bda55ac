package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// maxAnswer bounds what is read of an answer: the web UI, the largest, has 5 MiB.
const maxAnswer = 64 << 20

// fault is a wrong answer: what makes a check fail, and not merely not run.
type fault struct {
	msg  string
	name string // the defect, where a proof can expect it by name
	log  string
	tail []string
}

func (f *fault) Error() string { return f.msg }

// fault makes one with the server's last lines. A server that has just died
// needs a moment to be seen as dead, and its death is the better reason.
func (srv *server) fault(format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	select {
	case <-srv.proc.Done():
		msg += "; the server has ended: " + srv.end()
	case <-time.After(200 * time.Millisecond):
	}
	return srv.plainFault(msg)
}

// namedFault is a fault that a proof can expect.
func (srv *server) namedFault(name, format string, args ...any) error {
	return &fault{msg: fmt.Sprintf(format, args...), name: name, log: srv.log, tail: srv.proc.Tail()}
}

func (srv *server) plainFault(msg string) error {
	return &fault{msg: msg, log: srv.log, tail: srv.proc.Tail()}
}

// newClient returns a client that goes straight to the server, with a
// connection of its own for every request: none stays open when the server is
// to stop.
func newClient() *http.Client {
	dial := &net.Dialer{Timeout: 2 * time.Second}
	return &http.Client{Transport: &http.Transport{DialContext: dial.DialContext, DisableKeepAlives: true}}
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// request sends a request and returns the open answer.
func (srv *server) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var data io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		data = bytes.NewReader(b)
	}
	url := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(srv.port)) + path
	req, err := http.NewRequestWithContext(ctx, method, url, data)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return srv.client.Do(req)
}

// call sends a request and reads the whole answer.
func (srv *server) call(ctx context.Context, method, path string, body any) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, srv.s.o.Answer)
	defer cancel()
	res, err := srv.request(ctx, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("after %d bytes of the answer: %w", len(b), err)
	}
	return res.StatusCode, b, nil
}

// page gets /, as a browser does: the web UI is stored compressed, and a client
// that cannot take that is refused.
func (srv *server) page(ctx context.Context) (status int, kind string, body []byte, err error) {
	res, err := srv.request(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	if h := res.Header.Get("Content-Type"); h != "" {
		if kind, _, err = mime.ParseMediaType(h); err != nil {
			return 0, "", nil, fmt.Errorf("content type %q: %w", h, err)
		}
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
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
		return srv.fault("POST %s gave %d with %s", path, status, quote(b))
	}
	if err := json.Unmarshal(b, out); err != nil {
		return srv.fault("POST %s gave what is no answer (%v): %s", path, err, quote(b))
	}
	return nil
}

// quote shortens an answer for a message.
func quote(b []byte) string {
	const limit = 200
	if len(b) == 0 {
		return "no content"
	}
	if len(b) > limit {
		return fmt.Sprintf("%q and %d bytes more", b[:limit], len(b)-limit)
	}
	return fmt.Sprintf("%q", b)
}
