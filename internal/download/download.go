// Package download fetches files over HTTP: what was cut goes on where it ended, in this run and the next, and a server
// that sends nothing does not hold up the user.
package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/regular"
)

// maxCuts is how many cuts one file survives in a run, each only after new bytes came.
const maxCuts = 8

// File is a file to fetch, and its place. Until it is whole its bytes are in Name.part, and where
// its hash is not known Name.part.of tells what it is the beginning of.
type File struct {
	Client   *http.Client
	URL      *url.URL
	Header   http.Header
	Name     string
	Most     int64                   // bytes: a larger one is refused
	SHA256   string                  // in hexadecimal, with Most as its size; empty: not known
	Stall    time.Duration           // how long the server may send nothing
	Progress func(done, total int64) // bytes of the file; a total of 0 is not known; nil: nobody asks
	Cut      func(cause error)       // told when it goes on after a cut; may be nil
}

// Wrong says that what came is not the file that was wanted. Nothing of it is kept.
type Wrong struct {
	SHA256 string // empty: it was cut at one byte more than Most
	Size   int64
}

// Error says how large it is.
func (e *Wrong) Error() string {
	if e.SHA256 == "" {
		return fmt.Sprintf("it has more than %d bytes", e.Size-1)
	}
	return fmt.Sprintf("it has %d bytes and SHA-256 %s", e.Size, e.SHA256)
}

// Status is an answer that is no file.
type Status struct {
	Code int
	Text string
}

// Error is what the server said.
func (e *Status) Error() string { return e.Text }

// Gone reports whether the server has no such file.
func (e *Status) Gone() bool { return e.Code == http.StatusNotFound || e.Code == http.StatusGone }

// Cut says that a file did not come whole. What came is kept.
type Cut struct {
	Err  error
	Have int64 // bytes
}

// Error says why, and what is kept.
func (e *Cut) Error() string {
	return fmt.Sprintf("cut: %v; %d bytes are kept, the next run goes on from there", e.Err, e.Have)
}

// Unwrap returns Err.
func (e *Cut) Unwrap() error { return e.Err }

// Get fetches the file, goes on after cuts, and returns how many bytes came. Errors do not name the address, which may
// hold a password; those of this machine's disk are *fs.PathError.
func (f File) Get(ctx context.Context) (came int64, err error) {
	if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
		return 0, err
	}
	for cuts, anew, had := 0, false, int64(0); ; cuts++ {
		n, resumed, err := f.try(ctx)
		came += n
		var cut *Cut
		var status *Status
		var wrong *Wrong
		switch {
		case err == nil:
			return came, errors.Join(removeIfThere(f.of()), os.Rename(f.part(), f.Name))
		case ctx.Err() != nil:
			return came, context.Cause(ctx)
		case errors.As(err, &cut) && cut.Have > had && cuts < maxCuts:
			had = cut.Have
			if f.Cut != nil {
				f.Cut(err)
			}
			continue
		case errors.As(err, &wrong), errors.As(err, &status) && resumed &&
			status.Code == http.StatusRequestedRangeNotSatisfiable:
			// The beginning may be that of another file.
			had = 0
			if err := errors.Join(removeIfThere(f.of()), removeIfThere(f.part())); err != nil {
				return came, err
			}
			if resumed && !anew {
				anew = true
				continue
			}
		}
		return came, err
	}
}

func (f File) part() string { return f.Name + ".part" }
func (f File) of() string   { return f.part() + ".of" }

// try makes one request. resumed tells whether it asked to go on.
func (f File) try(ctx context.Context) (n int64, resumed bool, err error) {
	within, watch := NewWatch(ctx, f.Stall)
	defer watch.Stop()
	file, err := os.OpenFile(f.part(), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, false, err
	}
	req, err := http.NewRequestWithContext(within, http.MethodGet, f.URL.String(), nil)
	if err != nil {
		return 0, false, err
	}
	for k, v := range f.Header {
		req.Header[k] = v
	}
	of, err := os.ReadFile(f.of())
	switch known := err == nil && len(of) > 0; {
	case f.SHA256 == "" && known:
		req.Header.Set("If-Range", string(of))
	case f.SHA256 == "" || have >= f.Most: // nothing would tell that it is of another file
		have = 0
	}
	if resumed = have > 0; resumed {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := f.Client.Do(req)
	if err != nil {
		return 0, resumed, watch.Explain(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	switch {
	case resumed && resp.StatusCode == http.StatusPartialContent &&
		strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
	case resp.StatusCode == http.StatusOK:
		have, resumed = 0, false
	case resumed && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && f.SHA256 != "":
		return 0, resumed, f.judge(ctx, file, have) // there is no more of it
	default:
		return 0, resumed, &Status{resp.StatusCode, resp.Status}
	}
	total := int64(0)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	if f.SHA256 == "" && total > f.Most {
		return 0, resumed, &Wrong{Size: f.Most + 1}
	}
	// First what the file is, then its bytes: the other way round a kill between
	// the two would let a later run add to something unknown.
	if err := file.Truncate(have); err != nil {
		return 0, resumed, err
	}
	if _, err := file.Seek(have, io.SeekStart); err != nil {
		return 0, resumed, err
	}
	if f.SHA256 == "" {
		if err := atomicfile.WriteFile(f.of(), []byte(validator(resp)), 0o644); err != nil {
			return 0, resumed, err
		}
	}
	body := watch.Reader(io.LimitReader(resp.Body, f.Most-have+1), func(n int64) {
		if f.Progress != nil {
			f.Progress(have+n, total)
		}
	})
	if n, err = io.Copy(file, body); err == nil && f.SHA256 != "" && have+n < f.Most && resp.ContentLength < 0 {
		err = io.ErrUnexpectedEOF // it did not say how much it would send
	}
	switch disk := new(os.PathError); {
	case errors.As(err, &disk):
		return n, resumed, err
	case err != nil: // net/http tells of a body shorter than its announced length
		return n, resumed, &Cut{watch.Explain(err), have + n}
	case have+n > f.Most:
		return n, resumed, &Wrong{Size: have + n}
	}
	if err := file.Sync(); err != nil || f.SHA256 == "" {
		return n, resumed, err
	}
	return n, resumed, f.judge(ctx, file, have+n)
}

// judge says whether the first bytes of a file, so many, are what was wanted.
func (f File) judge(ctx context.Context, file *os.File, size int64) error {
	h := sha256.New()
	if _, err := io.Copy(h, regular.Until(ctx, io.NewSectionReader(file, 0, size))); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 || size != f.Most {
		return &Wrong{got, size}
	}
	return nil
}

// validator is what If-Range may hold: a strong ETag, else a date.
func validator(resp *http.Response) string {
	if tag := resp.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return resp.Header.Get("Last-Modified")
}

func removeIfThere(name string) error {
	if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
