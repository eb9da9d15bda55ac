// Package atomicfile replaces files at once, on every system: whoever reads one
// sees the old content or the new one, also where the writer was killed.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file that is written beside the one whose place it is to take.
type File struct {
	*os.File
	name string
	over bool // committed, or cleaned up
}

// Prefix begins the names of files that are being written for name; one that is
// left over is of a program that was killed.
func Prefix(name string) string { return "." + filepath.Base(name) + ".new-" }

// Create begins a file that Commit puts in the place of name. It gets the
// permissions of the file that is there, else perm without the umask's.
func Create(name string, perm fs.FileMode) (*File, error) {
	old, err := os.Lstat(name)
	there := err == nil && old.Mode().IsRegular()
	// In the same folder, because only within one file system is renaming at once.
	temp := filepath.Join(filepath.Dir(name), Prefix(name)+rand.Text())
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_RDWR, perm)
	if err != nil {
		return nil, err
	}
	f := &File{File: file, name: name}
	if there {
		if err := os.Chmod(temp, old.Mode().Perm()); err != nil {
			return nil, errors.Join(err, f.Cleanup())
		}
	}
	return f, nil
}

// Commit puts the file in its place, with its content on the disk before that.
// Where it fails, what was there before is there, and nothing else.
func (f *File) Commit() error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		f.over = true
		return errors.Join(err, os.Remove(f.Name()))
	}
	f.over = true
	err := os.Rename(f.Name(), f.name)
	if err == nil {
		return nil
	}
	if link := new(os.LinkError); errors.As(err, &link) {
		err = &fs.PathError{Op: "replace", Path: f.name, Err: link.Err} // the temporary name is gone
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Cleanup removes what was written. After Commit it does nothing, so it may be
// deferred.
func (f *File) Cleanup() error {
	if f.over {
		return nil
	}
	f.over = true
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// WriteFile replaces the content of a file at once. perm is as in Create.
func WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := Create(name, perm)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		if p := new(fs.PathError); errors.As(err, &p) {
			p.Path = name // not the temporary name, which is gone
		}
		return errors.Join(err, f.Cleanup())
	}
	return f.Commit()
}
