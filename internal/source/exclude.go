package source

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// excluder decides which paths of a tree are not written.
//
// A pattern is matched against the whole path from the top of the tree, with
// doublestar's rules: * and ? stop at a slash, ** does not, [a-z] and {a,b} are
// what they are in a shell. A pattern that matches a folder takes everything
// below it, so "docs", "docs/" and "docs/**" mean the same.
type excluder struct{ patterns []string }

func newExcluder(patterns []string) (excluder, error) {
	var x excluder
	for _, p := range patterns {
		clean := strings.TrimSuffix(p, "/")
		if clean == "" || strings.HasPrefix(clean, "/") || !doublestar.ValidatePattern(clean) {
			return excluder{}, fmt.Errorf("exclude %q is not a pattern for paths from the top of the tree", p)
		}
		x.patterns = append(x.patterns, clean)
	}
	return x, nil
}

// skips reports whether a file is excluded, by itself or by a folder above it.
func (x excluder) skips(path string) bool {
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		for _, p := range x.patterns {
			if doublestar.MatchUnvalidated(p, path[:i]) {
				return true
			}
		}
	}
	return false
}
