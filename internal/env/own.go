package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OwnLock returns where the lock of a buildenv lies that was made anew on this
// machine, for a declaration that has no folder to keep it in.
func OwnLock(cache, name string) string {
	return filepath.Join(cache, "env", name+".packages.lock")
}

// WithOwnLock returns the declaration with the lock that counts: the one made on
// this machine, if there is one, and own is then its file. A lock that cannot be
// read is an error that names the file and the way out.
func (d Decl) WithOwnLock(cache string) (_ Decl, own string, err error) {
	own = OwnLock(cache, d.Name)
	data, err := readRegular(own)
	if errors.Is(err, fs.ErrNotExist) {
		return d, "", nil
	}
	if err == nil {
		d.Lock, err = ParseLock(data)
	}
	if err != nil {
		return d, own, fmt.Errorf("%s: %w; llpatch env create %s --update-lock writes it anew", own, err, d.Name)
	}
	return d, own, nil
}

// readRegular reads a file, and not a pipe that nobody writes to.
func readRegular(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	return os.ReadFile(name)
}
