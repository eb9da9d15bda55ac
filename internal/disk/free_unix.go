//go:build unix

// Package disk tells how much room a disk has.
package disk

import "golang.org/x/sys/unix"

// Free returns the bytes that this user may still write to the file system of dir, and false where that cannot be told.
func Free(dir string) (free int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(min(uint64(st.Bavail)*uint64(st.Bsize), 1<<62)), true //nolint:gosec // bounded
}
