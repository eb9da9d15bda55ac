// Package sshd runs OpenSSH's server for tests: on a port of this machine, with keys and
// settings of its own, so that whoever is tested gets in with the real ssh and sftp.
// Only tests import it.
package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// Names of hosts that the server's ssh knows.
const (
	Box      = "box"      // the server
	Stranger = "stranger" // the server, where another key is known for it
	Unknown  = "unknown"  // the server, where no key is known for it
	Closed   = "closed"   // a port on which nobody listens
	Locked   = "locked"   // the server, which does not let this key in
	Nowhere  = "nowhere"  // a name that leads nowhere
)

// Server is a running server and the way to it.
type Server struct {
	// Env is the environment in which ssh and sftp reach the server: this program's,
	// with programs of those names first on the PATH that add the settings.
	Env []string
	// Bin is the folder of those programs.
	Bin string

	port  int
	proxy net.Listener
	mu    sync.Mutex
	open  []net.Conn
}

// Start starts a server that lives as long as the test. It skips the test, and says so,
// where the machine has no sshd. Lines of sshd_config come before the server's own, and
// the first of a name counts; with one of Subsystem there is no sftp but that.
func Start(tb testing.TB, lines ...string) *Server {
	tb.Helper()
	program, err := run.LookPath("sshd", "/usr/sbin:/usr/local/sbin:"+os.Getenv("PATH"))
	if err != nil {
		tb.Skip("NOT RUN: there is no sshd here; sh scripts/setup sshd installs it")
	}
	s, err := start(tb.Context(), program, tb.TempDir(), tb.Cleanup, lines...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// StartIn is Start for those who have no testing.TB: dir gets the server's files, and
// later is called with what is to be done at the end.
func StartIn(dir string, later func(func())) (*Server, error) {
	program, err := run.LookPath("sshd", "/usr/sbin:/usr/local/sbin:"+os.Getenv("PATH"))
	if err != nil {
		return nil, err
	}
	return start(context.Background(), program, dir, later)
}

func start(ctx context.Context, program, dir string, later func(func()), lines ...string) (*Server, error) {
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // or sshd refuses to start
			return nil, err
		}
	}
	for _, name := range []string{"host", "other", "me", "stranger"} {
		err := run.Run(ctx, run.Cmd{
			Argv: []string{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)}, Env: os.Environ(),
		})
		if err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Subsystem ") }) {
		lines = append(lines, "Subsystem sftp internal-sftp")
	}
	s := &Server{Bin: filepath.Join(dir, "bin")}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	later(func() { _ = s.proxy.Close() })
	files := map[string]string{
		"sshd_config": strings.Join(lines, "\n") +
			fmt.Sprintf("\nListenAddress 127.0.0.1:%d\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/me.pub\nPidFile none\n"+
				"StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel ERROR\n", s.port,
				dir),
		"ssh_config":  s.config(me.Username, dir),
		"known_hosts": knownHosts(dir),
	}
	for _, name := range []string{"ssh", "sftp"} {
		real, err := run.LookPath(name, os.Getenv("PATH"))
		if err != nil {
			return nil, err
		}
		files["bin/"+name] = fmt.Sprintf("#!/bin/sh\nexec %s -F %s/ssh_config \"$@\"\n", real, dir)
	}
	if err := os.Mkdir(s.Bin, 0o755); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	p, err := run.Start(context.WithoutCancel(ctx),
		run.Cmd{
			Argv: []string{program, "-D", "-e", "-f", filepath.Join(dir, "sshd_config")}, Env: os.Environ(),
			Grace: time.Second,
		})
	if err != nil {
		return nil, err
	}
	later(func() {
		ended, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Stop(ended)
	})
	s.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	s.Env = append(s.Env, "PATH="+s.Bin+":"+os.Getenv("PATH"))
	return s, s.wait(ctx, p)
}

// config is what ssh gets to know of the hosts.
func (s *Server) config(user, dir string) string {
	var b strings.Builder
	port := s.proxy.Addr().(*net.TCPAddr).Port
	for _, name := range []string{Box, Stranger, Unknown, Closed, Locked, Nowhere} {
		host, at, key := "127.0.0.1", port, "me"
		switch name {
		case Closed:
			at = 1 // tcpmux, which nobody runs
		case Locked:
			key = "stranger"
		case Nowhere:
			host = "nowhere.invalid" // RFC 6761
		}
		fmt.Fprintf(&b, "Host %s\nHostName %s\nPort %d\nHostKeyAlias %s\nUser %s\nIdentityFile %s/%s\n", name, host, at,
			name, user, dir, key)
	}
	fmt.Fprintf(&b, "Host *\nIdentitiesOnly yes\nUserKnownHostsFile %s/known_hosts\nGlobalKnownHostsFile /dev/null\n", dir)
	return b.String()
}

func knownHosts(dir string) string {
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name+".pub")) // just made
		f := strings.Fields(string(text))
		return strings.Join(f[:min(2, len(f))], " ")
	}
	return Box + " " + read("host") + "\n" + Locked + " " + read("host") + "\n" + Closed + " " + read("host") + "\n" +
		Stranger + " " + read("other") + "\n"
}

// listen chooses the server's port, and puts a listener before it whose connections can
// be cut.
func (s *Server) listen(ctx context.Context) error {
	var l net.ListenConfig
	var d net.Dialer
	free, err := l.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = free.Addr().(*net.TCPAddr).Port
	s.proxy, err = l.Listen(ctx, "tcp", "127.0.0.1:0")
	if err := errors.Join(err, free.Close()); err != nil {
		return err
	}
	go func() {
		for {
			c, err := s.proxy.Accept()
			if err != nil {
				return
			}
			to, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
			if err != nil {
				_ = c.Close()
				continue
			}
			s.mu.Lock()
			s.open = append(s.open, c, to)
			s.mu.Unlock()
			go pass(c, to)
			go pass(to, c)
		}
	}()
	return nil
}

func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // ends where one side does
	_ = to.Close()
	_ = from.Close()
}

// Cut breaks every connection that there is.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close()
	}
	s.open = nil
}

// wait waits until the server answers.
func (s *Server) wait(ctx context.Context, p *run.Process) error {
	var d net.Dialer
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.Done():
			return fmt.Errorf("sshd ended: %w", p.Wait())
		default:
		}
		if time.Now().After(until) {
			return fmt.Errorf("sshd does not answer: %w", err)
		}
	}
}
