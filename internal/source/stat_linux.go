package source

import (
	"io/fs"
	"syscall"
)

// identity is what no program can set back on a file: when its inode was last
// changed, in nanoseconds since 1970, and the inode's number.
func identity(fi fs.FileInfo) (ctime int64, inode uint64) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano(), st.Ino
	}
	return 0, 0
}
