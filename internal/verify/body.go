package verify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/regular"
)

// body is what an archive holds, in one file or, where that is not there, in its parts.
type body struct {
	files []*os.File
	ends  []int64 // where each ends in the whole
	parts int     // 0: it is one file
}

// openBody opens an archive, or its parts. What is no regular file is a *NotArchive.
func openBody(name string) (*body, error) {
	b := new(body)
	err := b.add(name)
	if errors.Is(err, fs.ErrNotExist) {
		var parts []string
		if parts, err = partsBeside(name); err == nil && len(parts) == 0 {
			err = missing(name)
		}
		for _, part := range parts {
			err = errors.Join(err, b.add(filepath.Join(filepath.Dir(name), part)))
		}
		b.parts = len(parts)
	}
	if errors.Is(err, regular.ErrNot) {
		err = &NotArchive{name, "is no regular file"}
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// missing says that there is no such archive, or what a link to it is worth.
func missing(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return &NotArchive{name, "is a link to what is not there"}
	}
	return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (b *body) add(name string) error {
	f, err := regular.Open(name)
	if err != nil {
		return err
	}
	b.files = append(b.files, f)
	st, err := f.Stat()
	if err != nil {
		return err
	}
	b.ends = append(b.ends, b.size()+st.Size())
	return nil
}

// Close closes the files.
func (b *body) Close() (err error) {
	for _, f := range b.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

func (b *body) size() int64 {
	if len(b.ends) == 0 {
		return 0
	}
	return b.ends[len(b.ends)-1]
}

func (b *body) reader() *io.SectionReader { return io.NewSectionReader(b, 0, b.size()) }

// ReadAt is io.ReaderAt's, over all files.
func (b *body) ReadAt(p []byte, off int64) (n int, err error) {
	for i, end := range b.ends {
		begin := int64(0)
		if i > 0 {
			begin = b.ends[i-1]
		}
		if off >= end || n == len(p) {
			continue
		}
		want := p[n:]
		want = want[:min(int64(len(want)), end-off)]
		m, err := b.files[i].ReadAt(want, off-begin)
		n, off = n+m, off+int64(m)
		if m < len(want) {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s became shorter while it was read", b.files[i].Name())
			}
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// partsBeside are the names of an archive's parts in its folder, in their order.
func partsBeside(name string) (parts []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(name))
	for _, e := range entries {
		if of, is := bundle.PartOf(e.Name()); is && of == filepath.Base(name) {
			parts = append(parts, e.Name())
		}
	}
	slices.Sort(parts)
	return parts, err
}
