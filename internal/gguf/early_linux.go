package gguf

import (
	"os"

	"golang.org/x/sys/unix"
)

// begin tells the kernel to start writing n bytes from off to the disk, and does
// not wait. Else a model that fits the page cache would lie there until it is
// whole, and the disk would have nothing to do while it is made. It is advice:
// where it fails, the sync at the end does all the work.
func begin(f *os.File, off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}
