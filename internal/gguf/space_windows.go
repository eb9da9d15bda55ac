package gguf

import (
	"fmt"
	"math"

	"golang.org/x/sys/windows"
)

// room returns the bytes that a user may still write in a folder.
func room(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(min(free, math.MaxInt64)), nil
}
