package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
)

// NPM reads npm's configuration, and asks npm where no file and no variable names a registry.
func NPM(ctx context.Context, o Options) (*Registry, error) {
	f := newFetcher(ctx, o, "npm")
	if o.Offline {
		return nil, errOffline
	}
	rc, err := f.npmConfig(ctx, "")
	return &Registry{f: f, rc: rc}, err
}

// Registry is the registry that npm on this machine is configured for.
type Registry struct {
	f  *fetcher
	rc *npmConfig
}

// npmConfig is npm's configuration, which names a registry for the package.
func (f *fetcher) npmConfig(ctx context.Context, pkg string) (*npmConfig, error) {
	rc, err := loadNpmConfig(f.Dir)
	if err == nil && rc.registry(pkg) == "" {
		rc.values["registry"], err = askNpm(ctx)
	}
	return rc, err
}

// Unpack downloads a package, checks that it is the one that is pinned, and writes its files
// below dir, which is there.
func (r *Registry) Unpack(ctx context.Context, p spec.NPMPackage, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s: %w", p.Name, p.Version, err)
		}
	}()
	client := &http.Client{Transport: r.f.roundTripper(r.rc)}
	defer client.CloseIdleConnections()
	v, err := r.f.npmManifest(ctx, client, r.rc, p.Name, p.Version)
	if err != nil {
		return err
	}
	tarball, err := npmTarball(r.rc, p.Name, v.Dist.Tarball)
	if err != nil {
		return err
	}
	file, err := r.f.download(ctx, client, tarball.String(), r.rc.header(tarball))
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, removeIfThere(file))
		}
	}()
	if err := checkIntegrity(file, p.Integrity); err != nil {
		return err
	}
	return unpackTarGz(ctx, file, dir)
}

// unpackTarGz writes the regular files of an archive below dir.
func unpackTarGz(ctx context.Context, file, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // a folder that was only looked up
	in, err := openTarGz(file)
	if err != nil {
		return err
	}
	err = scanTar(ctx, in, maxEntries, func(e tarFile, data io.Reader) error {
		if e.hard != "" || e.mode == Symlink {
			return fmt.Errorf("%s is a link", e.path)
		}
		if err := root.MkdirAll(path.Dir(e.path), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if e.mode == Executable {
			mode = 0o755
		}
		out, err := root.OpenFile(e.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, data)
		return errors.Join(err, out.Close())
	})
	return errors.Join(err, in.finish())
}

// Settings is the text of an .npmrc by which npm reaches the same registry as llpatch, and
// nothing else that a user has set. It may hold credentials.
func (r *Registry) Settings() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(r.rc.values)) {
		if strings.HasPrefix(key, "//") || strings.HasSuffix(key, ":registry") ||
			slices.Contains([]string{"registry", "cafile", "proxy", "https-proxy", "noproxy"}, key) {
			fmt.Fprintf(&b, "%s=%s\n", key, r.rc.values[key])
		}
	}
	return b.String()
}

// Folder returns the files below a folder as a tree; links are refused.
func Folder(ctx context.Context, dir string) (*Tree, error) {
	files := map[string]File{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", path.Join(dir, p))
		}
		data, err := regular.ReadFile(path.Join(dir, p))
		files[p] = File{Mode: Regular, Data: data}
		return err
	})
	if err != nil {
		return nil, err
	}
	return New(files)
}
