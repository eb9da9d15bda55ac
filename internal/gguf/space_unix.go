//go:build unix

package gguf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// room returns the bytes that a user may still write in a folder.
func room(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(uint64(st.Bavail) * uint64(st.Bsize)), nil
}
