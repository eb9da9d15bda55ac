package doctor

import (
	"errors"
	"io/fs"
	"os"

	"github.com/llpatch/llpatch/internal/regular"
)

// open is regular.Open for what is to be a bundle's.
func open(name string) (*os.File, error) {
	f, err := regular.Open(name)
	if errors.Is(err, regular.ErrNot) {
		err = notBundle(name, "%v", regular.ErrNot)
	}
	return f, err
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
