package source

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// sshServer serves repositories by running the command that git asks for, to
// whom has the key in the agent. It sets the agent and the known hosts up.
func sshServer(t *testing.T) (address string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	must(t, err)
	conf := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(signer.PublicKey().Marshal()) {
			return nil, fmt.Errorf("unknown key")
		}
		return nil, nil
	}}
	conf.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go sshSession(c, conf)
		}
	}()
	host, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	known := filepath.Join(t.TempDir(), "known_hosts")
	must(t, os.WriteFile(known, fmt.Appendf(nil, "[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(signer.PublicKey())),
		0o600))
	t.Setenv("SSH_KNOWN_HOSTS", known)

	keys := agent.NewKeyring()
	must(t, keys.Add(agent.AddedKey{PrivateKey: key}))
	sock, err := os.MkdirTemp("", "a") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(sock) })
	al, err := net.Listen("unix", filepath.Join(sock, "s"))
	must(t, err)
	t.Cleanup(func() { _ = al.Close() })
	t.Setenv("SSH_AUTH_SOCK", al.Addr().String())
	go func() {
		for {
			c, err := al.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keys, c) }()
		}
	}()
	return "ssh://git@" + l.Addr().String()
}

// sshSession runs the commands of one connection.
func sshSession(c net.Conn, conf *ssh.ServerConfig) {
	defer func() { _ = c.Close() }()
	_, chans, reqs, err := ssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for nc := range chans {
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range reqs {
				_ = r.Reply(r.Type == "exec", nil)
				if r.Type != "exec" {
					continue
				}
				var cmd struct{ Line string }
				_ = ssh.Unmarshal(r.Payload, &cmd)
				p := exec.Command("sh", "-c", cmd.Line)
				p.Stdin, p.Stdout, p.Stderr = ch, ch, ch.Stderr()
				status := struct{ Code uint32 }{}
				if p.Run() != nil {
					status.Code = 1
				}
				_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(status))
				_ = ch.Close()
			}
		}()
	}
}

// TestSSH: a tree comes over ssh, with the key of the agent, from a known host;
// another host is refused.
func TestSSH(t *testing.T) {
	u := newUpstream(t)
	address := sshServer(t)
	o, _ := options(t, u.lock)
	o.Override = address + u.dir
	if tree := mustFetch(t, o, "b102"); tree.ID() != u.tree("b102") {
		t.Errorf("tree %s", tree.ID())
	}
	known := os.Getenv("SSH_KNOWN_HOSTS")
	b, err := os.ReadFile(known)
	must(t, err)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	other, err := ssh.NewSignerFromKey(key)
	must(t, err)
	host, _, _ := strings.Cut(string(b), " ")
	must(t, os.WriteFile(known, append([]byte(host+" "), ssh.MarshalAuthorizedKey(other.PublicKey())...), 0o600))
	o.Cache = t.TempDir()
	_, err = fetch(t, o, "b102")
	as[*Unavailable](t, err)
	wantErr(t, err, "knownhosts")
	nothingLeft(t, o.Cache)
}

// TestSilentSSH: a host that takes the connection and says nothing is given up.
func TestSilentSSH(t *testing.T) {
	_ = sshServer(t) // for the agent
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	for _, scheme := range []string{"ssh://git@", "git://"} {
		o, _ := options(t, nil)
		o.Sources = []spec.Source{{Name: "silent", Kind: "git", URL: scheme + l.Addr().String() + "/x.git"}}
		f := newFetcher(t.Context(), o, "llama.cpp")
		f.stall = 300 * time.Millisecond
		start := time.Now()
		_, err = f.fetch(t.Context(), tag.MustParse("b102"))
		wantErr(t, err, "nothing for")
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("given up after %v", took)
		}
		nothingLeft(t, o.Cache)
	}
}
