package release

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/regular"
)

// writeZip packs what the folder dir holds as a zip, without dir itself at its top:
// entries sorted, the given time, and no mode, so that the same files give the same
// bytes. The compressor is pinned by go.mod for the same reason. It returns the
// SHA-256 of the archive. Names that Windows could not unpack are a *binary.Rejected.
func writeZip(ctx context.Context, file, dir string, when time.Time) (sum string, err error) {
	if err := checkZipNames(dir); err != nil {
		return "", fmt.Errorf("pack %s: %w", file, err)
	}
	out, err := atomicfile.Create(file, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Cleanup()) }()
	hash := sha256.New()
	zw := zip.NewWriter(io.MultiWriter(out, hash))
	zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.DefaultCompression)
	})
	// WalkDir goes in lexical order.
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		return addZipEntry(ctx, zw, p, filepath.ToSlash(rel), d, when)
	})
	if err := errors.Join(err, zw.Close()); err != nil {
		return "", fmt.Errorf("pack %s: %w", file, err)
	}
	if err := out.Commit(); err != nil {
		return "", fmt.Errorf("pack %s: %w", file, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
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
