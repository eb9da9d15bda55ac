//go:build unix

package build

import "golang.org/x/sys/unix"

// fullBelow is the room under which a failure is put down to it: no step of a
// build gets far with less, and compilers that meet it say something else.
const fullBelow = 1 << 20

// diskFull reports whether the file system of dir has next to no room left.
func diskFull(dir string) bool {
	free, ok := FreeDisk(dir)
	return ok && free < fullBelow
}

// FreeDisk returns the bytes that this user may still write to the file system of
// dir, and false where that cannot be told.
func FreeDisk(dir string) (free int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(min(uint64(st.Bavail)*uint64(st.Bsize), 1<<62)), true //nolint:gosec // bounded
}
