package release

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// toolchain is the one that builds rec where the options say.
func (o Options) toolchain(ctx context.Context, rec spec.Recipe) (spec.Toolchain, error) {
	windows := o.Box
	if o.On != nil {
		switch {
		case o.Env != nil:
			return spec.Toolchain{}, &BadOption{"--on", errors.New("--env names a root of this machine; both cannot be had")}
		case o.BackendOnly:
			return spec.Toolchain{}, &BadOption{"--on", errors.New("--backend-only tries its library in a stock build of this machine; both cannot be had")}
		case rec.Bundle.Runtime == spec.Full:
			return spec.Toolchain{}, &BadOption{"--on", errors.New("a full bundle carries the toolkit's libraries of the machine that builds; take --bundle thin")}
		}
		kind, err := build.HostKind(ctx, *o.On)
		if err != nil {
			return spec.Toolchain{}, err
		}
		windows = kind == "windows"
	}
	if !windows {
		return o.Repo.Toolchains[rec.Toolchain], nil
	}
	if rec.Box == "" {
		flag := "--ps1"
		if o.On != nil {
			flag = "--on"
		}
		return spec.Toolchain{}, &BadOption{flag, fmt.Errorf("%s is not built on a Windows machine; there are: %s", rec.Name, strings.Join(o.boxes(), ", "))}
	}
	return o.Repo.Toolchains[rec.Box], nil
}

// boxes are the targets that a Windows machine builds.
func (o Options) boxes() []string {
	names := []string{}
	for _, r := range o.Repo.Recipes {
		if r.Box != "" {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// onHost is the folder of another machine that stands for dir, one of this chain's.
func (c *Chain) onHost(top, dir string) (string, error) {
	own, err := c.absolute()
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(own, dir)
	if err != nil {
		return "", err
	}
	return path.Join(top, c.Tree.Tag.Short(), c.folder(), filepath.ToSlash(below)), nil
}

// BoxScript returns what a plan's PowerShell script needs: the files of the patched
// source, as they are written.
func (c *Chain) BoxScript() (build.BoxScript, error) {
	s := build.BoxScript{DiskMiB: c.Recipe.DiskMiB}
	entries, err := c.Patched.Tree.Written(c.excluded())
	if err != nil {
		return s, err
	}
	for _, e := range entries {
		s.Files = append(s.Files, build.SourceFile{Path: e.Path, Blob: e.Blob})
	}
	return s, nil
}
