package env

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/regular"
)

// Unavailable says that a package cannot be had as the lock has it.
type Unavailable struct {
	Env     string
	Kind    string // of the buildenv: Debian, NVIDIA or Python; empty: Debian
	Package string
	Version string
	URL     string
	Want    string // SHA-256 of the lock
	Got     string // SHA-256 of what came; empty: nothing came whole
	Size    int64  // of the lock, bytes
	GotSize int64  // of what came whole, bytes; more than Size: it was cut there
	Gone    bool   // the mirror does not have it
	Fresh   bool   // what is wanted is what the mirror's list says, and no lock yet
	Err     error  // why, where it is neither gone nor another
}

// Error names the package, both hashes, and what to do next.
func (e *Unavailable) Error() string {
	head := fmt.Sprintf("buildenv %s: package %s %s", e.Env, e.Package, e.Version)
	next := fmt.Sprintf("llpatch env create %s --update-lock takes what the mirror has now, and --mirror URL another mirror, such as a snapshot of that time", e.Env)
	if e.Kind == NVIDIA {
		next = fmt.Sprintf("--mirror URL takes another folder with the same layout; llpatch env create %s --update-lock takes what the list there says now", e.Env)
	}
	lock := "the lock"
	if e.Fresh { // the user comes from --update-lock
		lock = "the mirror's list"
		next = "--mirror URL takes another mirror, such as a snapshot of another time"
		if e.Kind == NVIDIA {
			next = "--mirror URL takes another folder with the same layout"
		}
	}
	switch {
	case e.Kind == Python:
		return fmt.Sprintf("%s: %s: %v\n  --mirror FOLDER takes the wheels that lie there", head, e.URL, e.Err)
	case e.Gone && e.Want == "": // a list
		return fmt.Sprintf("buildenv %s: %s is not there\n  --mirror URL takes another folder with the same layout", e.Env, e.URL)
	case e.Want == "":
		return fmt.Sprintf("buildenv %s: %s: %v\n  --mirror URL takes another folder with the same layout", e.Env, e.URL, e.Err)
	case e.Gone:
		return fmt.Sprintf("%s is gone from the mirror: %s\n  %s wants SHA-256 %s, the mirror has no such file\n  %s", head, e.URL, lock, e.Want, next)
	case e.GotSize > e.Size: // what came of it has a hash, and that is nobody's
		return fmt.Sprintf("%s is not what %s has: %s\n  the sizes differ: %[2]s says %[4]d bytes, and the mirror sends more\n  %[5]s", head, lock, e.URL, e.Size, next)
	case e.Got != "" && e.GotSize != e.Size:
		return fmt.Sprintf("%s is not what %s has: %s\n  %[2]s wants SHA-256 %[4]s, %[5]d bytes\n  the mirror sent        %[6]s, %[7]d bytes\n  %[8]s", head, lock, e.URL, e.Want, e.Size, e.Got, e.GotSize, next)
	case e.Got != "":
		return fmt.Sprintf("%s is not what %s has: %s\n  %[2]s wants SHA-256 %[4]s\n  the mirror sent        %[5]s\n  %[6]s", head, lock, e.URL, e.Want, e.Got, next)
	}
	return fmt.Sprintf("%s: %s: %v; what came is kept, the same command goes on from there", head, e.URL, e.Err)
}

// ExitCode is exit.Source.
func (e *Unavailable) ExitCode() int { return exit.Source }

// Unwrap returns Err.
func (e *Unavailable) Unwrap() error { return e.Err }

const (
	dialTimeout = 15 * time.Second
	// parallel is how many packages come at a time, as apt has it for one host.
	parallel = 4
	// maxCuts is how many cuts one package survives in a run, each only after new bytes came.
	maxCuts = 8
)

// downloader fetches packages into a folder.
type downloader struct {
	env      string
	kind     string
	fresh    bool
	mirror   string
	file     func(Package) string // where one lies once it is whole and right
	client   *http.Client
	stall    time.Duration // how long a mirror may send nothing
	progress func(done int64)
	mu       sync.Mutex
	done     int64
}

func newClient(acquire map[string]string) *http.Client {
	t := &http.Transport{
		Proxy:               aptProxy(acquire),
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: parallel, DisableCompression: true,
	}
	t.RegisterProtocol("file", local{http.NewFileTransport(http.Dir("/"))}) // apt's sources may say file:
	return &http.Client{Transport: t, CheckRedirect: redirect}
}

// local serves the files of this machine. Its http.RoundTripper would wait for somebody to
// write to a pipe, and neither Ctrl+C nor a time out ends that.
type local struct{ http.RoundTripper }

// RoundTrip refuses what is no file.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	f, err := regular.Open(filepath.FromSlash(path.Clean("/" + r.URL.Path)))
	switch {
	case errors.Is(err, regular.ErrNot):
		return nil, regular.ErrNot
	case err == nil:
		_ = f.Close() // it was only looked at
	}
	return l.RoundTripper.RoundTrip(r)
}

// redirect follows a server to other servers, not into this machine's files: some of
// those never end, and none of them is what was asked for.
func redirect(to *http.Request, via []*http.Request) error {
	if to.URL.Scheme == "file" && via[0].URL.Scheme != "file" {
		return errors.New("it leads to a file of this machine: " + to.URL.String())
	}
	if len(via) == 10 { // as net/http has it
		return errors.New("it leads on and on, 10 times")
	}
	return nil
}

// all fetches every package and returns how many bytes came over the network.
func (d *downloader) all(ctx context.Context, packages []Package) (fetched int64, err error) {
	if len(packages) > 0 {
		if err := os.MkdirAll(filepath.Dir(d.file(packages[0])), 0o755); err != nil {
			return 0, err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, p := range packages {
		g.Go(func() error {
			n, err := d.one(ctx, p)
			d.mu.Lock()
			defer d.mu.Unlock()
			fetched += n
			return err
		})
	}
	err = g.Wait()
	return fetched, err
}

func (d *downloader) url(p Package) string {
	// As apt writes it: some mirrors take a bare plus sign for a space.
	parts := strings.Split(p.File, "/")
	for i := range parts {
		parts[i] = strings.NewReplacer("+", "%2b", "~", "%7e").Replace(url.PathEscape(parts[i]))
	}
	return strings.TrimSuffix(d.mirror, "/") + "/" + strings.Join(parts, "/")
}

// one fetches a package, unless an earlier run did, and returns the bytes that came.
func (d *downloader) one(ctx context.Context, p Package) (int64, error) {
	if p.is(ctx, d.file(p)) {
		d.report(p.Size)
		return 0, nil
	}
	part := d.file(p) + ".part"
	bad := &Unavailable{Env: d.env, Kind: d.kind, Fresh: d.fresh, Package: p.Name, Version: p.Version, URL: d.url(p), Want: p.SHA256, Size: p.Size}
	var fetched int64
	for cuts, again := 0, false; ; cuts++ {
		n, resumed, got, err := d.try(ctx, p, part)
		fetched += n
		switch {
		case ctx.Err() != nil:
			return fetched, context.Cause(ctx)
		case err == nil:
			st, err := os.Stat(part)
			switch {
			case err != nil:
				return fetched, err
			case got == p.SHA256 && st.Size() == p.Size:
				return fetched, os.Rename(part, d.file(p))
			case resumed && !again: // the beginning may be that of another file
				d.report(-n)
				if err := os.Remove(part); err != nil {
					return fetched, err
				}
				again = true
				continue
			}
			if bad.GotSize = st.Size(); bad.GotSize <= p.Size {
				bad.Got = got
			}
			return fetched, errors.Join(bad, os.Remove(part))
		}
		if disk := new(fs.PathError); errors.As(err, &disk) {
			return fetched, err
		}
		bad.Err = err
		bad.Gone = errors.Is(err, fs.ErrNotExist)
		if bad.Gone || n == 0 || cuts == maxCuts {
			return fetched, bad
		}
	}
}

// try makes one request. It goes on where part ends, if the server does, and
// returns the bytes that came, whether it went on, and the hash of the whole.
func (d *downloader) try(ctx context.Context, p Package, part string) (n int64, resumed bool, sum string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return 0, false, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	have, err := io.Copy(h, regular.Until(ctx, f))
	if err != nil {
		return 0, false, "", err
	}
	if have >= p.Size { // too much, or whole and yet not renamed: hash or take it again
		if have, err = restart(f, h); err != nil {
			return 0, false, "", err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url(p), nil)
	if err != nil {
		return 0, false, "", err
	}
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	stalled := time.AfterFunc(d.stall, func() { cancel(fmt.Errorf("the mirror sent nothing for %v", d.stall)) })
	defer stalled.Stop()
	resp, err := d.client.Do(req)
	if err != nil {
		return 0, false, "", because(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	switch {
	case resp.StatusCode == http.StatusPartialContent && have > 0 && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
		resumed = true
	case resp.StatusCode == http.StatusOK:
		if have, err = restart(f, h); err != nil {
			return 0, false, "", err
		}
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return 0, false, "", fmt.Errorf("%s: %w", resp.Status, fs.ErrNotExist)
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && have > 0: // that was all, whatever the lock says
		return 0, true, hex.EncodeToString(h.Sum(nil)), nil
	default:
		return 0, false, "", fmt.Errorf("the mirror says %s", resp.Status)
	}
	if have > 0 {
		d.report(have)
	}
	// One byte more than the lock says is enough to see that it is another file.
	body := io.LimitReader(resp.Body, p.Size-have+1)
	n, err = io.Copy(io.MultiWriter(f, h), readerFunc(func(b []byte) (int, error) {
		k, err := body.Read(b)
		if k > 0 {
			stalled.Reset(d.stall)
			d.report(int64(k))
		}
		return k, err
	}))
	switch {
	case err != nil:
		err = because(ctx, err)
	case have+n < p.Size && resp.ContentLength < 0:
		err = io.ErrUnexpectedEOF // it did not say how much it would send
	default:
		return n, resumed, hex.EncodeToString(h.Sum(nil)), nil
	}
	d.report(-have - n) // counted anew when it goes on
	return n, resumed, "", err
}

type readerFunc func([]byte) (int, error)

// Read calls f.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// restart empties a file and what was hashed of it.
func restart(f *os.File, h hash.Hash) (int64, error) {
	h.Reset()
	_, err := f.Seek(0, io.SeekStart)
	return 0, errors.Join(err, f.Truncate(0))
}

// because puts the reason for which ctx ended in the place of a bare cancellation.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if u := new(url.Error); errors.As(err, &u) {
		return u.Err // the address stands in the message already
	}
	return err
}

func (d *downloader) report(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock() // one call at a time, in the order of what it is told
	d.done += n
	if d.progress != nil {
		d.progress(d.done)
	}
}

// is reports whether a file is the package, by its size and its hash.
func (p Package) is(ctx context.Context, name string) bool {
	st, err := os.Stat(name)
	if err != nil || st.Size() != p.Size {
		return false
	}
	sum, err := sumFile(ctx, name)
	return err == nil && sum == p.SHA256
}

// sumFile is the SHA-256 of a file, in hexadecimal.
func sumFile(ctx context.Context, name string) (string, error) {
	f, err := regular.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	h := sha256.New()
	if _, err := io.Copy(h, regular.Until(ctx, f)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
