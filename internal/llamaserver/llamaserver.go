// Package llamaserver talks to a llama-server on this machine: one request at a
// time, the health question, a streamed answer, and prompts that every
// vocabulary has. It starts nothing and judges nothing.
package llamaserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// MaxAnswer bounds what is read of an answer, in bytes: the web UI, the largest,
// has 5 MiB.
const MaxAnswer = 64 << 20

// Client sends requests to one server.
type Client struct {
	url  string
	key  string
	http *http.Client
}

// New returns a client of the server at addr, as HOST:PORT; key is what the
// server was given as --api-key, or "". It goes straight there, with a connection
// of its own for every request: none stays open when the server is to stop.
func New(addr, key string) *Client {
	dial := &net.Dialer{Timeout: 2 * time.Second}
	return &Client{
		url: "http://" + addr, key: key,
		http: &http.Client{Transport: &http.Transport{DialContext: dial.DialContext, DisableKeepAlives: true}},
	}
}

// Trusting returns c for a server that serves HTTPS, whose certificate conf is to take; nil: c
// as it is.
func (c *Client) Trusting(conf *tls.Config) *Client {
	if conf != nil {
		c.url = "https" + strings.TrimPrefix(c.url, "http")
		c.http.Transport.(*http.Transport).TLSClientConfig = conf
	}
	return c
}

// TLS asks for the health and returns what was agreed on for the connection.
func (c *Client) TLS(ctx context.Context, limit time.Duration) (*tls.ConnectionState, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	res, err := c.Request(ctx, http.MethodGet, "/health", nil)
	if err != nil {
		return nil, err
	}
	return res.TLS, res.Body.Close()
}

// URL is the server's address, with http:// and no path.
func (c *Client) URL() string { return c.url }

// Request sends a request, with body as JSON unless it is nil, and returns the
// open answer.
func (c *Client) Request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var data io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		data = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, data)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.http.Do(req)
}

// Call sends a request and reads the whole answer, within the limit.
func (c *Client) Call(ctx context.Context, limit time.Duration, method, path string,
	body any,
) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	res, err := c.Request(ctx, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("after %d bytes of the answer: %w", len(b), err)
	}
	return res.StatusCode, b, nil
}

// ErrLoading is the health of a server that is not ready yet.
var ErrLoading = errors.New("it still answers 503")

// Unhealthy is an answer to the health question that no llama-server gives.
type Unhealthy struct {
	Status int
	Body   []byte
}

// Error tells the answer.
func (e *Unhealthy) Error() string {
	if e.Status == http.StatusOK {
		return fmt.Sprintf(`GET /health gave 200 with %s, not {"status":"ok"}`, Quote(e.Body))
	}
	return fmt.Sprintf("GET /health gave %d with %s", e.Status, Quote(e.Body))
}

// Health asks once whether the server is ready. The error is ErrLoading, an
// *Unhealthy, or why no answer came.
func (c *Client) Health(ctx context.Context, limit time.Duration) error {
	status, body, err := c.Call(ctx, limit, http.MethodGet, "/health", nil)
	if err != nil {
		return err
	}
	var health struct{ Status string }
	switch {
	case status == http.StatusServiceUnavailable:
		return ErrLoading
	case status != http.StatusOK || json.Unmarshal(body, &health) != nil || health.Status != "ok":
		return &Unhealthy{Status: status, Body: body}
	}
	return nil
}

// FreePort returns a loopback port that the system picks. Unlike llama-server,
// this listens without SO_REUSEPORT, so another server's port is not picked.
func FreePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Tokens returns a prompt of n ids that every vocabulary has, and that mean
// nothing special: byte vocabularies begin with a few control tokens and have 256
// more. The same seed gives the same prompt.
func Tokens(seed uint64, n int) []int {
	r := rand.New(rand.NewPCG(seed, 0x746f6b))
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 10 + r.IntN(200)
	}
	return ids
}

// Quote shortens an answer for a message.
func Quote(b []byte) string {
	const limit = 200
	if len(b) == 0 {
		return "no content"
	}
	if len(b) > limit {
		return fmt.Sprintf("%q and %d bytes more", b[:limit], len(b)-limit)
	}
	return fmt.Sprintf("%q", b)
}
