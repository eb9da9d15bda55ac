package build

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
)

var sharedRE = regexp.MustCompile(`^lib[^/]+\.so(\.[0-9.]+)?$`)

// LibraryDirs returns the sorted folders of the shared libraries that a configured
// build folder links with, as its CMakeCache.txt has them. A toolkit keeps stubs to
// link with in a folder of their own; then it is the one above, with the real ones.
func LibraryDirs(dir string) ([]string, error) {
	cache, err := readCache(filepath.Join(dir, "CMakeCache.txt"))
	if err != nil {
		return nil, fmt.Errorf("libraries of the build: %w", err)
	}
	var dirs []string
	for _, value := range cache {
		if !filepath.IsAbs(value) || !sharedRE.MatchString(filepath.Base(value)) {
			continue
		}
		d := filepath.Dir(value)
		if filepath.Base(d) == "stubs" {
			d = filepath.Dir(d)
		}
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}
