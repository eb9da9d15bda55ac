// Package exit has the codes that llpatch ends with, and reads them off errors: an
// error type says by its ExitCode what ending it is, and by its Hint what to do next.
package exit

import "errors"

// The exit codes, as docs/manual/output.md lists them.
const (
	OK          = 0
	Unexpected  = 1
	Usage       = 2
	Declaration = 3
	Conflict    = 4
	Build       = 5
	Smoke       = 6
	NotRun      = 7
	Source      = 8
	Interrupted = 130
)

// Coder is an error that knows its exit code.
type Coder interface {
	error
	ExitCode() int
}

// Hinter is an error that knows what to do next: one line, or "" where nothing helps.
type Hinter interface {
	error
	Hint() string
}

// Code returns the exit code of an error: that of the outermost one that has any. Of
// errors joined the lowest counts, since a check that failed says more than one that
// could not run. Unexpected is for an error of which none knows.
func Code(err error) int {
	if code := known(err); code != OK {
		return code
	}
	return Unexpected
}

// known is OK where no error of the tree has a code. It takes an any as it looks at one
// error of the tree at a time, and errors.As does not.
func known(err any) int {
	switch e := err.(type) {
	case Coder:
		return e.ExitCode()
	case interface{ Unwrap() error }:
		return known(e.Unwrap())
	case interface{ Unwrap() []error }:
		lowest := OK
		for _, inner := range e.Unwrap() {
			if code := known(inner); code != OK && (lowest == OK || code < lowest) {
				lowest = code
			}
		}
		return lowest
	}
	return OK
}

// Hint returns the hint of the outermost error that can have one, else "".
func Hint(err error) string {
	var h Hinter
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
