package memory

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/llpatch/llpatch/internal/run"
)

// RemoteReading is host memory of a Windows process, in bytes.
type RemoteReading struct {
	Private    int64 // private bytes: what it committed for itself
	WorkingSet int64 // what of it, and of files, lies in memory
}

// RemoteProbe reads host memory about every so often and passes each reading on, until ctx
// ends. It returns why it ended before that, or why no reading came of late; nil where
// there is nothing to say of it.
type RemoteProbe func(ctx context.Context, every time.Duration, out func(RemoteReading)) error

// ParseRemote reads where host memory is to be read: ssh:HOST:PROCESS, a process of a
// Windows machine that ssh reaches.
func ParseRemote(text string, env []string) (RemoteProbe, string, error) {
	rest, ok := strings.CutPrefix(text, "ssh:")
	i := strings.LastIndexByte(rest, ':') // an address of IPv6 has more of them
	if !ok || i < 1 {
		return nil, "", fmt.Errorf("%q: write ssh:HOST:PROCESS, as ssh:me@box:llama-server", text)
	}
	host, process := rest[:i], strings.TrimSuffix(rest[i+1:], ".exe")
	if err := run.CheckDestination(host); err != nil {
		return nil, "", err
	}
	if !instance.MatchString(process) {
		return nil, "", fmt.Errorf("%q is no name of a process: letters, digits, and . _ - # are, as in llama-server or "+
			"llama-server#1", process)
	}
	return typeperf(env, host, process), host, nil
}

// instance is what a process may be called: cmd.exe on the other side reads the command.
var instance = regexp.MustCompile(`^[A-Za-z0-9._#-]+$`)

// againAfter is the pause before Windows is asked again for a process that it does not
// have yet.
const againAfter = time.Second

// typeperf returns a probe that lets ssh run typeperf, which every Windows since XP has,
// for one process. It may come later than the probe, and typeperf then knows no such
// counter and ends; it is asked again.
func typeperf(env []string, host, process string) RemoteProbe {
	return func(ctx context.Context, every time.Duration, out func(RemoteReading)) error {
		// typeperf takes whole seconds.
		secs := max(1, int(math.Ceil(every.Seconds())))
		command := fmt.Sprintf(`typeperf -si %d "\Process(%s)\Private Bytes" "\Process(%s)\Working Set"`, secs, process,
			process)
		before := "" // the last line of the typeperf before
		for {
			t := &counters{out: out}
			text := eachLine(t.line)
			err := run.Run(ctx, run.Cmd{
				Argv: run.SSH(host, command),
				Env:  env, Stdout: &until{ctx, text}, Grace: time.Second,
			})
			text.Flush() // a line without an end
			t.printed = cmp.Or(t.printed, before)
			before = t.printed
			if ctx.Err() != nil {
				return t.late(host, process)
			}
			var e *run.Error
			last, seen := t.said("it said nothing")
			switch {
			case errors.Is(err, run.ErrNotFound):
				return errors.New("ssh is not on the PATH; install openssh-client")
			case errors.As(err, &e) && e.Exit == run.SSHFailed:
				last, _ = t.said("it could not be reached")
				return fmt.Errorf("ssh %s: %s", host, last)
			case seen:
				return fmt.Errorf("typeperf on %s ended: %s", host, last)
			case noTypeperf.MatchString(last):
				return fmt.Errorf("%s is no Windows machine, or has no typeperf: %s", host, last)
			}
			select {
			case <-ctx.Done():
				return t.late(host, process)
			case <-time.After(againAfter):
			}
		}
	}
}

// until drops what ssh prints once ctx has ended: that it was stopped.
type until struct {
	ctx context.Context
	to  io.Writer
}

func (u *until) Write(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return len(b), nil
	}
	return u.to.Write(b)
}

// counters takes typeperf's lines.
type counters struct {
	out func(RemoteReading)

	mu      sync.Mutex
	good    int
	last    string  // line that is no row
	printed string  // the last line of all
	kind    rowKind // of it
}

func (t *counters) line(s string) {
	r, kind, err := parseTypeperf(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	s = plain(s)
	t.printed, t.kind = s, kind
	switch {
	case err != nil:
		t.last = s
	case kind == figures:
		t.good++
		t.out(r)
	case kind == gone:
		t.last = "the process is not there any more"
	}
}

// late says why no figure came of late.
func (t *counters) late(host, process string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.printed == "":
		return fmt.Errorf("ssh %s printed nothing", host)
	case t.kind == gone:
		return fmt.Errorf("typeperf on %s says that %s is not there", host, process)
	case t.kind == figures:
		return fmt.Errorf("ssh %s printed nothing more", host)
	}
	return fmt.Errorf("the last line of ssh %s is: %s", host, t.printed)
}

// plain is a line that a terminal may show, and no more of it than a reader wants.
func plain(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ReplaceAll(strings.TrimSpace(s), "\t", " "))
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + " …"
	}
	return s
}

// said returns the last line that is no row, or none, and whether a row with figures came.
func (t *counters) said(none string) (last string, figures bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.last, none), t.good > 0
}

// noTypeperf finds that a shell says that there is no typeperf: cmd.exe's words, and those of
// a shell of Unix.
var noTypeperf = regexp.MustCompile(`'typeperf'|typeperf: `)

// rowKind is what a line of typeperf is.
type rowKind int

const (
	header rowKind = iota
	figures
	gone  // the process is not there: its columns are empty, or -1
	other // no row
)

// parseTypeperf reads a line of typeperf as CSV: a time, private bytes and the working
// set. The decimals are behind a comma where Windows speaks such a language. Anything
// else that it prints is an error.
func parseTypeperf(s string) (RemoteReading, rowKind, error) {
	c := csv.NewReader(strings.NewReader(s))
	f, err := c.Read()
	if err != nil || len(f) != 3 || !strings.HasPrefix(s, `"`) {
		return RemoteReading{}, other, fmt.Errorf("no row of typeperf: %q", s)
	}
	if strings.HasPrefix(f[0], "(PDH-CSV") {
		return RemoteReading{}, header, nil
	}
	var n [2]int64
	for i, text := range f[1:] {
		text = strings.TrimSpace(text)
		if slices.Contains([]string{"", "-1"}, text) {
			return RemoteReading{}, gone, nil
		}
		v, err := strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64)
		if err != nil || !(v >= 0 && v < 1<<60) {
			return RemoteReading{}, other, fmt.Errorf("no figure of typeperf: %q", text)
		}
		n[i] = int64(v)
	}
	return RemoteReading{Private: n[0], WorkingSet: n[1]}, figures, nil
}
