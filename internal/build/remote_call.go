package build

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// tidyWait is how long a machine gets to remove what an interrupted run left there.
const tidyWait = 15 * time.Second

// remoteConn talks to another machine.
type remoteConn struct {
	remote  Remote
	sys     remoteSystem
	at      string // absolute folder there
	run     string // names this run among others there
	reached bool   // it has answered before
}

func newConn(h Remote, sys remoteSystem, dir string) *remoteConn {
	return &remoteConn{remote: h, sys: sys, at: dir, run: strings.ToLower(rand.Text()[:8])}
}

// wordsBuffer keeps the beginning of what a program says.
type wordsBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write takes the next bytes; it never fails.
func (w *wordsBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 64 << 10
	if room := most - w.b.Len(); room > 0 {
		w.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// lines are those that say something.
func (w *wordsBuffer) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for l := range strings.Lines(w.b.String()) {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "Warning: Permanently added") {
			all = append(all, l)
		}
	}
	return all
}

// call runs a command there and returns what it prints.
func (c *remoteConn) call(ctx context.Context, what, command string, stdin io.Reader) ([]byte, error) {
	var said wordsBuffer
	out, err := run.Output(ctx, run.Cmd{
		Argv: run.SSH(c.remote.Name, command), Env: c.remote.Env, Stdin: stdin, Stderr: &said, Grace: time.Second,
	})
	if err != nil {
		return nil, c.fault(ctx, what, err, said.lines())
	}
	c.reached = true
	return out, nil
}

// copy runs one command of sftp: put or get.
func (c *remoteConn) copy(ctx context.Context, what, verb, from, to string) error {
	var said wordsBuffer
	err := run.Run(ctx, run.Cmd{
		Argv: run.SFTP(c.remote.Name), Env: c.remote.Env, Stdout: &said, Grace: time.Second,
		Stdin: strings.NewReader(fmt.Sprintf("%s %s %s\n", verb, sftpWord(from), sftpWord(to))),
	})
	if err != nil {
		return c.fault(ctx, what, err, said.lines())
	}
	return nil
}

// sftpWord is a word of sftp's command lines.
func sftpWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// path is a name in the folder there, as sftp has it: it puts a slash before a drive.
func (c *remoteConn) path(name string) string {
	dir := c.at
	if len(dir) > 1 && dir[1] == ':' {
		dir = "/" + dir
	}
	return dir + "/" + name
}

// fault says what came of a command that failed there.
func (c *remoteConn) fault(ctx context.Context, what string, err error, said []string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	f := &RemoteError{Remote: c.remote.Name, Err: err}
	var e *run.Error
	switch {
	case errors.Is(err, run.ErrNotFound):
		f.Why = "ssh and sftp are not on the PATH; install openssh-client"
	case !errors.As(err, &e) || e.Exit < 0:
		f.Why = what + ": " + err.Error()
	case sftpFault(said) != "":
		f.Why = what + ": " + sftpFault(said)
	case e.Exit == run.SSHFailed:
		f.Lost = c.reached
		why := "it could not be reached"
		if f.Lost {
			why = "the connection was lost"
		}
		f.Why = what + ": " + cmp.Or(lastSaid(said), why)
		if f.Lost && lastSaid(said) != "" {
			f.Why = why + " (" + what + ": " + lastSaid(said) + ")"
		}
	case e.Exit == remoteBusy:
		f.Why = cmp.Or(lastSaid(said), "another llpatch is at work there")
	default:
		f.Elsewhere = strconv.Itoa(e.Exit) == remoteNoFolder
		f.Why = fmt.Sprintf("%s: exit code %d", what, e.Exit)
		// An account that may not log in says so on standard output.
		if text := cmp.Or(lastSaid(said), clean(lastSaid(e.Tail))); text != "" {
			f.Why = what + ": " + text
		}
		if strings.HasSuffix(f.Why, ": Failure") { // all that sftp is told of it
			f.Why += "; the disk there may be full, or a quota used up"
			f.Elsewhere = true
		}
	}
	for _, l := range said {
		if diskRE.MatchString(l) {
			return &Failed{
				Kind: KindDisk, Cause: clean(l) + " on " + c.remote.Name + " below " + c.at + " (" + what + ")",
				Err: f,
			}
		}
	}
	return f
}

// sftpFault says why sftp cannot be used there, where the same command would not do better.
func sftpFault(said []string) string {
	for _, l := range said {
		switch {
		case strings.Contains(l, "message too long"): // sftp reads the text as a length
			return "the shell there prints something before sftp starts; what prints in ~/.bashrc or ~/.profile of that " +
				"account must do so in a terminal alone"
		case strings.Contains(l, "subsystem request failed"):
			return "its ssh server has no sftp: sshd_config there needs a line \"Subsystem sftp internal-sftp\""
		}
	}
	return ""
}

// lastSaid is what ssh, or a program, said last; of a host key that is not the known
// one ssh says most before.
func lastSaid(said []string) string {
	if len(said) == 0 {
		return ""
	}
	last := said[len(said)-1]
	for _, l := range said {
		if strings.HasPrefix(l, "@") && strings.Contains(l, "HOST IDENTIFICATION HAS CHANGED") {
			return "its host key is not the one that is known: " + last
		}
	}
	return last
}

// greet finds out what the machine is, and makes the folder dir there.
func greet(ctx context.Context, h Remote, windows bool, dir string) (*remoteConn, remoteSays, error) {
	c := newConn(h, posix, dir)
	if windows {
		c.sys = box
	}
	out, err := c.call(ctx, "first contact", c.sys.hello(dir), nil)
	var says remoteSays
	if err == nil {
		says, err = c.parseHello(out, runtime.GOOS, runtime.GOARCH)
	}
	if err != nil {
		return nil, says, err
	}
	c.at = says.dir
	if err := CheckFolder(filepath.FromSlash(says.dir)); err != nil {
		return nil, says, &RemoteError{Remote: h.Name, Why: err.Error(), Elsewhere: true}
	}
	return c, says, nil
}

// parseHello reads what hello printed; goos and goarch are what this llpatch is for.
func (c *remoteConn) parseHello(out []byte, goos, goarch string) (remoteSays, error) {
	var s remoteSays
	lines := strings.Split(strings.ReplaceAll(string(out), "\r", ""), "\n")
	for i, l := range lines {
		f := strings.Fields(l)
		if len(f) < 3 || f[0] != helloWord || i+1 == len(lines) {
			continue
		}
		s.kind, s.arch, s.dir = f[1], f[2], lines[i+1]
		if len(f) == 5 {
			s.cores, _ = strconv.Atoi(f[3]) // 0: not known
			s.memoryMiB, _ = strconv.ParseInt(f[4], 10, 64)
		}
	}
	want := map[string]string{"linux": "Linux", "windows": "Windows"}[c.sys.os]
	arch := map[string]string{"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "ARM64": "arm64"}[s.arch]
	switch {
	case s.dir == "" || s.kind != want:
		return s, &RemoteError{Remote: c.remote.Name, Why: fmt.Sprintf("it is no %s machine: it says %q", want,
			clean(string(out[:min(len(out), 200)])))}
	case c.sys.os == posix.os && goos != posix.os:
		return s, &RemoteError{Remote: c.remote.Name, Why: fmt.Sprintf("on a Linux machine llpatch looks around itself, "+
			"and this llpatch is for %s; run it on Linux", goos)}
	case c.sys.os == posix.os && arch != goarch:
		return s, &RemoteError{
			Remote: c.remote.Name,
			Why:    fmt.Sprintf("its processor is %s, and llpatch, which looks around there, is for %s", s.arch, goarch),
		}
	}
	return s, nil
}

// tidy removes what an interrupted run left there, also where ctx has ended.
func (c *remoteConn) tidy(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), tidyWait)
	defer stop()
	_, _ = c.call(ctx, "tidy", c.sys.tidy(c.at, c.run), nil) // the next run does so too
}

// remove removes a file there, also where ctx has ended.
func (c *remoteConn) remove(ctx context.Context, name string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), tidyWait)
	defer stop()
	_, _ = c.call(ctx, "tidy", sh(`cd -- "$1" && rm -f -- "$2"`, c.at, name), nil) // a later run does so too
}

// checkRoom refuses to copy what has no room there.
func (c *remoteConn) checkRoom(ctx context.Context, what string, bytes int64) error {
	out, err := c.call(ctx, "room", c.sys.room(c.at), nil)
	if err != nil {
		return err
	}
	said := strings.Fields(string(out))
	free, err := strconv.ParseInt(strings.Join(said[max(0, len(said)-1):], ""), 10, 64)
	if err != nil || free >= bytes {
		return nil // what is not known is tried
	}
	return &Failed{Kind: KindDisk, Cause: fmt.Sprintf("no space left on device: %s has %d MiB free below %s, and %s "+
		"takes %d MiB", c.remote.Name, free>>20, c.at, what, bytes>>20+1)}
}

// sizes adds up what files take here, bytes.
func sizes(dir string, names []string) (total int64) {
	for _, name := range names {
		if st, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, "src/")))); err == nil {
			total += st.Size()
		}
	}
	return total
}
