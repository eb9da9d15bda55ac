package env

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that a user may still write in dir.
func freeSpace(dir string) (n int64, known bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(uint64(st.Bavail) * uint64(st.Bsize)), true
}

// mountedBelow returns a place in dir at which something is mounted, or "".
func mountedBelow(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	// man 5 proc: the fifth field, with spaces and the like as octal digits.
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if at := unescape.Replace(f[4]); strings.HasPrefix(at+"/", dir+"/") {
			return at, nil
		}
	}
	return "", nil
}
