package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/llpatch/llpatch/internal/download"
)

const (
	// dialTimeout bounds the connection and the TLS handshake, so that a host
	// that drops packets does not hold up the next source.
	dialTimeout = 10 * time.Second
	// stallTimeout is how long a server may send nothing before it counts as gone.
	stallTimeout = 60 * time.Second
	// maxDownload bounds a file in bytes: forty times the largest npm package so far.
	maxDownload = 4 << 30
)

// roundTripper returns the HTTP transport for all network sources. Proxies come
// from the usual environment variables unless rc names one.
func (f *fetcher) roundTripper(rc *npmConfig) http.RoundTripper {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: f.stall,
		ForceAttemptHTTP2:     true,
		// The bytes must be those that the length and the integrity are about.
		DisableCompression: true,
	}
	if rc != nil {
		rc.configure(t)
	}
	return t
}

// download returns the path of the whole file behind a URL.
func (f *fetcher) download(ctx context.Context, c *http.Client, rawURL string, header http.Header) (string, error) {
	if f.Offline {
		return "", errOffline
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The cause holds the address, with its password.
		return "", fmt.Errorf("%s is not an address", redacted(rawURL))
	}
	path := filepath.Join(f.cache.path(".downloads"), downloadName(rawURL))
	if _, err := os.Stat(path); err == nil {
		return path, nil // whole: it got its name only then
	}
	_, err = download.File{
		Client: c, URL: u, Header: header, Name: path, Most: maxDownload, Stall: f.stall,
		Progress: func(done, total int64) { f.progress("download", done, total) },
		Cut: func(cause error) {
			f.Log.Warn("download cut, going on", "url", redacted(u.String()), "error", cause)
		},
	}.Get(ctx)
	switch disk := new(fs.PathError); {
	case err == nil:
		return path, nil
	case ctx.Err() != nil:
		return "", err
	case errors.As(err, &disk):
		return "", cacheError(err)
	}
	return "", fmt.Errorf("GET %s: %w", redacted(u.String()), err)
}

// downloadName is the name of a URL's file: a URL itself may hold anything.
func downloadName(rawURL string) string {
	sum := sha256.Sum256([]byte(rawURL))
	return hex.EncodeToString(sum[:8])
}

// progressGate passes on at most one report in a tenth of a second, and every last one.
type progressGate struct {
	mu   sync.Mutex
	last time.Time
}

// progress reports to the caller, if it asked for reports.
func (f *fetcher) progress(what string, done, total int64) {
	if f.Progress == nil {
		return
	}
	f.gate.mu.Lock()
	defer f.gate.mu.Unlock()
	if now := time.Now(); done == total || now.Sub(f.gate.last) > 100*time.Millisecond {
		f.gate.last = now
		f.Progress(what, done, total)
	}
}
