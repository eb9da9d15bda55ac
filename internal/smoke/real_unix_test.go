//go:build unix

package smoke

import (
	"testing"

	"golang.org/x/sys/unix"
)

// childSeconds is the processor time of all programs that have ended.
func childSeconds(t *testing.T) float64 {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
