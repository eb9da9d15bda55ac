package smoke

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/memory"
)

// ports yields free loopback ports to try: the given ones, or one after another
// that the system picks.
func (s *session) ports() iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		if len(s.o.Ports) == 0 {
			for range portTries + 1 {
				if port, err := llamaserver.FreePort(); !yield(port, err) {
					return
				}
			}
			return
		}
		for _, p := range s.o.Ports {
			var err error
			if taken(p) {
				err = fmt.Errorf("port %d is taken", p)
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// taken tells whether somebody listens on a loopback port. It does not try to
// listen: connections that llama-server has closed keep that from others for a
// minute (TIME_WAIT without SO_REUSEADDR), though not from another llama-server.
func taken(port int) bool {
	if list, err := listeners(port); err == nil {
		return len(list) > 0
	}
	dialer := net.Dialer{Timeout: time.Second}
	c, err := dialer.DialContext(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return !isRefused(err)
	}
	c.Close()
	return true
}

// awaitFree waits until nobody listens on a loopback port, but no longer than limit, and
// says whether that came about; the error is ctx's. What is killed under wine leaves its sockets with wine's server, which
// closes them when it notices.
func awaitFree(ctx context.Context, port int, limit time.Duration) (free bool, err error) {
	for end := time.Now().Add(limit); taken(port); {
		if !time.Now().Before(end) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return true, nil
}

// prove asks for the alias that only our server has. Where the system's table
// of sockets cannot be read it asks over many connections: with two listeners
// on a port, each connection may go to the other.
func (srv *server) prove(ctx context.Context) error {
	times := 1
	if _, err := listeners(srv.port); err != nil {
		times = 20
	}
	for range times {
		status, body, err := srv.call(ctx, http.MethodGet, "/v1/models", nil)
		if err != nil {
			return srv.fault("ready, but GET /v1/models: %v", err)
		}
		if status != http.StatusOK {
			return srv.fault("ready, but GET /v1/models gave %d with %s", status, llamaserver.Quote(body))
		}
		if strings.Contains(string(body), srv.alias) {
			continue
		}
		if other := srv.strangers(); other != "" || times > 1 {
			return fmt.Errorf("port %d: another program answers with %s: %w", srv.port, llamaserver.Quote(body), errClash)
		}
		return srv.fault("GET /v1/models does not know the alias %s that the server was given: %s", srv.alias, llamaserver.Quote(body))
	}
	return nil
}

// strangers says who else listens on the server's port, or "" where nobody
// does, or where that cannot be seen.
func (srv *server) strangers() string {
	list, err := listeners(srv.port)
	if err != nil {
		return ""
	}
	ours := map[string]bool{}
	if !srv.ended() {
		pids := memory.Descendants(srv.proc.Pid())
		if srv.s.wine != nil {
			pids = append(pids, srv.s.winePids()...)
		}
		for _, pid := range pids {
			for _, inode := range sockets(pid) {
				ours[inode] = true
			}
		}
	}
	for _, inode := range list {
		if ours[inode] {
			continue
		}
		// The table and the server's files are read one after the other: a
		// socket that has gone meanwhile was our own.
		again, err := listeners(srv.port)
		if err != nil {
			return ""
		}
		for _, i := range again {
			if i == inode {
				return "another program listens there too"
			}
		}
	}
	return ""
}

// listeners returns the inodes of the sockets that take connections to the
// loopback port, from the kernel's table (proc_net_tcp.rst: column 2 is the
// local address, 4 the state, 0A listening, 10 the inode).
func listeners(port int) ([]string, error) {
	var inodes []string
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file)
		if err != nil {
			if file == "/proc/net/tcp6" && os.IsNotExist(err) {
				continue // a kernel without IPv6
			}
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			col := strings.Fields(lines.Text())
			if len(col) < 10 || col[3] != "0A" {
				continue
			}
			addr, hex, ok := strings.Cut(col[1], ":")
			if p, err := strconv.ParseUint(hex, 16, 16); !ok || err != nil || int(p) != port {
				continue
			}
			// 127.0.0.1 in host order, or any address.
			if addr == "0100007F" || addr == "7F000001" || strings.Trim(addr, "0") == "" {
				inodes = append(inodes, col[9])
			}
		}
		err = lines.Err()
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return inodes, nil
}

// sockets returns the inodes of a process's open sockets.
func sockets(pid int) []string {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	var inodes []string
	entries, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil {
		return nil // the process has ended
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes
}
