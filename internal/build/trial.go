package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/run"
)

// trial is a compiler that is tried before anything long is compiled, and the folder in
// which that is done.
type trial struct {
	name     string // of the compiler: nvcc, clang or hipcc
	compiler ToolFact
	who      string // makes the code: it, or its clang
	itself   string // what to do where something else stands in the compiler's place
	env      []string
	dir      string
}

// begin makes the folder with the files that are compiled in it; end removes it.
func (t *trial) begin(files map[string]string) (end func(), err error) {
	if t.dir, err = os.MkdirTemp("", "llpatch-"+t.name+"-"); err != nil {
		return nil, err
	}
	end = func() { _ = os.RemoveAll(t.dir) } // below the temporary folder
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o644); err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}

func (t *trial) bad(next, format string, args ...any) *BadToolkit {
	return &BadToolkit{
		Name: t.name, Path: t.compiler.Path, Version: t.compiler.Version,
		Why: fmt.Sprintf(format, args...), Next: next,
	}
}

// patience is what the smallest compilation may take on a loaded machine.
const patience = 5 * time.Minute

// run runs a program in the folder and returns what it wrote, and the first lines of its
// messages. The error is a *BadToolkit where it wrote without end.
func (t *trial) run(ctx context.Context, argv ...string) (out string, tail []string, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stderr := messages{stop: stop}
	stdout, err := run.Output(ctx, run.Cmd{Argv: argv, Env: t.env, Dir: t.dir, Timeout: patience, Stderr: &stderr})
	if errors.Is(err, run.ErrTooMuch) {
		what := "it"
		if argv[0] != t.compiler.Path {
			what = argv[0]
		}
		return "", nil, t.bad(t.itself, "with %s %s %v", strings.Join(argv[1:], " "), what, run.ErrTooMuch)
	}
	lines := strings.Split(strings.TrimSpace(stderr.text.String()), "\n")
	return string(stdout), lines[:min(len(lines), tailLines)], err
}

// endless reports whether run refused what a program wrote.
func endless(err error) bool {
	var bad *BadToolkit
	return errors.As(err, &bad)
}

// messages keeps the beginning of a program's messages, and stops a program that
// does not end with them.
type messages struct {
	text strings.Builder
	all  int
	stop context.CancelCauseFunc
}

// maxMessages is more than twelve lines of a compiler with long paths.
const maxMessages = 64 << 10

// Write takes the next bytes; it never fails.
func (m *messages) Write(b []byte) (int, error) {
	m.text.Write(b[:min(len(b), maxMessages-m.text.Len())])
	if m.all += len(b); m.all > run.MaxOutput {
		m.stop(run.ErrTooMuch)
	}
	return len(b), nil
}

// wrote opens what the compiler says that it has written; whole tells whether it is all
// that it should be.
func (t *trial) wrote(name string, whole func(*binary.File) bool) (*binary.File, error) {
	f, err := binary.Inspect(filepath.Join(t.dir, name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, t.bad(t.itself, "%s says that it compiled a kernel, and wrote nothing", t.who)
	case err != nil:
		return nil, t.bad(t.itself, "%s says that it compiled a kernel, and what it wrote is no device code: %v", t.who, err)
	case !whole(f):
		return nil, t.bad(t.itself, "%s says that it compiled a kernel, and what it wrote is no whole device code", t.who)
	}
	return f, nil
}

// wroteCUDA is wrote for NVIDIA's cards, with code for each of the archs.
func (t *trial) wroteCUDA(name string, archs []string) (*binary.CUDA, error) {
	f, err := t.wrote(name, func(f *binary.File) bool { return f.CUDA != nil && len(f.CUDA.Faults) == 0 })
	if err != nil {
		return nil, err
	}
	var have []string
	for _, code := range f.CUDA.Code {
		have = append(have, code.Arch)
	}
	for _, want := range archs {
		if !slices.Contains(have, want) {
			return nil, t.bad(t.itself, "it was asked for %s and made code for %s", want, strings.Join(have, " "))
		}
	}
	return f.CUDA, nil
}
