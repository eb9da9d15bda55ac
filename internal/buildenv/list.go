package buildenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// List returns every root in the cache, by name and digest.
func List(cache string) ([]Info, error) {
	s, entries, err := folder(cache)
	var all []Info
	for _, e := range entries {
		if info, err := s.info(e.Name()); err == nil {
			all = append(all, info)
		}
	}
	return all, err
}

// Begun returns the roots in the cache that are being made, or whose making was
// stopped, with the bytes that they take so far.
func Begun(cache string) ([]Info, error) {
	s, entries, err := folder(cache)
	var all []Info
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), workSuffix)
		dir := s.path(e.Name())
		info, err := readInfo(dir, id)
		if !ok || err != nil {
			continue // not one, not llpatch's, or gone in this moment
		}
		info.Bytes = 0
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if st, err := d.Info(); err == nil {
					info.Bytes += st.Size()
				}
			}
			return nil // what is gone in this moment takes nothing
		})
		all = append(all, info)
	}
	return all, err
}

// folder lists what the cache has of roots; a cache without any has none.
func folder(cache string) (store, []fs.DirEntry, error) {
	s := store{dir: filepath.Join(cache, "env")}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	return s, entries, nil
}
