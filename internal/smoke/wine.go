package smoke

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/wine"
)

// Wine is the program that runs Windows programs on this machine. It stands for a
// Windows and is none, and the report says so.
type Wine struct {
	Program string // its absolute path
	Banner  string // what its --version says, for the report
	Windows string // the version that it is to be: spec.Win7
}

// startWine makes a session's Windows and asks which version it is.
func (s *session) startWine(ctx context.Context) error {
	o := s.o.Wine
	w, err := wine.Start(ctx, wine.Options{
		Program: o.Program, Version: o.Windows, Dir: s.o.Work, Env: s.env(), Debug: "-all,+loaddll", Grace: killGrace,
		Hold: s.o.Hold,
	})
	if err != nil {
		return err
	}
	s.wine = w
	return nil
}

// stopWine ends it.
func (s *session) stopWine(ctx context.Context) {
	if err := s.wine.Stop(ctx); err != nil {
		s.o.Log.Warn(err.Error())
	}
}

// winePids are the processes of wine's server and services, which hold the sockets of
// every program that wine runs. They belong to the supervisor of the one that stays.
func (s *session) winePids() []int {
	stat, ok := run.ReadStat(s.wine.Pid())
	if !ok {
		return nil
	}
	return memory.Descendants(stat.Parent)
}

// argv is the command that runs a program of the build.
func (s *session) argv(program string, args ...string) []string {
	if s.wine != nil {
		return wine.Argv(s.o.Wine.Program, append([]string{program}, args...)...)
	}
	if s.o.Inside != nil {
		return slices.Concat(s.o.Inside.Enter, []string{program}, args)
	}
	return append([]string{program}, args...)
}

// politely is the signal that asks a program to end: wine makes the Ctrl+C of
// SIGINT, and SIGTERM would end wine itself.
func (s *session) politely() syscall.Signal {
	if s.wine != nil {
		return syscall.SIGINT
	}
	return syscall.SIGTERM
}

// wineLoaded is what wine says of a library that it has loaded; a backslash is two.
var wineLoaded = regexp.MustCompile(`(?m)trace:loaddll:build_module Loaded L"(.+?)" at `)

// lastLoaded returns the last library of a name that starts so of which a log says
// that wine has loaded it, as a path of this machine, or "".
func lastLoaded(log, name string) string {
	last := ""
	for _, m := range wineLoaded.FindAllStringSubmatch(log, -1) {
		path := sim.UnixPath(strings.ReplaceAll(m[1], `\\`, `\`))
		if strings.HasPrefix(filepath.Base(path), name) {
			last = path
		}
	}
	return last
}
