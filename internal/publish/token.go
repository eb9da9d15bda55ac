package publish

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	resp, err := transport.RoundTrip(req)
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

// transport gives a host that does not answer up.
var transport = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = stall
	return t
}()

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
	if text = strings.ReplaceAll(text, h.token, "(the token)"); len(text) > most {
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
