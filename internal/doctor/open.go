package doctor

import (
	"io/fs"
	"os"
	"syscall"
)

// open opens a regular file. Opening a pipe would wait for somebody to write to it, and
// no context ends that: O_NONBLOCK does not wait, and what was opened is then looked at,
// so that nobody can exchange it in between.
func open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = notBundle(name, "is not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// isThere reports whether something of that name can be looked at, whatever it is.
func isThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func modeOf(name string) (fs.FileMode, error) {
	st, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return st.Mode(), nil
}
