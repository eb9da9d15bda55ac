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
func ProbeOn(ctx context.Context, h Host, tc spec.Toolchain, rec spec.Recipe) (Facts, error) {
	c, says, err := greet(ctx, h, tc.OS == box.os, h.Dir)
	if err != nil {
		return Facts{}, err
	}
	at := &HostFact{Name: h.Name, Dir: c.at, OS: c.sys.os}
	if c.sys.os == box.os {
		f := boxFacts(tc, says)
		f.Host = at
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
	var a answer
	const begin = `{"facts":` // of an answer
	if _, out, _ = bytes.Cut(out, []byte(begin)); json.Unmarshal(append([]byte(begin), out...), &a) != nil {
		return Facts{}, &HostError{Host: h.Name, Why: fmt.Sprintf("llpatch there answers %q", clean(string(out[:min(len(out), 200)])))}
	}
	f := a.Facts
	f.Host = at
	f.Launcher = "" // the script names none
	if a.Missing != nil {
		a.Missing.Host = h.Name
	}
	return f, a.err()
}

// copySelf brings this program to the machine, where it is not there yet. What another
// llpatch that was killed left of that is an hour old or more; one may be at it just now.
func (c *hostConn) copySelf(ctx context.Context) (string, error) {
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
	_, err = c.call(ctx, "copy llpatch", sh(`cd -- "$1" && chmod 755 "$2" && mv -f "$2" .llpatch/llpatch`, c.at, part), nil)
	return there, err
}

// HostKind tells a Linux machine from a Windows one, and makes the folder there.
func HostKind(ctx context.Context, h Host) (string, error) {
	_, _, err := greet(ctx, h, false, h.Dir)
	var f *HostError
	if err == nil || !errors.As(err, &f) || isSSHFault(f.Err) {
		return posix.os, err
	}
	if _, _, err2 := greet(ctx, h, true, h.Dir); err2 == nil {
		return box.os, nil
	}
	return "", err
}

// isSSHFault reports whether ssh itself is at fault, or is not there.
func isSSHFault(err error) bool {
	var e *run.Error
	return errors.Is(err, run.ErrNotFound) || errors.As(err, &e) && (e.Exit == run.SSHFailed || e.Exit < 0)
}
