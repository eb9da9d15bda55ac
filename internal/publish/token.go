package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/patch"
)

// withToken gives the token to the host alone: each request, also one that a host sent on, gets
// it where it goes to the host's own addresses, and nowhere else.
type withToken struct{ h *host }

// RoundTrip is one request, whose answer is at most maxAnswer unless it is a file.
func (w withToken) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.h.owns(req.URL) {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+w.h.token)
	}
	resp, err := w.h.answer(req)
	if err == nil && req.Header.Get("Accept") != octets {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

const (
	octets    = "application/octet-stream"
	maxAnswer = 64 << 20 // bytes of an answer that is no file
	maxPages  = 2000     // of a list, 50 or more on each
)

var errEndless = &final{errors.New("the host's list has no end")}

// transport gives a host up that takes a file and does not answer.
var transport = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = stall
	return t
}()

// errQuiet says that a host did not answer.
var errQuiet = errors.New("no answer came")

// answer is one request. A host that got a file may take its time; anything else it answers soon, or never.
func (h *host) answer(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Content-Type") == octets {
		return transport.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	late := time.AfterFunc(h.quiet, func() { cancel(fmt.Errorf("%w for %v", errQuiet, h.quiet)) })
	resp, err := transport.RoundTrip(req.WithContext(ctx))
	if !late.Stop() && err != nil && req.Context().Err() == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &cancelled{resp.Body, cancel}
	return resp, nil
}

// cancelled is a body that ends its request's context.
type cancelled struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the body.
func (c *cancelled) Close() error {
	err := c.ReadCloser.Close()
	c.cancel(nil)
	return err
}

// owns reports whether an address is one of the host's: its scheme counts, since http shows the
// token to everybody on the way.
func (h *host) owns(u *url.URL) bool { return slices.Contains(h.homes, u.Scheme+"://"+u.Host) }

// stay refuses to be sent on to another host: only files come from one.
func (h *host) stay(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 || !h.owns(req.URL) {
		return &final{refuse(h.web.String(), "look whether the address is right", "it sends on to %s", req.URL.Redacted())}
	}
	return nil
}

// shown is a host's own text, which may be of any length and give the token back.
func (h *host) shown(text string) string {
	const most = 500
	if h.token != "" {
		text = strings.ReplaceAll(text, h.token, "(the token)")
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return patch.Printable(text)
}

// likeHost reports whether what has no scheme is an address all the same, as of git or a browser's
// bar, and no folder that is there.
func likeHost(to string) bool {
	if _, err := os.Stat(to); err == nil || strings.HasPrefix(to, ".") || filepath.IsAbs(to) {
		return false
	}
	first, _, more := strings.Cut(filepath.ToSlash(to), "/")
	return strings.ContainsAny(first, "@:") && len(filepath.VolumeName(to)) == 0 || more && strings.Contains(first, ".")
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// final is an error that another attempt does not mend, as one of this machine's files.
type final struct{ error }

func (e *final) Unwrap() error { return e.error }
