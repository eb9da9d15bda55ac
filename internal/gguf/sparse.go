package gguf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/llpatch/llpatch/internal/regular"
)

// Sparse writes a model to dir as its header and a hole for its weights, each file under its
// own name, and returns the first. llama.cpp takes a file only at its full length, and a dry
// run reads no more than the header. Of a model in several files path is the first.
func Sparse(path, dir string) (string, error) {
	h, err := readOne(path)
	if err != nil {
		return "", err
	}
	for no := range max(h.Split.Count, 1) {
		from := path
		if no > 0 {
			from = h.Split.part(path, no)
			if h, err = readOne(from); err != nil {
				return "", err
			}
		}
		if err := h.sparse(from, filepath.Join(dir, filepath.Base(from))); err != nil {
			return "", fmt.Errorf("copy the header of %s: %w", from, err)
		}
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

func (h *Header) sparse(from, to string) (err error) {
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	if _, err := io.Copy(out, io.LimitReader(in, h.DataOffset)); err != nil {
		return err
	}
	end := h.DataOffset
	for _, t := range h.Tensors {
		end = max(end, h.DataOffset+int64(align(t.Offset+t.Bytes)))
	}
	return out.Truncate(end)
}
