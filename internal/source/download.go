package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
)

const (
	// dialTimeout bounds the connection and the TLS handshake, so that a host
	// that drops packets does not hold up the next source.
	dialTimeout = 10 * time.Second
	// stallTimeout is how long a server may send nothing before it counts as gone.
	stallTimeout = 60 * time.Second
	// maxDownload bounds a file in bytes: forty times the largest npm package so far.
	maxDownload = 4 << 30
	// maxResumes is how many cuts one run survives, each only after new bytes came.
	maxResumes = 8
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

// watchdog cancels a context when nothing has come for a while.
type watchdog struct {
	timer  *time.Timer
	limit  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newWatchdog(ctx context.Context, limit time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{limit: limit, ctx: ctx, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("the server sent nothing for %v", limit)) })
	return ctx, w
}

func (w *watchdog) fed() { w.timer.Reset(w.limit) }

func (w *watchdog) stop() { w.timer.Stop(); w.cancel(context.Canceled) }

// explain puts the reason for which the context ended in the place of a bare
// "context canceled".
func (w *watchdog) explain(err error) error {
	if err != nil && errors.Is(err, context.Canceled) && w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return err
}

// watched feeds the watchdog and reports progress as r is read.
func (f *fetcher) watched(r io.Reader, w *watchdog, what string, total int64) io.Reader {
	return &watchedReader{r: r, w: w, report: func(done int64) { f.progress(what, done, total) }}
}

type watchedReader struct {
	r      io.Reader
	w      *watchdog
	done   int64
	report func(int64)
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.done += int64(n)
		r.w.fed()
		r.report(r.done)
	}
	return n, err
}

// partInfo stands beside a partial file: what it is the beginning of.
type partInfo struct {
	URL       string `json:"url"`
	Validator string `json:"validator"` // strong ETag or Last-Modified, for If-Range
}

// download returns the path of the whole file behind a URL, in dir. A file that
// is not whole is named *.part and goes on from where it was cut, if the server
// still has the same file; else it starts clean.
func (f *fetcher) download(ctx context.Context, c *http.Client, rawURL string, header http.Header, dir string) (string, error) {
	if f.Offline {
		return "", errOffline
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The cause holds the address, with its password.
		return "", fmt.Errorf("%s is not an address", redacted(rawURL))
	}
	path := filepath.Join(dir, downloadName(rawURL))
	if _, err := os.Stat(path); err == nil {
		return path, nil // whole: it got its name only then
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", cacheError(err)
	}
	part := path + ".part"
	for resumes := 0; ; resumes++ {
		before := size(part)
		err := f.downloadOnce(ctx, c, u, header, part)
		if err == nil {
			break
		}
		var cut *cutError
		if !errors.As(err, &cut) || ctx.Err() != nil {
			return "", err
		}
		if size(part) <= before || resumes == maxResumes {
			return "", fmt.Errorf("GET %s: %w; %d bytes are kept, the next run goes on from there", redacted(u.String()), err, size(part))
		}
		f.Log.Warn("download cut, going on", "url", redacted(u.String()), "bytes", size(part), "error", err)
	}
	if err := os.Remove(part + ".json"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", cacheError(err)
	}
	if err := os.Rename(part, path); err != nil {
		return "", cacheError(err)
	}
	return path, nil
}

// downloadName is the name of a URL's file: a URL itself may hold anything.
func downloadName(rawURL string) string {
	sum := sha256.Sum256([]byte(rawURL))
	return hex.EncodeToString(sum[:8])
}

// cutError says that a body ended early; what came of it is on the disk.
type cutError struct{ err error }

func (e *cutError) Error() string { return "cut: " + e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

func size(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// downloadOnce makes one request and writes what comes to part.
func (f *fetcher) downloadOnce(ctx context.Context, c *http.Client, u *url.URL, header http.Header, part string) error {
	ctx, watch := newWatchdog(ctx, f.stall)
	defer watch.stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	have := size(part)
	info := readPartInfo(part)
	if have > 0 && info.URL == redacted(u.String()) && info.Validator != "" {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		req.Header.Set("If-Range", info.Validator)
	} else {
		have = 0
	}
	resp, err := c.Do(req)
	if err != nil {
		return plain(watch.explain(err))
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	total := int64(-1)
	switch {
	case resp.StatusCode == http.StatusPartialContent && rangeStart(resp) == have && have > 0:
		if resp.ContentLength >= 0 {
			total = have + resp.ContentLength
		}
	case resp.StatusCode == http.StatusOK:
		have, total = 0, resp.ContentLength
	default:
		if have > 0 { // such as 416: the file there is shorter now
			if err := os.Remove(part); err != nil {
				return cacheError(err)
			}
		}
		return fmt.Errorf("GET %s: %s", redacted(u.String()), resp.Status)
	}
	if total > maxDownload {
		return fmt.Errorf("GET %s: %d bytes are more than %d", redacted(u.String()), total, int64(maxDownload))
	}
	// First what the file is, then its bytes: the other way round a kill between
	// the two would let a later run add to something unknown.
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return cacheError(err)
	}
	defer func() { _ = file.Close() }() // closed with its error below
	if err := file.Truncate(have); err != nil {
		return cacheError(err)
	}
	if err := writePartInfo(part, partInfo{URL: redacted(u.String()), Validator: validator(resp)}); err != nil {
		return cacheError(err)
	}
	if _, err := file.Seek(have, io.SeekStart); err != nil {
		return cacheError(err)
	}
	body := &watchedReader{r: io.LimitReader(resp.Body, maxDownload-have), w: watch, done: have, report: func(n int64) { f.progress("download", n, max(total, 0)) }}
	// A body shorter than its announced length ends in an error of net/http.
	if err := copyTo(file, body); err != nil {
		return watch.explain(err)
	}
	if size(part) >= maxDownload {
		return fmt.Errorf("GET %s: more than %d bytes", redacted(u.String()), int64(maxDownload))
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return cacheError(err)
	}
	return nil
}

// copyTo copies and tells a source that ends early from a disk that is full.
func copyTo(w io.Writer, r io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, rerr := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return cacheError(err)
			}
		}
		if errors.Is(rerr, io.EOF) {
			return nil
		}
		if rerr != nil {
			return &cutError{err: rerr}
		}
	}
}

// rangeStart is where the bytes of a partial answer begin, -1 where it does not say.
func rangeStart(resp *http.Response) int64 {
	var first int64
	if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &first); err != nil {
		return -1
	}
	return first
}

// validator is what If-Range may hold: a strong ETag, else a date.
func validator(resp *http.Response) string {
	if tag := resp.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return resp.Header.Get("Last-Modified")
}

func readPartInfo(part string) (info partInfo) {
	b, err := os.ReadFile(part + ".json")
	if err != nil || json.Unmarshal(b, &info) != nil {
		return partInfo{} // then the download starts clean
	}
	return info
}

func writePartInfo(part string, info partInfo) error {
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(part+".json", b, 0o644)
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
