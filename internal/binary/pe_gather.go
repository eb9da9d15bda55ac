package binary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/regular"
)

// gathering is a set of Windows files that grows by what they need.
type gathering struct {
	files []*File
	taken map[string]bool              // paths
	dirs  map[string]map[string]string // a folder's files by name in lower case
}

// GatherPE inspects Windows programs and libraries, all that lie in and below a
// folder where one is named, and what those need of the DLLs beside them. A File's
// Name is its path with slashes. A file that is named and is no PE file, or a broken
// one, is in the error, which joins them; the others are returned with it.
func GatherPE(ctx context.Context, paths []string) ([]*File, error) {
	g := &gathering{taken: map[string]bool{}, dirs: map[string]map[string]string{}}
	var errs []error
	for _, path := range paths {
		errs = append(errs, g.add(ctx, path))
	}
	// It grows while it is walked.
	for i := 0; i < len(g.files); i++ {
		errs = append(errs, g.needs(ctx, g.files[i]))
	}
	err := errors.Join(errs...)
	if err == nil && len(g.files) == 0 {
		err = fmt.Errorf("%s: %w", strings.Join(paths, ", "), ErrNoPE)
	}
	return g.files, err
}

// add takes a file, or the Windows files of a folder.
func (g *gathering) add(ctx context.Context, path string) error {
	if st, err := os.Stat(path); err != nil {
		return err
	} else if !st.IsDir() {
		return g.take(ctx, path)
	}
	var errs []error
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			errs = append(errs, err)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.Type().IsRegular():
			return nil
		}
		if is, err := isPE(p); err != nil || !is {
			errs = append(errs, err)
			return nil
		}
		if err := g.take(ctx, p); !errors.Is(err, ErrNoPE) { // MS-DOS programs begin alike
			errs = append(errs, err)
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// isPE reports whether a file begins as a Windows program does.
func isPE(path string) (bool, error) {
	f, err := regular.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read from
	magic := make([]byte, 2)
	if _, err := f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(magic) == "MZ", nil
}

func (g *gathering) take(ctx context.Context, path string) error {
	path = filepath.Clean(path)
	if g.taken[path] {
		return nil
	}
	g.taken[path] = true
	f, err := InspectContext(ctx, path)
	if errors.Is(err, ErrNotELF) || err == nil && f.PE == nil {
		return fmt.Errorf("%s: %w", path, ErrNoPE)
	}
	if err != nil {
		return err
	}
	f.Name = filepath.ToSlash(path)
	g.files = append(g.files, f)
	return nil
}

// needs takes the DLLs that a file needs and that lie beside it.
func (g *gathering) needs(ctx context.Context, f *File) error {
	dir := filepath.Dir(filepath.FromSlash(f.Name))
	names := g.dirs[dir]
	if names == nil {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		names = map[string]string{}
		for _, e := range entries {
			names[strings.ToLower(e.Name())] = e.Name()
		}
		g.dirs[dir] = names
	}
	var errs []error
	for _, dll := range f.Needed {
		dll = strings.ToLower(dll)
		if !strings.Contains(dll, ".") {
			dll += ".dll"
		}
		if name, ok := names[dll]; ok {
			errs = append(errs, g.take(ctx, filepath.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}
