package llamaserver

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Listener is a TCP socket that takes connections.
type Listener struct {
	IP    net.IP
	Port  int
	Inode string
}

// Addr is where the socket is reached from this machine, as HOST:PORT.
func (l Listener) Addr() string {
	if l.IP.IsUnspecified() {
		l.IP = net.IPv4(127, 0, 0, 1)
	}
	return net.JoinHostPort(l.IP.String(), strconv.Itoa(l.Port))
}

// Listeners returns the listening sockets of the network that a process is in, which may be
// one of its own. It fails where the system does not tell, as outside of Linux.
func Listeners(pid int) ([]Listener, error) {
	var all []Listener
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if table == "tcp6" && errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if l, ok := parseListener(line); ok {
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// parseListener reads a line of the kernel's table (proc_net_tcp.rst): column 2 is the local
// address, 4 the state, 0A listening, 10 the inode.
func parseListener(line string) (Listener, bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return Listener{}, false
	}
	host, hexPort, _ := strings.Cut(f[1], ":")
	ip, err1 := hex.DecodeString(host)
	port, err2 := strconv.ParseUint(hexPort, 16, 16)
	if errors.Join(err1, err2) != nil || len(ip) != 4 && len(ip) != 16 {
		return Listener{}, false
	}
	for word := range slices.Chunk(ip, 4) { // each in the machine's byte order
		slices.Reverse(word)
	}
	return Listener{ip, int(port), f[9]}, true
}

// Sockets returns the inodes of the processes' open sockets; none of one that has ended.
func Sockets(pids ...int) map[string]bool {
	inodes := map[string]bool{}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, _ := fs.ReadDir(os.DirFS(dir), ".")
		for _, e := range entries {
			to, err := os.Readlink(dir + "/" + e.Name())
			if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	return inodes
}
