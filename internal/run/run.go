package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// DefaultGrace is the time between the polite signal and the final one where
// Cmd.Grace is zero.
const DefaultGrace = 5 * time.Second

// Cmd says what to start and how.
type Cmd struct {
	// Argv is the program and its arguments. A program without a slash is
	// looked up on the PATH of Env; one with a slash is relative to Dir.
	Argv []string
	// Env is the whole environment, as KEY=VALUE; nothing is inherited, so nil
	// is an empty one.
	Env []string
	// Dir is the working folder; empty is the caller's.
	Dir string
	// Stdin is read until the program ends; nil is an empty input.
	Stdin io.Reader
	// Stdout is called with each chunk as it comes, up to 32 KiB; nil drops it.
	Stdout io.Writer
	// Stderr is like Stdout; nil sends it where Stdout goes, in the program's order.
	Stderr io.Writer
	// Log is a file that gets the command, all output and the end appended; empty: none.
	Log string
	// LogMost is how many bytes of output go into Log; zero: all. What comes after is
	// left out, which the log says.
	LogMost int64
	// Timeout ends the program after this time; zero: never.
	Timeout time.Duration
	// Grace is the time that a program and its descendants get between SIGTERM
	// and SIGKILL; zero is DefaultGrace, and a negative one means SIGKILL at once.
	Grace time.Duration
	// Hold are files, such as locks, that stay open until the last descendant is
	// gone, even if the caller dies first.
	Hold []*os.File
}

// Run starts c, waits until it and all its descendants are gone, and returns an
// *Error unless it ended with exit code 0. When ctx ends, so does the program,
// and the error wraps the context's.
func Run(ctx context.Context, c Cmd) error {
	p, err := Start(ctx, c)
	if err != nil {
		return err
	}
	return p.Wait()
}

// MaxOutput is how many bytes of a program's standard output Output takes.
const MaxOutput = 64 << 20

// Output is Run and returns what the program wrote to its standard output, at most
// MaxOutput bytes: a program that writes more is ended, and that is an error.
// Standard error goes to the log, and its lines are the last of an *Error's tail.
func Output(ctx context.Context, c Cmd) ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("run: Output collects Stdout itself")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := bounded{stop: stop}
	c.Stdout = &out
	c.Stderr = cmp.Or(c.Stderr, io.Discard)
	err := Run(ctx, c)
	if errors.Is(context.Cause(ctx), ErrTooMuch) {
		return nil, fmt.Errorf("%s %w", c.Argv[0], ErrTooMuch)
	}
	return out.Bytes(), err
}

// ErrTooMuch is why Output ended a program. A context that was cancelled with it as
// the cause has the same effect.
var ErrTooMuch = fmt.Errorf("wrote more than %d MiB and was ended", MaxOutput>>20)

// bounded keeps what is written, and stops the program when that is too much.
type bounded struct {
	bytes.Buffer
	stop context.CancelCauseFunc
}

// Write takes the next bytes; it never fails.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxOutput {
		b.stop(ErrTooMuch)
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
