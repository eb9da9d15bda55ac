//go:build !linux

package env

import (
	"errors"
	"os"
)

func freeSpace(string) (n int64, known bool) { return 0, false }

func mountedBelow(string) (string, error) { return "", nil }

func tryLock(*os.File, bool) (bool, error) {
	return false, errors.New("build roots are root file systems of Linux, and this is another system")
}
