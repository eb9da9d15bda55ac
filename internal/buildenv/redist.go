package buildenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/download"
)

// Platforms of NVIDIA's archives, as their list has them.
const (
	linuxArchives   = "linux-x86_64"
	windowsArchives = "windows-x86_64"
)

// maxList bounds the list of a release; that of CUDA 11.4.4 has 41,049 bytes.
const maxList = 8 << 20

// component is what redistrib_<release>.json says of one.
type component struct {
	Version string         `json:"version"`
	Linux   *redistArchive `json:"linux-x86_64"`
	Windows *redistArchive `json:"windows-x86_64"`
}

type redistArchive struct {
	Path   string `json:"relative_path"`
	SHA256 string `json:"sha256"`
	Size   string `json:"size"` // bytes
}

// updateRedist makes a lock of what the list of the release says.
func updateRedist(ctx context.Context, d Decl, o Options) (*Lock, error) {
	from := d.from(o)
	name := "redistrib_" + d.Redist.Release + ".json"
	bad := &Unavailable{Name: d.Name, Kind: NVIDIA, Package: name, URL: strings.TrimSuffix(from, "/") + "/" + name}
	data, err := fetchList(ctx, bad.URL, o.Stall)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		bad.Gone, bad.Err = errors.Is(err, fs.ErrNotExist), err
		return nil, bad
	}
	l, err := d.redistLock(data)
	if err != nil {
		bad.Err = err
		return nil, bad
	}
	d.Lock = l
	return l, d.CheckLock()
}

// redistLock makes a lock of a list.
func (d Decl) redistLock(data []byte) (*Lock, error) {
	var all map[string]json.RawMessage // and other things than components, such as the release's date
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("it is no list of archives: %w", err)
	}
	l := &Lock{Kind: NVIDIA, Suite: d.Redist.Release, Arch: d.Arch}
	for platform, names := range map[string][]string{linuxArchives: d.Redist.Linux, windowsArchives: d.Redist.Windows} {
		for _, n := range names {
			var c component
			if said, ok := all[n]; ok {
				if err := json.Unmarshal(said, &c); err != nil {
					return nil, fmt.Errorf("what it says of %s: %w", n, err)
				}
			}
			a := map[string]*redistArchive{linuxArchives: c.Linux, windowsArchives: c.Windows}[platform]
			if a == nil {
				return nil, fmt.Errorf("it has no %s for %s", n, platform)
			}
			size, err := strconv.ParseInt(a.Size, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("the size of %s for %s: %w", n, platform, err)
			}
			l.Packages = append(l.Packages, Package{
				Name: n, Version: c.Version, Arch: platform, Size: size, SHA256: a.SHA256,
				File: a.Path,
			})
		}
	}
	return l, l.sorted()
}

// from is the folder that a buildenv's archives come from.
func (d Decl) from(o Options) string {
	if o.Mirror != "" || d.Redist == nil {
		return o.Mirror
	}
	return d.Redist.URL
}

// fetchList fetches a list, all of it within stall. The error wraps fs.ErrNotExist where
// the server has none.
func fetchList(ctx context.Context, url string, stall time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stall, fmt.Errorf("no answer for %v", stall))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := newClient(nil).Do(req)
	if err != nil {
		return nil, download.Cause(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, fmt.Errorf("%s: %w", resp.Status, fs.ErrNotExist)
	default:
		return nil, fmt.Errorf("the server says %s", resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	if err != nil {
		return nil, download.Cause(ctx, err)
	}
	if len(data) > maxList {
		return nil, fmt.Errorf("it has more than %d bytes", maxList)
	}
	return data, nil
}

// version writes what an installed toolkit says of itself, which compilers read.
func (a *archives) version() error {
	for _, p := range a.decl.Lock.Packages {
		if p.Name == "cuda_cudart" && p.Arch == linuxArchives {
			return a.root.WriteFile("version.txt", fmt.Appendf(nil, "CUDA Version %s\n", p.Version), 0o644)
		}
	}
	return nil
}
