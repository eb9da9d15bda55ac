package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// Machine is where a build is asked to run: with nothing set, this machine.
type Machine struct {
	Root      *buildenv.Decl // a buildenv, in whose root
	Libraries *buildenv.Decl // the one with the libraries that a full bundle carries; nil: Root names none
	Remote    *build.Remote  // another machine
	Box       bool           // a Windows machine that nobody looks at, with the recipe's box: for a plan
}

// Site is a machine that was looked at: what it has, and how a build gets there.
type Site struct {
	Machine
	Toolchain spec.Toolchain // of the recipe, for that machine
	Facts     build.Facts
	root      *buildenv.Entered // of Root, open
}

// Close gives back the build root.
func (s Site) Close() error {
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// Look finds which toolchain builds an order there, and what the machine has of it. The error
// is a *BadOption where the order cannot be built there; what is missing is a
// *build.MissingTools. The caller closes the site.
func (m Machine) Look(ctx context.Context, e Workspace, o Order) (s Site, err error) {
	s = Site{Machine: m}
	if s.Toolchain, err = m.toolchain(ctx, e, o); err != nil {
		return s, err
	}
	switch {
	case m.Box:
		s.Facts = build.BoxFacts(s.Toolchain)
	case m.Remote != nil:
		s.Facts, err = build.ProbeOn(ctx, *m.Remote, s.Toolchain, o.Recipe)
	case m.Root == nil:
		s.Facts, err = build.Probe(ctx, s.Toolchain, o.Recipe)
	default:
		if s.root, err = buildenv.Open(ctx, e.Cache, *m.Root, e.Log); err != nil {
			return Site{}, err
		}
		if s.Facts, err = build.ProbeInside(ctx, s.root, s.Toolchain, o.Recipe); err != nil {
			return Site{}, errors.Join(e.placed(err), s.root.Close())
		}
	}
	return s, e.placed(err)
}

// toolchain is the one that builds an order there.
func (m Machine) toolchain(ctx context.Context, e Workspace, o Order) (spec.Toolchain, error) {
	rec, windows, flag := o.Recipe, m.Box, "--ps1"
	if m.Remote != nil {
		flag = "--on"
		switch {
		case m.Root != nil:
			return spec.Toolchain{}, &BadOption{flag, errors.New("--env names a root of this machine; both cannot be had")}
		case o.DropIn != "":
			return spec.Toolchain{}, &BadOption{flag, errors.New("--backend-only tries its library in a stock build of this machine; both cannot be had")}
		case rec.Bundle.Runtime == spec.Full:
			return spec.Toolchain{}, &BadOption{flag, errors.New("a full bundle carries the toolkit's libraries of the machine that builds; take --bundle thin")}
		}
		kind, err := build.RemoteOS(ctx, *m.Remote)
		if err != nil {
			return spec.Toolchain{}, err
		}
		windows = kind == "windows"
	}
	if !windows {
		return e.Repo.Toolchains[rec.Toolchain], nil
	}
	if rec.Box != "" {
		return e.Repo.Toolchains[rec.Box], nil
	}
	there := []string{}
	for _, r := range e.Repo.Recipes {
		if r.Box != "" {
			there = append(there, r.Name)
		}
	}
	slices.Sort(there)
	return spec.Toolchain{}, &BadOption{flag, fmt.Errorf("%s is not built on a Windows machine; there are: %s", rec.Name, strings.Join(there, ", "))}
}
