//go:build linux

package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The line of a run that goes on: in a log now and then, on a terminal as it changes,
// and gone before the result.
func TestStatusLine(t *testing.T) {
	var log bytes.Buffer
	p := newProgress(&log)
	p.status("leak", "1s", time.Hour)
	p.status("leak", "2s", time.Hour)
	if log.Len() != 0 {
		t.Errorf("%q", &log)
	}
	p.status("leak", "3s, RSS 5 MiB", 0)
	p.status("leak", "4s", time.Hour)
	if got := log.String(); got != "llpatch: leak: 3s, RSS 5 MiB\n" {
		t.Errorf("%q", got)
	}

	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = seen.ReadFrom(master) // ends with EIO where the terminal is closed
	}()
	p = newProgress(terminal)
	for _, line := range []string{"1s, RSS 5 MiB", "2s, RSS 6 MiB"} {
		p.status("leak", line, time.Hour)
		time.Sleep(400 * time.Millisecond)
	}
	p.close()
	terminal.Close()
	<-read
	for _, want := range []string{"leak: 1s, RSS 5 MiB", "leak: 2s, RSS 6 MiB"} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("no %q in %q", want, &seen)
		}
	}
}
