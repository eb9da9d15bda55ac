package stage

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// LibraryDirs are the folders that a full bundle's libraries are taken from: those that the
// build in the folder dir linked with, below root where it is not empty; or every folder of
// root, where the recipe's bundle names it.
func LibraryDirs(dir, root string, b spec.Bundle) ([]string, error) {
	if root != "" && b.Libraries != "" {
		return foldersBelow(root)
	}
	dirs, err := build.LibraryDirs(dir)
	if root != "" {
		for i := range dirs {
			dirs[i] = filepath.Join(root, dirs[i])
		}
	}
	return dirs, err
}

// foldersBelow lists the folders of a root that hold files, in lexical order.
func foldersBelow(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if dir := filepath.Dir(p); err == nil && !d.IsDir() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return err
	})
	return dirs, err
}
