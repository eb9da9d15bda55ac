package smoke

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"slices"
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
// says whether that came about; the error is ctx's. What is killed under wine leaves its sockets
// with wine's server, which
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
		return srv.fault("GET /v1/models does not know the alias %s that the server was given: %s", srv.alias,
			llamaserver.Quote(body))
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
	var pids []int
	if !srv.proc.Ended() {
		pids = memory.Descendants(srv.proc.Pid())
		if srv.s.wine != nil {
			pids = append(pids, srv.s.winePids()...)
		}
	}
	ours := llamaserver.Sockets(pids...)
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
		if slices.Contains(again, inode) {
			return "another program listens there too"
		}
	}
	return ""
}

// listeners returns the inodes of the sockets that take connections to the loopback port.
func listeners(port int) (inodes []string, err error) {
	all, err := llamaserver.Listeners(os.Getpid())
	for _, l := range all {
		if l.Port == port && (l.IP.IsUnspecified() || l.IP.Equal(net.IPv4(127, 0, 0, 1))) {
			inodes = append(inodes, l.Inode)
		}
	}
	return inodes, err
}
