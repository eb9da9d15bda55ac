package leak

import (
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listening returns the TCP addresses on which the processes listen, in the
// words of /proc/PID/net/tcp, and whether that can be told here.
func listening(pids []int) (addrs []string, known bool) {
	if len(pids) == 0 {
		return nil, true
	}
	sockets := map[string]bool{}
	for _, pid := range pids {
		fds, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
				sockets[strings.Trim(to[len("socket:"):], "[]")] = true
			}
		}
	}
	for _, name := range []string{"tcp", "tcp6"} {
		// The program may have a network of its own.
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pids[0]) + "/net/" + name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if addr, inode, ok := parseListener(line); ok && sockets[inode] {
				addrs = append(addrs, addr)
			}
		}
	}
	return addrs, true
}

// parseListener reads a line of /proc/net/tcp or tcp6 (proc(5)): field 1 is the
// local address in the machine's byte order, field 3 the state (0A: listening),
// field 9 the socket. An address that means every address becomes this machine's own.
func parseListener(line string) (addr, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return "", "", false
	}
	host, port, ok := strings.Cut(f[1], ":")
	if !ok {
		return "", "", false
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return "", "", false
	}
	raw, err := hex.DecodeString(host)
	if err != nil || (len(raw) != 4 && len(raw) != 16) {
		return "", "", false
	}
	for i := 0; i < len(raw); i += 4 { // four bytes at a time, the last first
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	ip := net.IP(raw)
	switch {
	case ip.IsUnspecified():
		ip = net.IPv4(127, 0, 0, 1)
	case ip.To4() != nil:
		ip = ip.To4()
	}
	return net.JoinHostPort(ip.String(), strconv.FormatUint(n, 10)), f[9], true
}
