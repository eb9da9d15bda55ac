package buildenv

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/regular"
)

// OwnLock returns where the lock of a buildenv lies that was made anew on this
// machine, for a declaration that has no folder to keep it in.
func OwnLock(cache, name string) string {
	return filepath.Join(cache, "env", name+".packages.lock")
}

// WithOwnLock returns the declaration with the lock that counts: the one made on
// this machine, if there is one, and own is then its file. A lock that cannot be
// read is a *BadLock.
func (d Decl) WithOwnLock(cache string) (_ Decl, own string, err error) {
	own = OwnLock(cache, d.Name)
	data, err := regular.ReadFile(own)
	if errors.Is(err, fs.ErrNotExist) {
		return d, "", nil
	}
	if err == nil {
		d.Lock, err = ParseLock(data)
	}
	if p := new(fs.PathError); errors.As(err, &p) {
		err = p.Err // BadLock names the file
	}
	if err != nil {
		return d, own, &BadLock{File: own, Name: d.Name, Err: err}
	}
	return d, own, nil
}

// BadLock is a lock made on this machine that cannot be read.
type BadLock struct {
	File string
	Name string // of the buildenv
	Err  error
}

// Error names the file, the fault and the way out.
func (e *BadLock) Error() string {
	return fmt.Sprintf("%s: %v; llpatch env create %s --update-lock writes it anew", e.File, e.Err, e.Name)
}

// ExitCode is exit.Declaration.
func (e *BadLock) ExitCode() int { return exit.Declaration }

// Unwrap returns Err.
func (e *BadLock) Unwrap() error { return e.Err }
