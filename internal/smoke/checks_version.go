package smoke

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// The two forms of `--version`: "version: 8833 (45cac7ca7-llp1)" before b10394,
// "version: 0.2.0-dev (build 10587, commit 45cac7ca7-llp1)" since.
var (
	oldVersion = regexp.MustCompile(`(?m)^version: (\d+) \(([^()\s]+)\)\r?$`)
	newVersion = regexp.MustCompile(`(?m)^version: \S+ \(build (\d+), commit ([^()\s]+)\)\r?$`)
)

// FaultVersion names a program that does not say which build it is of.
const FaultVersion = "version"

// parseVersion finds the build number and commit in what --version prints,
// between whatever backends say as they load.
func parseVersion(out string) (Version, bool) {
	m := oldVersion.FindStringSubmatch(out)
	if m == nil {
		m = newVersion.FindStringSubmatch(out)
	}
	if m == nil {
		return Version{}, false
	}
	n, err := strconv.Atoi(m[1])
	return Version{Build: n, Commit: m[2]}, err == nil
}

// versionCheck: each of the programs (llama-server) prints the build number and
// the commit that were passed to the build.
func versionCheck(a *args) step {
	programs := a.list("programs", []string{"llama-server"})
	return func(ctx context.Context, s *session) (outcome, error) {
		if s.o.Want.Build == 0 || s.o.Want.Commit == "" {
			return outcome{}, fmt.Errorf("the build number and commit that the build was given are not known")
		}
		for _, name := range programs {
			out, err := s.output(ctx, name, "--version")
			if err != nil {
				return outcome{}, err
			}
			got, ok := parseVersion(out.all())
			if !ok {
				return outcome{}, out.fault("%s --version prints no version that llpatch knows", name)
			}
			if got != s.o.Want {
				f := out.fault("%s --version says build %d, commit %s; it was built as build %d, commit %s",
					name, got.Build, got.Commit, s.o.Want.Build, s.o.Want.Commit)
				f.name = FaultVersion
				return outcome{}, f
			}
		}
		return outcome{detail: fmt.Sprintf("build %d, commit %s", s.o.Want.Build, s.o.Want.Commit)}, nil
	}
}

// output is what a program that ends by itself printed.
type output struct {
	stdout, stderr strings.Builder
	log            string
}

func (o *output) all() string { return o.stdout.String() + "\n" + o.stderr.String() }

func (o *output) fault(format string, args ...any) *fault {
	return &fault{msg: fmt.Sprintf(format, args...), log: o.log, tail: lastLines(o.all(), 20)}
}

// output runs a program of the build to its end. A program that ends badly, or
// takes longer than session.answer, is a fault.
func (s *session) output(ctx context.Context, name string, argv ...string) (*output, error) {
	return s.outputWithin(ctx, s.answer(), name, argv...)
}

// outputWithin is output with a time of its own.
func (s *session) outputWithin(ctx context.Context, within time.Duration, name string,
	argv ...string,
) (*output, error) {
	path, err := s.program(name)
	if err != nil {
		return nil, err
	}
	o := &output{log: filepath.Join(s.o.Work, s.side.name+"-"+name+".log")}
	err = run.Run(ctx, run.Cmd{
		Argv: s.argv(path, argv...), Env: s.env(), Dir: s.o.Work, Log: o.log,
		Stdout: &o.stdout, Stderr: &o.stderr, Timeout: within, Grace: killGrace, Hold: s.o.Hold,
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		f := o.fault("%s", firstLine(err.Error()))
		f.late = errors.Is(err, context.DeadlineExceeded)
		if ended, ok := errors.AsType[*run.Error](err); ok {
			f.signal = ended.Signal
		}
		return o, f
	}
	return o, nil
}

// help returns what a program's --help prints. ik_llama.cpp's end with 1 then.
func (s *session) help(ctx context.Context, name string) (string, error) {
	key := filepath.Join(s.side.bin, name)
	if h, ok := s.helps[key]; ok {
		return h, nil
	}
	out, err := s.output(ctx, name, "--help")
	if err != nil && (out == nil || !strings.Contains(out.all(), "usage: ")) {
		return "", err
	}
	s.helps[key] = out.all()
	return s.helps[key], nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func lastLines(s string, n int) []string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[max(0, len(lines)-n):]
}
