// Package disk tells how much room a disk has.
package disk

import "golang.org/x/sys/windows"

// Free returns the bytes that this user may still write to the file system of dir, and false where that cannot be told.
func Free(dir string) (free int64, ok bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var n uint64
	if err := windows.GetDiskFreeSpaceEx(name, &n, nil, nil); err != nil {
		return 0, false
	}
	return int64(min(n, 1<<62)), true //nolint:gosec // bounded
}
