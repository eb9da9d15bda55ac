package leak

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/llpatch/llpatch/internal/lock"
)

// folderLock marks a folder as one of these, and is locked while a run uses it.
const folderLock = ".lock"

// maxFolders bounds how many runs of one program there are at a time.
const maxFolders = 100

// Folder makes a folder for the files of a run of program, empty, and returns its
// absolute path: parent/NAME, or NAME-2 and so on where another run is using that
// or it holds what is somebody else's. What the last run left in it is removed.
// done must be called when the run is over; it removes what holds nothing.
func Folder(parent, program string) (dir string, done func(), err error) {
	name := filepath.Base(program)
	if name == "." || name == ".." || name == string(filepath.Separator) {
		name = "program"
	}
	if parent, err = filepath.Abs(parent); err != nil {
		return "", nil, err
	}
	var made []string // folders above it that llpatch makes, the innermost first
	for d := parent; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, d)
	}
	for i := range maxFolders {
		dir = filepath.Join(parent, name)
		if i > 0 {
			dir += fmt.Sprintf("-%d", i+1)
		}
		held, err := claim(dir)
		if err != nil {
			return "", nil, fmt.Errorf("folder for the run: %w", err)
		}
		if held != nil {
			return dir, func() { release(held, dir, made) }, nil
		}
	}
	return "", nil, fmt.Errorf("folder for the run: %s and %d more are in use, or not llpatch's; --out DIR takes "+
		"another place", filepath.Join(parent, name), maxFolders-1)
}

// release gives up a folder; where nothing was written, it removes it, and those
// that were made for it.
func release(held *os.File, dir string, made []string) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 1 {
		// Before the lock is given up: another run that waits for it must not get a
		// lock on a file that is gone (claim looks).
		_ = os.Remove(held.Name())
		for _, d := range append([]string{dir}, made...) {
			if os.Remove(d) != nil {
				break // it holds something
			}
		}
	}
	_ = held.Close() // it ends with the program anyway
}

// claim empties a folder and keeps it; nil where it belongs to another.
func claim(dir string) (*os.File, error) {
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
	held, ok, err := lock.Try(file, false)
	if !ok {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != folderLock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}
