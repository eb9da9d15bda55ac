package buildenv

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/llpatch/llpatch/internal/download"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/regular"
)

// Unavailable says that a package cannot be had as the lock has it.
type Unavailable struct {
	Name    string
	Kind    string // of the buildenv: Debian, NVIDIA or Python, or Rust for its library; empty: Debian
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
	head := fmt.Sprintf("buildenv %s: package %s %s", e.Name, e.Package, e.Version)
	next := fmt.Sprintf("llpatch env create %s --update-lock takes what the mirror has now, and --mirror URL another "+
		"mirror, such as a snapshot of that time", e.Name)
	if e.Kind == NVIDIA {
		next = fmt.Sprintf("--mirror URL takes another folder with the same layout; llpatch env create %s --update-lock "+
			"takes what the list there says now", e.Name)
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
	case e.Kind == Rust:
		if e.Err == nil {
			return fmt.Sprintf("%s is not what env.toml asks for: %s\n  wanted is SHA-256 %s\n  this has          %s", head,
				e.URL, e.Want, e.Got)
		}
		return fmt.Sprintf("%s: %s: %v\n  --mirror FOLDER takes %s-%s.crate, where it lies there", head, e.URL, e.Err,
			e.Package, e.Version)
	case e.Gone && e.Want == "": // a list
		return fmt.Sprintf("buildenv %s: %s is not there\n  --mirror URL takes another folder with the same layout", e.Name,
			e.URL)
	case e.Want == "":
		return fmt.Sprintf("buildenv %s: %s: %v\n  --mirror URL takes another folder with the same layout", e.Name, e.URL,
			e.Err)
	case e.Gone:
		return fmt.Sprintf("%s is gone from the mirror: %s\n  %s wants SHA-256 %s, the mirror has no such file\n  %s", head,
			e.URL, lock, e.Want, next)
	case e.GotSize > e.Size: // what came of it has a hash, and that is nobody's
		return fmt.Sprintf("%s is not what %s has: %s\n  the sizes differ: %[2]s says %[4]d bytes, and the mirror sends "+
			"more\n  %[5]s", head, lock, e.URL, e.Size, next)
	case e.Got != "" && e.GotSize != e.Size:
		return fmt.Sprintf("%s is not what %s has: %s\n  %[2]s wants SHA-256 %[4]s, %[5]d bytes\n  the mirror sent        "+
			"%[6]s, %[7]d bytes\n  %[8]s", head, lock, e.URL, e.Want, e.Size, e.Got, e.GotSize, next)
	case e.Got != "":
		return fmt.Sprintf("%s is not what %s has: %s\n  %[2]s wants SHA-256 %[4]s\n  the mirror sent        %[5]s\n  %[6]s",
			head, lock, e.URL, e.Want, e.Got, next)
	}
	kept := "; what came is kept, the same command goes on from there"
	if errors.As(e.Err, new(*download.Cut)) { // says it itself
		kept = ""
	}
	return fmt.Sprintf("%s: %s: %v%s", head, e.URL, e.Err, kept)
}

// ExitCode is exit.Source.
func (e *Unavailable) ExitCode() int { return exit.Source }

// Unwrap returns Err.
func (e *Unavailable) Unwrap() error { return e.Err }

const (
	dialTimeout = 15 * time.Second
	// parallel is how many packages come at a time, as apt has it for one host.
	parallel = 4
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
	from, err := url.Parse(d.url(p))
	if err != nil {
		return 0, err
	}
	last := int64(0)
	n, err := download.File{
		Client: d.client, URL: from, Name: d.file(p), Most: p.Size, SHA256: p.SHA256, Stall: d.stall,
		Progress: func(done, _ int64) { d.report(done - last); last = done },
	}.Get(ctx)
	if disk := new(fs.PathError); err == nil || ctx.Err() != nil || errors.As(err, &disk) {
		return n, err
	}
	d.report(-last)
	bad := &Unavailable{
		Name: d.env, Kind: d.kind, Fresh: d.fresh, Package: p.Name, Version: p.Version, URL: d.url(p),
		Want: p.SHA256, Size: p.Size, Err: err,
	}
	var status *download.Status
	bad.Gone = errors.As(err, &status) && status.Gone()
	if wrong := new(download.Wrong); errors.As(err, &wrong) {
		bad.Err, bad.Got, bad.GotSize = nil, wrong.SHA256, wrong.Size
	}
	return n, bad
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
	sum, err := regular.Sum(ctx, name)
	return err == nil && sum == p.SHA256
}
