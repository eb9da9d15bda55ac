package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// kindSniff is the kind of a source given on the command line: what it is shows
// when it is looked at.
const kindSniff = "sniff"

// try asks one source. One whose server did not answer is not asked again.
func (f *fetcher) try(ctx context.Context, s spec.Source, t tag.Tag, w want) (*Tree, error) {
	if err := f.down[s.Name]; err != nil {
		return nil, err
	}
	tree, err := f.dispatch(ctx, s, t, w)
	var network net.Error
	if errors.As(err, &network) && ctx.Err() == nil {
		f.down[s.Name] = err
	}
	return tree, err
}

func (f *fetcher) dispatch(ctx context.Context, s spec.Source, t tag.Tag, w want) (*Tree, error) {
	if s.Kind == "bundle" && s.NPM != "" {
		return f.fromNPM(ctx, s, t, w)
	}
	if _, ok := s.Tags[t.String()]; !ok && len(s.Tags) > 0 {
		return nil, errNoTag
	}
	at := strings.ReplaceAll(s.URL, "{tag}", t.String())
	at = localPath(at)
	kind := s.Kind
	if kind == kindSniff {
		var err error
		if kind, err = sniffAddress(at); err != nil {
			return nil, err
		}
	}
	if kind == "git" {
		if isRemote(at) {
			return f.fromRemote(ctx, at, t, w)
		}
		return f.fromLocal(ctx, at, t, w)
	}
	if !isRemote(at) {
		return f.fromFile(ctx, at, kind, t, w)
	}
	return f.fromURL(ctx, at, kind, t, w)
}

// fromLocal takes the tree from a repository in place, and notes its other tags
// where it lacks this one.
func (f *fetcher) fromLocal(ctx context.Context, path string, t tag.Tag, w want) (*Tree, error) {
	tree, err := f.fromRepository(ctx, path, t, w)
	if errors.Is(err, errNoTag) {
		tags, terr := repositoryTags(path)
		if terr != nil {
			return nil, terr
		}
		for _, other := range tags {
			f.offer(other)
		}
	}
	return tree, err
}

// fromFile takes the tree from a bundle, an npm tarball or a source tarball.
func (f *fetcher) fromFile(ctx context.Context, path, kind string, t tag.Tag, w want) (*Tree, error) {
	is, err := sniffFile(path)
	if err != nil {
		return nil, err
	}
	switch {
	case is == "bundle" && kind != "archive":
		return f.fromBundle(ctx, path, t, w)
	case is == "npm" && kind != "archive":
		if !w.numbered(t) {
			return nil, errNoBuild(t, "an npm package")
		}
		return f.intoCache(ctx, t, w, func(ctx context.Context, s *scratch) (found, error) {
			got, err := s.addBundleOf(ctx, path, "", t)
			if err != nil {
				return found{}, fmt.Errorf("%s: %w", path, err)
			}
			return got, nil
		})
	case is == "npm" || is == "archive" && kind != "bundle":
		return f.fromArchive(ctx, path, t, w)
	}
	return nil, fmt.Errorf("%s is of kind %s, not %s", path, is, kind)
}

// fromURL downloads a file and takes the tree from it.
func (f *fetcher) fromURL(ctx context.Context, address, kind string, t tag.Tag, w want) (_ *Tree, err error) {
	if f.Offline {
		return nil, errOffline
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	client := &http.Client{Transport: f.roundTripper(nil)}
	defer client.CloseIdleConnections()
	path, err := f.download(ctx, client, address, nil)
	if err != nil {
		return nil, err
	}
	tree, err := f.fromFile(ctx, path, kind, t, w)
	// Used up, or of no use: the next run must not find it.
	if rerr := removeIfThere(path); ctx.Err() == nil && rerr != nil {
		err = errors.Join(err, cacheError(rerr))
	}
	return tree, err
}

var (
	scpLike   = regexp.MustCompile(`^(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9.-]{2,}:[^/\\]`)
	fileNames = regexp.MustCompile(`\.(bundle|tgz|tar\.gz)$`)
)

// isRemote tells a URL, or git's user@host:path, from a path of this machine.
func isRemote(s string) bool {
	if strings.Contains(s, "://") {
		return true
	}
	if _, err := os.Lstat(s); err == nil {
		return false
	}
	return scpLike.MatchString(s)
}

// localPath is the path of a file:// address; any other stays what it is.
func localPath(address string) string {
	if path, ok := strings.CutPrefix(address, "file://"); ok {
		return filepath.FromSlash(path)
	}
	return address
}

// sniffAddress says what a source given on the command line is: "git", or
// "file" for something whose content decides.
func sniffAddress(s string) (string, error) {
	if isRemote(s) {
		if u, err := url.Parse(s); err == nil && fileNames.MatchString(u.Path) {
			return "file", nil
		}
		return "git", nil
	}
	fi, err := os.Stat(s)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("nothing is there: %w", fs.ErrNotExist)
	}
	if err != nil {
		return "", err
	}
	if fi.IsDir() {
		return "git", nil
	}
	return "file", nil
}

// sniffFile says what a file holds: "bundle", "npm" or "archive".
func sniffFile(path string) (string, error) {
	file, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // only read from
	head := make([]byte, 4)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("%s: %w", path, cutOff(err))
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("# v")):
		return "bundle", nil
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return sniffTarGz(path)
	}
	return "", fmt.Errorf("%s is neither a git bundle nor a .tar.gz", path)
}

// sniffTarGz tells an npm package, whose top folder is package, from a source
// tarball.
func sniffTarGz(path string) (string, error) {
	r, err := openTarGz(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.file.Close() }() // only read from
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, cutOff(err))
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if strings.HasPrefix(h.Name, "package/") {
			return "npm", nil
		}
		return "archive", nil
	}
}
