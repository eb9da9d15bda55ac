// Package regular reads files of others: one that is no regular file is refused and not
// waited for, and a read of a large one ends with its context. It also
// tells whether a link stays in its folder.
package regular

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// ErrNot is wrapped by the error for what is there and is no regular file.
var ErrNot = errors.New("it is not a regular file")

// Open opens a regular file to read. Opening a pipe would wait for somebody to write to
// it, and no context ends that: O_NONBLOCK does not wait, and what was opened is then
// looked at, so that nobody can exchange it in between. The error is a *fs.PathError.
func Open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNot}
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNot}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile is os.ReadFile for a regular file.
func ReadFile(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(f)
}

// Sum returns the SHA-256 of a regular file, in hexadecimal.
func Sum(ctx context.Context, name string) (string, error) {
	f, err := Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, Until(ctx, f)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Copy writes the content of a regular file, piece by piece, to another file, which it makes
// where it is not there.
func Copy(ctx context.Context, from, to string, mode fs.FileMode) error {
	in, err := Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, Until(ctx, in))
	return errors.Join(err, out.Close())
}

// Until returns a reader of r that gives the context's error once ctx has ended.
func Until(ctx context.Context, r io.Reader) io.Reader { return until{ctx: ctx, r: r} }

// UntilAt is Until for an io.ReaderAt.
func UntilAt(ctx context.Context, r io.ReaderAt) io.ReaderAt { return until{ctx: ctx, at: r} }

type until struct {
	ctx context.Context
	r   io.Reader
	at  io.ReaderAt
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

func (u until) ReadAt(p []byte, off int64) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.at.ReadAt(p, off)
}

// Inside returns where a link leads that stands at a path of a folder, both with slashes, and whether that is in the
// folder. Only the way up counts, not what a folder on it may link to in turn: whoever writes does not write through
// links. A backslash is a separator on some systems, and leads out.
func Inside(at, to string) (string, bool) {
	where := path.Join(path.Dir(at), to)
	out := to == "" || path.IsAbs(to) || strings.Contains(to, `\`) || where == ".." || strings.HasPrefix(where, "../")
	return where, !out
}

// Beside tells whether a link leads to an entry of its own folder, and neither to that folder nor to the one above.
func Beside(to string) bool {
	return to == path.Base(to) && to != "." && to != ".." && !strings.Contains(to, `\`)
}
