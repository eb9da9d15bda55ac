package leak

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// folderLock marks a folder as one of these, and is locked while a run uses it.
const folderLock = ".lock"

// maxFolders bounds how many runs of one program there are at a time.
const maxFolders = 100

// Folder makes a folder for the files of a run of program, empty, and returns its
// absolute path: parent/NAME, or NAME-2 and so on where another run is using that
// or it holds what is somebody else's. What the last run left in it is removed.
// done must be called when the run is over.
func Folder(parent, program string) (dir string, done func(), err error) {
	name := filepath.Base(program)
	if name == "." || name == ".." || name == string(filepath.Separator) {
		name = "program"
	}
	if parent, err = filepath.Abs(parent); err != nil {
		return "", nil, err
	}
	for i := range maxFolders {
		dir = filepath.Join(parent, name)
		if i > 0 {
			dir += fmt.Sprintf("-%d", i+1)
		}
		lock, err := claim(dir)
		if err != nil {
			return "", nil, fmt.Errorf("folder for the run: %w", err)
		}
		if lock != nil {
			return dir, func() { _ = lock.Close() }, nil // the lock ends with the program anyway
		}
	}
	return "", nil, fmt.Errorf("folder for the run: %s and %d more are in use, or not llpatch's; --out DIR takes another place", filepath.Join(parent, name), maxFolders-1)
}

// claim empties a folder and keeps it; nil where it belongs to another.
func claim(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, folderLock)
	if st, err := os.Lstat(file); len(before) > 0 && (err != nil || !st.Mode().IsRegular()) {
		return nil, nil
	}
	lock := flock.New(file)
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(err, lock.Close())
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != folderLock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}
