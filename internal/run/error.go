package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Error tells what ran and how it ended.
type Error struct {
	Argv   []string
	Dir    string
	Exit   int      // exit code, -1 where a signal ended it or it never started
	Signal string   // the signal that ended it, such as "killed", or empty
	Log    string   // the log file, or empty
	Tail   []string // the last lines of its output
	Err    error    // why: the context's error, a failed start, a failed log; nil for a plain exit code
}

// Error says what ran, how it ended, its last lines and where the log is.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.name(), e.how())
	for _, l := range e.Tail {
		b.WriteString("\n  " + l)
	}
	if e.Log != "" {
		b.WriteString("\nlog: " + e.Log)
	}
	return b.String()
}

// Unwrap returns Err, so that errors.Is finds context.Canceled.
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) name() string {
	s := shortArgv(e.Argv)
	if e.Dir != "" {
		s += " (in " + e.Dir + ")"
	}
	return s
}

func (e *Error) how() string {
	end := ""
	switch {
	case e.Signal != "":
		end = "ended by signal: " + e.Signal
	case e.Exit >= 0:
		end = fmt.Sprintf("exit code %d", e.Exit)
	}
	switch {
	case e.Err == nil:
		return end
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "took too long and was stopped"
	case errors.Is(e.Err, context.Canceled):
		return "interrupted"
	case end == "" || e.Exit == 0:
		return reason(e.Err)
	}
	return end + ", and " + reason(e.Err)
}

// reason spells out the two errors of a start that otherwise read as riddles.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return "not a program that this machine can run (" + err.Error() + ")"
	case errors.Is(err, syscall.E2BIG):
		return "its arguments and environment are too long (" + err.Error() + ")"
	}
	return err.Error()
}

// shortArgv keeps a message readable where a link command has thousands of words.
func shortArgv(argv []string) string {
	const limit = 160
	s := strings.Join(argv, " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + " …"
	}
	return s
}
