package spec

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// IsOverlay reports whether a folder of declarations is no whole set, but is laid over
// another: it does not say in which order its fixes come.
func IsOverlay(fsys fs.FS) bool {
	_, err := fs.Stat(fsys, SeriesFile)
	return errors.Is(err, fs.ErrNotExist)
}

// Overlay returns the declarations of base with those of top over them, file by file: a
// file of top takes the place of base's. Fixes that only top has come last, by name. The
// files that llpatch itself keeps are base's.
func Overlay(top, base fs.FS) fs.FS { return overlay{top, base} }

type overlay struct{ top, base fs.FS }

// Open opens a file or a folder of either.
func (o overlay) Open(name string) (fs.File, error) {
	if name == SeriesFile {
		data, err := o.series()
		if err != nil {
			return nil, err
		}
		return &memory{Reader: strings.NewReader(data), name: path.Base(name), size: int64(len(data))}, nil
	}
	if name != RevisionsFile && name != LockFile && name != PageLockFile {
		f, err := o.top.Open(name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return o.base.Open(name)
}

// ReadDir lists what either has in a folder.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(o.top, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	below, berr := fs.ReadDir(o.base, name)
	if berr != nil && (err != nil || !errors.Is(berr, fs.ErrNotExist)) {
		return nil, berr
	}
	for _, e := range below {
		if !slices.ContainsFunc(all, func(t fs.DirEntry) bool { return t.Name() == e.Name() }) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// series is base's order with the fixes that only top has behind it.
func (o overlay) series() (string, error) {
	data, err := fs.ReadFile(o.base, SeriesFile)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\n") + "\n"
	folders, err := fs.ReadDir(o.top, "patches")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, d := range folders {
		if _, err := fs.Stat(o.base, path.Join("patches", d.Name())); d.IsDir() && errors.Is(err, fs.ErrNotExist) {
			text += d.Name() + "\n"
		}
	}
	return text, nil
}

// memory is a file that only an overlay has.
type memory struct {
	*strings.Reader
	name string
	size int64
}

var _ io.Reader = (*memory)(nil)

func (m *memory) Stat() (fs.FileInfo, error) { return m, nil }
func (m *memory) Close() error               { return nil }
func (m *memory) Name() string               { return m.name }
func (m *memory) Size() int64                { return m.size }
func (m *memory) Mode() fs.FileMode          { return 0o444 }
func (m *memory) ModTime() time.Time         { return time.Time{} }
func (m *memory) IsDir() bool                { return false }
func (m *memory) Sys() any                   { return nil }
