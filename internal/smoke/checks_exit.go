package smoke

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// FaultExitHang names a program that has printed all that it has to say, and does not end.
const FaultExitHang = "exit-hang"

// noSuchArgument is one that no program of llama.cpp knows.
const noSuchArgument = "--llpatch-no-such-argument"

// exitCheck: the programs (llama-server) end by themselves within a time (10s) after
// --version, --help and an argument that they do not know, each so many times (5): what
// hangs at its end does not always.
func exitCheck(a *args) step {
	programs := a.list("programs", []string{"llama-server"})
	times := a.number("times", 5, 1)
	within := a.duration("within", 10*time.Second)
	return func(ctx context.Context, s *session) (outcome, error) {
		runs, longest := 0, time.Duration(0)
		for range times {
			for _, name := range programs {
				for _, arg := range []string{"--version", "--help", noSuchArgument} {
					took, err := s.ends(ctx, within, name, arg)
					if err != nil {
						return outcome{figures: map[string]any{"ended": runs}}, err
					}
					runs, longest = runs+1, max(longest, took)
				}
			}
		}
		return outcome{
			detail:  fmt.Sprintf("%d of %d runs ended, each within %v", runs, runs, round(longest)),
			figures: map[string]any{"runs": runs, "longest_seconds": seconds(longest)},
		}, nil
	}
}

// ends runs a program that is to end by itself, and returns how long that took.
func (s *session) ends(ctx context.Context, within time.Duration, name, arg string) (time.Duration, error) {
	limit := patience(within)
	start := time.Now()
	out, err := s.outputWithin(ctx, limit, name, arg)
	took := time.Since(start)
	var f *fault
	late := errors.As(err, &f) && f.late
	switch {
	case out == nil:
		return 0, err
	case late && !said(out, arg):
		return 0, out.fault("%s %s did not end within %v, and has not said what it has to", name, arg, round(limit))
	case late:
		f = out.fault("%s %s says all that it has to and does not end: stopped after %v", name, arg, round(limit))
		f.name = FaultExitHang
		return 0, f
	// ik_llama.cpp's --help ends with 1
	case err != nil && arg != noSuchArgument && !strings.Contains(out.all(), "usage: "):
		return 0, err
	case !said(out, arg):
		return 0, out.fault("%s %s ends and does not say what it has to", name, arg)
	}
	return took, nil
}

// said reports whether a program has printed what an argument asks for.
func said(out *output, arg string) bool {
	switch arg {
	case "--version":
		_, ok := parseVersion(out.all())
		return ok
	case "--help":
		return strings.Contains(out.all(), "--model")
	}
	return strings.Contains(out.all(), strings.TrimLeft(arg, "-"))
}
