package buildenv

import (
	"os"
	"path/filepath"
	"strings"
)

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
