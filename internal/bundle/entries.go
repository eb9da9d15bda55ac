package bundle

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/flate"
	gzip "github.com/klauspost/pgzip"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
)

// Bounds for archives of others: upstream's largest hold some hundred files, and a full one with
// CUDA some 2 GiB.
const (
	MaxEntries  = 10_000
	MaxFile     = 8 << 30  // bytes of one file
	maxUnpacked = 32 << 30 // of all
	maxBehind   = 16 << 20 // behind the last file
)

// ErrTooMuch says that an archive is beyond those bounds.
var ErrTooMuch = errors.New("it holds more than any bundle does")

// bounds count what an archive has had so far.
type bounds struct {
	entries int
	bytes   int64
}

func (b *bounds) add(size int64) error {
	if b.entries++; b.entries > MaxEntries || size < 0 || size > MaxFile {
		return ErrTooMuch
	}
	if b.bytes += size; b.bytes > maxUnpacked {
		return ErrTooMuch
	}
	return nil
}

// ReadTar calls each with every entry of a tar and what it holds; names and links are as they
// stand there. It leaves what stands behind the last entry to Behind. The error is ErrTooMuch,
// that of each, or of reading.
func ReadTar(ctx context.Context, r io.Reader, each func(*tar.Header, io.Reader) error) error {
	// Headers without files are bounded too, with room for each entry's.
	limit := &io.LimitedReader{R: r, N: maxUnpacked + MaxEntries*(4<<10)}
	tr := tar.NewReader(limit)
	var b bounds
	for {
		e, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case limit.N <= 0:
			return ErrTooMuch
		case err != nil:
			return err
		}
		// A sparse file takes less of the archive than of the disk.
		if err := b.add(e.Size); err != nil {
			return err
		}
		if err := each(e, regular.Until(ctx, tr)); err != nil {
			return err
		}
	}
}

// Behind reads to the end of a compressed archive, where the compressor's own check stands, and
// returns how many bytes stand behind what ReadTar has read.
func Behind(r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, io.LimitReader(r, maxBehind+1))
	if err == nil && n > maxBehind {
		err = ErrTooMuch
	}
	return n, err
}

// ReadZip is ReadTar for a zip of so many bytes: files are tar.TypeReg, folders tar.TypeDir, and
// anything else is tar.TypeChar. It returns the zip's comment.
func ReadZip(ctx context.Context, f io.ReaderAt, size int64,
	each func(*tar.Header, io.Reader) error,
) (comment string, err error) {
	// The section refuses offsets that a damaged directory leads to.
	z, err := zip.NewReader(io.NewSectionReader(regular.UntilAt(ctx, f), 0, size), size)
	if err != nil {
		return "", err
	}
	z.RegisterDecompressor(zip.Deflate, flate.NewReader) // twice as fast as the library's own
	var b bounds
	for _, e := range z.File {
		h := &tar.Header{Name: e.Name, Size: int64(min(e.UncompressedSize64, MaxFile+1)), Mode: int64(e.Mode().Perm())}
		if err := b.add(h.Size); err != nil {
			return z.Comment, err
		}
		switch mode := e.Mode(); {
		case e.FileInfo().IsDir():
			h.Typeflag = tar.TypeDir
		case mode.IsRegular():
			h.Typeflag = tar.TypeReg
		default:
			h.Typeflag = tar.TypeChar
		}
		r, err := e.Open()
		if err != nil {
			return z.Comment, err
		}
		err = each(h, regular.Until(ctx, io.LimitReader(r, MaxFile)))
		if err := errors.Join(err, r.Close()); err != nil {
			return z.Comment, err
		}
	}
	return z.Comment, nil
}

// Unpack writes what an archive of ours holds into the empty folder dir, without the folder at
// its top, and without times. It writes nothing outside of dir, whatever the archive's names and
// links are.
func Unpack(ctx context.Context, archive, dir string) error {
	f, err := regular.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if strings.HasSuffix(archive, "."+spec.Zip) {
		st, err := f.Stat()
		if err == nil {
			_, err = ReadZip(ctx, f, st.Size(), func(e *tar.Header, r io.Reader) error {
				return unpackEntry(root, e.Name, e, r)
			})
		}
		return err
	}
	gz, err := gzip.NewReader(regular.Until(ctx, f))
	if err != nil {
		return err
	}
	defer func() { _ = gz.Close() }()
	return ReadTar(ctx, gz, func(e *tar.Header, r io.Reader) error {
		_, name, _ := strings.Cut(e.Name, "/")
		return unpackEntry(root, name, e, r)
	})
}

func unpackEntry(root *os.Root, name string, e *tar.Header, r io.Reader) error {
	if name = path.Clean(name); name == "." {
		return nil
	}
	local := filepath.FromSlash(name)
	if err := root.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return err
	}
	switch e.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(local, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(e.Linkname, local)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%s is neither a file, a folder nor a link", name)
	}
	out, err := root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	if err == nil && e.Mode&0o111 != 0 {
		err = out.Chmod(0o755)
	}
	return errors.Join(err, out.Close())
}
