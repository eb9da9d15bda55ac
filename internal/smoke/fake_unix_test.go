//go:build unix

package smoke

import (
	"os"

	"golang.org/x/sys/unix"
)

// hold takes memory outside of Go's heap, which is larger under -race.
func hold(mib int) { leak(mib << 20) }

// leak is hold for bytes.
func leak(bytes int) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}

// share lets another socket have the same port.
func share(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
