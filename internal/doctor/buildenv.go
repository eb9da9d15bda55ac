package doctor

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// inside looks for the tools in the root of Options.Root, and returns that.
func (o Options) inside(ctx context.Context, tc spec.Toolchain, rec spec.Recipe) (build.Facts, string, error) {
	e, err := buildenv.Open(ctx, o.Cache, *o.Root, o.Log)
	if err != nil {
		return build.Facts{}, "", err
	}
	facts, err := build.ProbeInside(ctx, e, tc, rec)
	return facts, e.Root, errors.Join(err, e.Close())
}

// noBuildenv notes why a buildenv cannot be looked into, and reports whether err says so.
func (r *Report) noBuildenv(err error, in *buildenv.Decl) bool {
	var lacks *buildenv.Missing
	switch {
	case in == nil:
		return false
	case errors.As(err, new(*buildenv.Unlocked)):
		r.lacks("environment", "llpatch env create "+in.Name+" --update-lock", "%s (%s) has no lock yet.", in.Name,
			in.Summary)
	case errors.As(err, new(*buildenv.NotMade)):
		r.lacks("environment", "llpatch env create "+in.Name, "%s (%s) is not made.", in.Name, in.Summary)
	case errors.As(err, &lacks):
		r.lacks("environment", lacks.How, "%s (%s) cannot be entered: this machine lacks %s.", in.Name, in.Summary,
			lacks.What)
	default:
		return false
	}
	return true
}

// environments lists the buildenvs that have every program of the toolchain, made or
// not; those with a nvcc, a hipcc, or a compiler of Windows' resources are for toolchains that want
// one. Where one is made, tools
// that this machine lacks stop nothing: the build can run in it. The declarations are returned,
// those with a lock.
func (r *Report) environments(o Options, tc spec.Toolchain) (fit []buildenv.Decl, err error) {
	if o.Root != nil {
		return nil, nil
	}
	made, err := buildenv.List(o.Cache)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(o.Repo.Buildenvs)) {
		d := o.Repo.Buildenvs[name]
		fits := true
		for _, role := range []string{"nvcc", "hipcc", "rc"} {
			_, has := d.Programs[role]
			_, wanted := tc.Programs[role]
			fits = fits && has == wanted
		}
		for role, p := range tc.Programs {
			_, has := d.Programs[role]
			fits = fits && (has || p.Optional || p.For != "") // what runs the result runs outside
		}
		if !fits {
			continue
		}
		d, _, err := d.WithOwnLock(o.Cache)
		if err == nil && d.Lock != nil {
			fit = append(fit, d)
		}
		switch {
		case err != nil:
			r.without("environment", "llpatch env remove "+name+" drops that lock",
				"%s (%s) has every tool of the toolchain, and its lock cannot be used: %s.", name, d.Summary, oneLine(err))
		case d.Lock == nil:
			r.without("environment", "llpatch env create "+name+" --update-lock, then --env "+name,
				"%s (%s) has every tool of the toolchain, and no lock yet.", name, d.Summary)
		case slices.ContainsFunc(made, func(i buildenv.Info) bool { return i.Name == name && i.Digest == d.Digest() }):
			r.ok("environment", "%s (%s) is made, and has every tool of the toolchain: --env %s builds in it.", name, d.Summary,
				name)
			for i := range r.Findings {
				if f := &r.Findings[i]; f.About == "tool" && f.stops() {
					f.Optional, f.Fix = true, "--env "+name+" builds in the environment, which has it"
					r.Buildenv, r.BuildenvMade = name, true
				}
			}
		default:
			if r.Buildenv == "" && slices.ContainsFunc(r.Findings, Finding.isTool) {
				r.Buildenv = name
			}
			r.without("environment", "llpatch env create "+name+", then --env "+name,
				"%s (%s) has every tool of the toolchain, and is not made.", name, d.Summary)
		}
	}
	return fit, nil
}

// floor is the newest glibc that what is made in the root of Options.Root may need; empty where
// that is not known. root is its folder, empty where it is not made.
func (o Options) floor(root, machine string) (string, error) {
	if root != "" && o.Root.Verify.GlibcMax == "" {
		return binary.LibrariesIn(filepath.Join(root, "usr/lib/x86_64-linux-gnu")).Glibc(machine)
	}
	d, _, err := o.Root.WithOwnLock(o.Cache)
	if err != nil {
		return "", err
	}
	return d.Floor(), nil
}
