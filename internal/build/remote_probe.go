package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// ProbeOn is Probe for another machine. On Linux llpatch copies itself there and looks
// around; a Windows machine says what it is, and the plan's script finds its tools.
func ProbeOn(ctx context.Context, h Remote, tc spec.Toolchain, rec spec.Recipe) (Facts, error) {
	c, says, err := greet(ctx, h, tc.OS == box.os, h.Dir)
	if err != nil {
		return Facts{}, err
	}
	at := &RemoteFact{Name: h.Name, Dir: c.at, OS: c.sys.os}
	if c.sys.os == box.os {
		f := boxFacts(tc, says)
		f.Remote = at
		return f, nil
	}
	self, err := c.copySelf(ctx)
	if err != nil {
		return Facts{}, err
	}
	text, err := json.Marshal(ask(tc, rec))
	if err != nil {
		return Facts{}, err
	}
	out, err := c.call(ctx, "look around", sh(`exec "$1" "$2"`, self, InsideCommand), bytes.NewReader(text))
	if err != nil {
		return Facts{}, err
	}
	a, err := parseAnswer(out)
	if err != nil {
		return Facts{}, &RemoteError{Remote: h.Name, Why: err.Error(), Err: err}
	}
	f := a.Facts
	f.Remote = at
	f.Launcher = "" // the script names none
	if a.Missing != nil {
		a.Missing.Remote = h.Name
	}
	return f, a.err()
}

// answerBegin is how what AnswerProbe writes begins.
const answerBegin = `{"facts":`

// parseAnswer reads what AnswerProbe wrote, behind whatever a login says first.
func parseAnswer(out []byte) (answer, error) {
	var a answer
	if i := bytes.Index(out, []byte(answerBegin)); i >= 0 && json.Unmarshal(out[i:], &a) == nil {
		return a, nil
	}
	return a, fmt.Errorf("llpatch there answers %q", clean(string(out[:min(len(out), 200)])))
}

// copySelf brings this program to the machine, where it is not there yet. What another
// llpatch that was killed left of that is an hour old or more; one may be at it just now.
func (c *remoteConn) copySelf(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	sum, err := SumFile(self)
	if err != nil {
		return "", err
	}
	there := c.at + "/.llpatch/llpatch"
	out, err := c.call(ctx, "look for llpatch", sh(`set -e
cd -- "$1"
mkdir -p .llpatch
find .llpatch -name 'new.*' -mmin +60 -exec rm -f {} +
if [ -e .llpatch/llpatch ]; then sha256sum <.llpatch/llpatch; fi`, c.at), nil)
	if err != nil || strings.Contains(string(out), sum) {
		return there, err
	}
	st, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	if err := c.checkRoom(ctx, "llpatch, which looks around there,", st.Size()); err != nil {
		return "", err
	}
	part := ".llpatch/new." + c.run
	if err := c.copy(ctx, "copy llpatch", "put", self, c.path(part)); err != nil {
		c.remove(ctx, part)
		return "", err
	}
	_, err = c.call(ctx, "copy llpatch", sh(`cd -- "$1" && chmod 755 "$2" && mv -f "$2" .llpatch/llpatch`, c.at, part),
		nil)
	return there, err
}

// RemoteOS tells a Linux machine from a Windows one, and makes the folder there.
func RemoteOS(ctx context.Context, h Remote) (string, error) {
	_, _, err := greet(ctx, h, false, h.Dir)
	var f *RemoteError
	if err == nil || !errors.As(err, &f) || isSSHFault(f.Err) || f.Elsewhere {
		return posix.os, err
	}
	_, _, asWindows := greet(ctx, h, true, h.Dir)
	var e *run.Error
	switch {
	case asWindows == nil:
		return box.os, nil
	case isSSHFault(asWindows) || errors.As(asWindows, &e) && e.Exit == noSuchProgram:
		return "", err
	}
	return "", asWindows
}

// noSuchProgram is the exit code with which a POSIX shell says that a program is not there.
const noSuchProgram = 127

// isSSHFault reports whether ssh itself is at fault, or is not there.
func isSSHFault(err error) bool {
	var e *run.Error
	return errors.Is(err, run.ErrNotFound) || errors.As(err, &e) && (e.Exit == run.SSHFailed || e.Exit < 0)
}
