package smoke

import "golang.org/x/sys/windows"

var held [][]byte

// hold takes memory and keeps it.
func hold(mib int) { leak(mib << 20) }

// leak is hold for bytes.
func leak(bytes int) {
	b := make([]byte, bytes)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	held = append(held, b)
}

// share lets another socket have the same port.
func share(fd uintptr) error {
	return windows.SetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, windows.SO_REUSEADDR, 1)
}
