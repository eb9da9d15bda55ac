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
	Builds    bool           // the library that a toolchain names, and the page, are built, where the cache has none
}

// Site is a machine that was looked at: what it has, and how a build gets there.
type Site struct {
	Machine
	Toolchain spec.Toolchain // of the recipe, for that machine
	Facts     build.Facts
	root      *buildenv.Entered // of Root, open
	library   *buildenv.Entered // that the toolchain names; nil: there is none
	linkable  *buildenv.Decl    // the declaration of library
}

// Close gives back the build root and the library.
func (s Site) Close() error {
	var err error
	for _, e := range []*buildenv.Entered{s.library, s.root} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
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
	if err == nil && s.Toolchain.Library != "" && m.Remote == nil {
		if err = s.findLibrary(ctx, e, o); err != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return s, e.placed(err)
}

// findLibrary opens the library that the toolchain names, and builds it if need be. Where it
// cannot be had, the facts say why: a plan leaves out what wants it.
func (s *Site) findLibrary(ctx context.Context, e Workspace, o Order) error {
	d, err := e.Repo.Buildenv(s.Toolchain.Library)
	if err != nil {
		return err
	}
	lib := build.LibraryFact{Name: d.Library.Name, Header: d.Library.Header}
	if !slices.ContainsFunc(o.Recipe.Optional, func(f spec.Optional) bool {
		return f.Header == lib.Header
	}) || o.DropIn != "" {
		return nil
	}
	if s.root != nil {
		d.In = s.root.Digest
	}
	s.library, err = buildenv.Open(ctx, e.Cache, d, e.Log)
	if errors.As(err, new(*buildenv.NotMade)) && s.Builds && !e.Offline {
		e.Log.Info("building a library, once", "library", lib.Name)
		if _, err = buildenv.Create(ctx, d, buildenv.Options{
			Cache: e.Cache, Log: e.Log, Progress: e.Progress,
			In: s.root,
		}); err == nil {
			s.library, err = buildenv.Open(ctx, e.Cache, d, e.Log)
		}
	}
	switch {
	case err == nil:
		lib.Dir, s.linkable = s.library.Root, &d
	case errors.As(err, new(*buildenv.NotMade)), errors.As(err, new(*buildenv.Missing)),
		errors.As(err, new(*buildenv.Unavailable)):
		lib.Why = err.Error()
	default:
		return err
	}
	s.Facts.Library = lib
	return nil
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
			return spec.Toolchain{}, &BadOption{
				flag,
				errors.New("--backend-only tries its library in a stock build of this machine; both cannot be had"),
			}
		case rec.Bundle.Runtime == spec.Full:
			return spec.Toolchain{}, &BadOption{
				flag,
				errors.New("a full bundle carries the toolkit's libraries of the machine that builds; take --bundle thin"),
			}
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
	return spec.Toolchain{}, &BadOption{flag, fmt.Errorf("%s is not built on a Windows machine; there are: %s", rec.Name,
		strings.Join(there, ", "))}
}
