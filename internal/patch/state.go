package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/llpatch/llpatch/internal/source"
)

// state is the tree as the series has made it so far.
type state struct {
	base    *source.Tree
	changes map[string]*source.File // nil: deleted
	ids     map[string]string       // blob ids of changes, as far as they were asked for
	names   *names                  // made when a patch first adds a path
	texts   map[*byte]*text         // by where the content begins; nil: texts are not kept
	written int64                   // bytes of new content
	failed  []failed
	made    map[string]bool // paths that a patch of the series creates
	partial bool            // it has the patch's files alone, so where a missing one may be is not seen
	quiet   bool            // nobody reads what is said of it
	guess   bool            // an ambiguous hunk goes where git apply puts it
}

func newState(base *source.Tree) *state {
	return &state{base: base, changes: map[string]*source.File{}, ids: map[string]string{}}
}

// failed is a patch that did not fit, and the sorted paths that it touches.
type failed struct {
	name  string
	paths []string
}

// stat returns the mode of a file, and whether it is there.
func (s *state) stat(path string) (source.Mode, bool) {
	if f, ok := s.changes[path]; ok {
		if f == nil {
			return 0, false
		}
		return f.Mode, true
	}
	e, ok := s.base.Stat(path)
	return e.Mode, ok
}

// read returns a file; nil without an error if it is not there.
func (s *state) read(path string) (*source.File, error) {
	if f, ok := s.changes[path]; ok {
		return f, nil
	}
	f, err := s.base.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &f, nil
}

// blob returns the id of a file, "" if it is not there.
func (s *state) blob(path string) string {
	if f, ok := s.changes[path]; ok {
		if f == nil {
			return ""
		}
		if _, ok := s.ids[path]; !ok {
			s.ids[path] = blobID(f.Data)
		}
		return s.ids[path]
	}
	e, _ := s.base.Stat(path)
	return e.Blob
}

// blockedBy names the last failed patch that changes one of the paths.
func (s *state) blockedBy(paths ...string) string {
	for _, f := range slices.Backward(s.failed) {
		for _, path := range paths {
			if _, ok := slices.BinarySearch(f.paths, path); ok {
				return f.name
			}
		}
	}
	return ""
}

// index returns the names of the tree as it is now.
func (s *state) index() *names {
	if s.names != nil {
		return s.names
	}
	s.names = &names{count: map[string]int{}, fold: map[string][]string{}}
	for _, e := range s.base.Files() {
		if f, ok := s.changes[e.Path]; !ok || f != nil {
			s.names.add(e.Path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.changes)) {
		if _, ok := s.base.Stat(path); !ok && s.changes[path] != nil {
			s.names.add(path)
		}
	}
	return s.names
}
