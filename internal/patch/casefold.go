package patch

import (
	"slices"
	"strings"
)

// names knows every file and folder of a tree, and which of them a file system
// that ignores case would take for one another.
type names struct {
	count map[string]int      // files at or below a path
	fold  map[string][]string // paths by their lower-case form
}

// prefixes yields the folders of a path from the top, and then the path.
func prefixes(path string, yield func(string) bool) {
	for i := range len(path) {
		if path[i] == '/' && !yield(path[:i]) {
			return
		}
	}
	yield(path)
}

func (n *names) add(path string) {
	prefixes(path, func(p string) bool {
		if n.count[p]++; n.count[p] == 1 {
			f := strings.ToLower(p)
			n.fold[f] = append(n.fold[f], p)
		}
		return true
	})
}

func (n *names) remove(path string) {
	prefixes(path, func(p string) bool {
		if n.count[p]--; n.count[p] > 0 {
			return true
		}
		delete(n.count, p)
		f := strings.ToLower(p)
		if n.fold[f] = slices.DeleteFunc(n.fold[f], func(s string) bool { return s == p }); len(n.fold[f]) == 0 {
			delete(n.fold, f)
		}
		return true
	})
}

// twin returns an existing name that differs from the path, or from a folder on
// its way, in case only.
func (n *names) twin(path string) (twin string) {
	prefixes(path, func(p string) bool {
		for _, other := range n.fold[strings.ToLower(p)] {
			if other != p {
				twin = other
				return false
			}
		}
		return true
	})
	return twin
}
