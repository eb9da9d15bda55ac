package bundle

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	gzip "github.com/klauspost/pgzip"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
)

// writeTarGz packs what the folder dir holds as one tar.gz, in a folder called as the
// archive is: entries sorted, the given time, owner 0, and only the modes 0644 and 0755,
// so that the same files give the same bytes. The compressor is pinned by go.mod for the
// same reason, and so is the size of its blocks: what it makes of a block does not depend
// on how many processors work. It returns the SHA-256 of the archive.
func writeTarGz(ctx context.Context, file, dir string, when time.Time) (string, error) {
	top := strings.TrimSuffix(filepath.Base(file), "."+spec.TarGz)
	return writeArchive(ctx, file, dir, func(to io.Writer) (writer, error) {
		gz, err := gzip.NewWriterLevel(to, gzip.DefaultCompression)
		if err != nil {
			return writer{}, err
		}
		if err := gz.SetConcurrency(1<<20, runtime.GOMAXPROCS(0)+1); err != nil {
			return writer{}, err
		}
		tw := tar.NewWriter(gz)
		return writer{
			add: func(p, name string, d fs.DirEntry) error { return addEntry(ctx, tw, p, path.Join(top, name), d, when) },
			end: func() error { return errors.Join(tw.Close(), gz.Close()) },
		}, nil
	})
}

// writer writes an archive of one form.
type writer struct {
	add func(file, name string, d fs.DirEntry) error // a file or folder, by its name with slashes
	end func() error
}

// writeArchive writes an archive of what lies below the folder dir, in lexical order, and
// returns its SHA-256. It gets its place when it is whole.
func writeArchive(ctx context.Context, file, dir string, begin func(io.Writer) (writer,
	error),
) (sum string, err error) {
	out, err := atomicfile.Create(file, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Cleanup()) }()
	hash := sha256.New()
	w, err := begin(io.MultiWriter(out, hash))
	if err != nil {
		return "", err
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return w.add(filepath.Join(dir, name), name, d)
	})
	if err := errors.Join(err, w.end()); err != nil {
		return "", fmt.Errorf("pack %s: %w", file, err)
	}
	if err := out.Commit(); err != nil {
		return "", fmt.Errorf("pack %s: %w", file, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func addEntry(ctx context.Context, tw *tar.Writer, file, name string, d fs.DirEntry, when time.Time) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, ModTime: when.UTC(), Format: tar.FormatPAX, Mode: 0o644}
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	switch {
	case d.IsDir():
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
		return tw.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		if h.Linkname, err = os.Readlink(file); err != nil {
			return err
		}
		if !regular.Beside(h.Linkname) {
			return &binary.Rejected{File: file, Fault: fmt.Sprintf("is a link to %s, out of its folder", h.Linkname)}
		}
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
		return tw.WriteHeader(h)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file, a folder nor a link", file)
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(tw, regular.Until(ctx, f))
	return errors.Join(err, f.Close())
}
