package lock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

func try(f *os.File, shared bool) (bool, error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, math.MaxUint32, math.MaxUint32, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}
