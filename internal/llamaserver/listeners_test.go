package llamaserver

import (
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
)

func TestParseListener(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"   0: 0100007F:4807 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 29190 1":    "127.0.0.1:18439",
		"   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 29190 1":    "127.0.0.1:8080",
		"   1: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 7": "127.0.0.1:8080",
		"   1: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 7": "[::1]:8080",
		"   0: 0100007F:4807 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 29190 1":    "",
		"   0: 0100007F:10000 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 29190 1":   "",
		"   0: 01007F:4807 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 29190 1":      "",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode":      "",
	} {
		l, ok := parseListener(line)
		if ok != (want != "") || ok && l.Addr() != want {
			t.Errorf("%q: %+v, want %q", line, l, want)
		}
	}
}

// A socket of this process is in the table, and is its own.
func TestListeners(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all, err := Listeners(os.Getpid())
	i := slices.IndexFunc(all, func(o Listener) bool { return o.Addr() == l.Addr().String() })
	if err != nil || i < 0 {
		t.Fatalf("%v: %s is not among %v", err, l.Addr(), all)
	}
	if own := Sockets(os.Getpid()); !own[all[i].Inode] {
		t.Errorf("%v is not among this process's sockets %v", all[i], own)
	}
	if own := Sockets(-1); len(own) > 0 {
		t.Errorf("nobody has sockets: %v", own)
	}
	if _, err := Listeners(-1); err == nil {
		t.Error("no error for a process that is not there")
	}
}
