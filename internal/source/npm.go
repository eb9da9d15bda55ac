package source

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/download"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// maxManifest bounds what a registry says of one version, in bytes.
const maxManifest = 4 << 20

// npmVersion is the part of a registry's answer for one version that is used.
type npmVersion struct {
	Dist struct {
		Tarball   string `json:"tarball"`
		Integrity string `json:"integrity"`
	} `json:"dist"`
}

// fromNPM takes the tree from the git bundle inside an npm package, downloaded
// from the registry that npm on this machine is configured for.
func (f *fetcher) fromNPM(ctx context.Context, src spec.Source, t tag.Tag, w want) (*Tree, error) {
	f.offerPackaged(src)
	version, ok := src.Tags[t.String()]
	if !ok {
		return nil, fmt.Errorf("no known version of %s holds it (versions are known for %s)", src.NPM,
			strings.Join(slices.Sorted(maps.Keys(src.Tags)), ", "))
	}
	if f.Offline {
		return nil, errOffline
	}
	if !w.numbered(t) {
		return nil, errNoBuild(t, "an npm package")
	}
	rc, err := f.npmConfig(ctx, src.NPM)
	if err != nil {
		return nil, err
	}
	return f.intoCache(ctx, t, w, func(ctx context.Context, s *scratch) (found, error) {
		client := &http.Client{Transport: f.roundTripper(rc)}
		defer client.CloseIdleConnections()
		v, err := f.npmManifest(ctx, client, rc, src.NPM, version)
		if err != nil {
			return found{}, err
		}
		tarball, err := npmTarball(rc, src.NPM, v.Dist.Tarball)
		if err != nil {
			return found{}, err
		}
		path, err := f.download(ctx, client, tarball.String(), rc.header(tarball))
		if err != nil {
			return found{}, err
		}
		got, err := f.unpackNPM(ctx, s, path, v.Dist.Integrity, src.File, t)
		// Used up, or of no use: the next run must not find it.
		if rerr := removeIfThere(path); ctx.Err() == nil && rerr != nil {
			err = errors.Join(err, cacheError(rerr))
		}
		if err != nil {
			return found{}, fmt.Errorf("%s %s: %w", src.NPM, version, err)
		}
		return got, nil
	})
}

// offerPackaged notes the tags that a package is known to hold.
func (f *fetcher) offerPackaged(s spec.Source) {
	for name := range s.Tags {
		if other, err := tag.Parse(name); err == nil && s.NPM != "" && !f.Offline {
			f.offer(other)
		}
	}
}

// npmManifest asks the registry about one version of a package.
func (f *fetcher) npmManifest(ctx context.Context, c *http.Client, rc *npmConfig, pkg,
	version string,
) (v npmVersion, err error) {
	ctx, watch := download.NewWatch(ctx, f.stall)
	defer watch.Stop()
	u, err := url.Parse(rc.registry(pkg) + strings.ReplaceAll(pkg, "/", "%2f") + "/" + url.PathEscape(version))
	if err != nil {
		return v, fmt.Errorf("npm registry: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return v, err
	}
	req.Header = rc.header(u)
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return v, fmt.Errorf("GET %s: %w", redacted(u.String()), plain(watch.Explain(err)))
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return v, fmt.Errorf("GET %s: %s", redacted(u.String()), resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxManifest)).Decode(&v); err != nil {
		return v, fmt.Errorf("GET %s: %w", redacted(u.String()), watch.Explain(err))
	}
	if v.Dist.Tarball == "" {
		return v, fmt.Errorf("GET %s: the answer names no tarball", redacted(u.String()))
	}
	return v, nil
}

// askNpm asks the npm program which registry it uses: its built-in answer
// stands in no file that we read.
func askNpm(ctx context.Context) (string, error) {
	const hint = "set npm_config_registry, or put registry=URL into .npmrc"
	npm, err := run.LookPath("npm", os.Getenv("PATH"))
	if err != nil {
		return "", fmt.Errorf("no npm registry is set up, and there is no npm to ask; %s", hint)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	out, err := run.Output(ctx, run.Cmd{Argv: []string{npm, "config", "get", "registry"}, Env: env, Timeout: time.Minute})
	if err != nil {
		return "", fmt.Errorf("ask npm for its registry: %w", err)
	}
	reg := strings.TrimSpace(string(out))
	if u, err := url.Parse(reg); err != nil || u.Host == "" {
		return "", fmt.Errorf("npm names %q as its registry, which is no address; %s", reg, hint)
	}
	return reg, nil
}

// npmTarball is the address of a tarball. Where the answer names another server
// than the configured one, and the path is a registry's own, the configured
// server is asked: a mirror may pass on the public registry's answers unchanged.
func npmTarball(rc *npmConfig, pkg, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("address of the tarball: %w", err)
	}
	reg, err := url.Parse(rc.registry(pkg))
	if err != nil {
		return nil, fmt.Errorf("npm registry: %w", err)
	}
	own := "/" + pkg + "/-/"
	if i := strings.Index(u.Path, own); i >= 0 && u.Host != reg.Host {
		return reg.Parse(strings.TrimPrefix(u.Path[i:], "/"))
	}
	return u, nil
}

// unpackNPM checks a package's integrity and takes the bundle out of it.
func (f *fetcher) unpackNPM(ctx context.Context, s *scratch, path, integrity, file string, t tag.Tag) (found, error) {
	if err := checkIntegrity(path, integrity); err != nil {
		return found{}, err
	}
	return s.addBundleOf(ctx, path, file, t)
}

// addBundleOf takes the bundle named file, or where that is empty the first
// *.bundle, out of an npm tarball. The tarball is read to its end before anything
// is used.
func (s *scratch) addBundleOf(ctx context.Context, name, file string, t tag.Tag) (got found, err error) {
	r, err := openTarGz(name)
	if err != nil {
		return found{}, err
	}
	seen := false
	info := map[string]tag.Tag{}
	bundle := ""
	err = scanTar(ctx, r, maxEntries, func(e tarFile, r io.Reader) error {
		if e.mode == Regular && e.hard == "" && path.Base(e.path) == npmInfo {
			info[e.path] = tagOfInfo(r)
			return nil
		}
		if seen || e.mode == Symlink || e.hard != "" || (e.path != file &&
			(file != "" || !strings.HasSuffix(e.path, ".bundle"))) {
			return nil
		}
		seen, bundle = true, e.path
		var err error
		if got, err = s.addBundle(ctx, r, t); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
		return nil
	})
	if err := errors.Join(err, r.finish()); err != nil {
		return found{}, err
	}
	if !seen {
		if file == "" {
			file = "a git bundle"
		}
		return found{}, fmt.Errorf("the package does not hold %s", file)
	}
	if got.tells == (tag.Tag{}) {
		got.tells = info[infoOf(bundle)]
	}
	return got, nil
}

// checkIntegrity compares a file with a registry's sha512 integrity value.
func checkIntegrity(path, integrity string) error {
	for one := range strings.FieldsSeq(integrity) {
		alg, sum, _ := strings.Cut(one, "-")
		if alg != "sha512" {
			continue
		}
		sum, _, _ = strings.Cut(sum, "?") // options, of which there are none so far
		want, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return fmt.Errorf("integrity %q: %w", one, err)
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // only read from
		h := sha512.New()
		if _, err := io.Copy(h, file); err != nil {
			return err
		}
		if got := h.Sum(nil); string(got) != string(want) {
			return fmt.Errorf("the download has the sha512 %s, and should have %s", base64.StdEncoding.EncodeToString(got), sum)
		}
		return nil
	}
	return fmt.Errorf("the registry gives no sha512 integrity (%q)", integrity)
}
