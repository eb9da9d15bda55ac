package bundle

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/regular"
)

// writeZip packs what the folder dir holds as a zip, without dir itself at its top:
// entries sorted, the given time, and no mode, so that the same files give the same
// bytes. The compressor is pinned by go.mod for the same reason. It returns the
// SHA-256 of the archive. Names that Windows could not unpack are a *binary.Rejected.
func writeZip(ctx context.Context, file, dir string, when time.Time) (string, error) {
	if err := checkZipNames(dir); err != nil {
		return "", fmt.Errorf("pack %s: %w", file, err)
	}
	return writeArchive(ctx, file, dir, func(to io.Writer) (writer, error) {
		zw := zip.NewWriter(to)
		zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
			return flate.NewWriter(w, flate.DefaultCompression)
		})
		add := func(p, name string, d fs.DirEntry) error {
			if d.IsDir() {
				return nil
			}
			return addZipEntry(ctx, zw, p, name, d, when)
		}
		return writer{add: add, end: zw.Close}, nil
	})
}

func addZipEntry(ctx context.Context, zw *zip.Writer, file, name string, d fs.DirEntry, when time.Time) error {
	if !d.Type().IsRegular() {
		return &binary.Rejected{File: file, Fault: "is no plain file, and Windows could not unpack it"}
	}
	w, err := zw.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: when.UTC()})
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, regular.Until(ctx, f))
	return errors.Join(err, f.Close())
}
