package release

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/env"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// inside is the build root that the checks run in: the one of the build, where this
// machine's C library is older than what the files need. nil: this machine's own
// libraries. The error wraps a *smoke.NotRun where they can run in neither.
func (c *Chain) inside(ctx context.Context, b *Built, files []*binary.File, bin string) (*smoke.Inside, error) {
	glibc := binary.Floor(files, "GLIBC")
	if b.Plan.Root == nil && (b.Plan.Host == nil || glibc == "") {
		return nil, nil
	}
	here, err := hostGlibc(ctx, c.Recipe.Verify.Machine)
	if err != nil {
		return nil, err
	}
	old := canStart(glibc, here)
	if old == nil {
		return nil, nil
	}
	if c.root == nil {
		return nil, c.notRun(old)
	}
	if c.Place.Device == spec.Card {
		return nil, c.notRun(fmt.Errorf("%w, and a card's driver is not in buildenv %s, where other checks run", old, b.Plan.Root.Name))
	}
	dir, err := c.absolute()
	if err != nil {
		return nil, err
	}
	work, err := filepath.Abs(c.own("smoke"))
	if err != nil {
		return nil, err
	}
	folders := []string{dir}
	if !strings.HasPrefix(bin+"/", dir+"/") {
		folders = append(folders, bin)
	}
	enter, err := c.root.Runner(ctx, work, env.Same(folders...)...)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, c.notRun(errors.Join(old, err))
	}
	c.Log.Info("smoke: this machine's glibc is too old for the programs: they run in the build root", "buildenv", b.Plan.Root.Name, "glibc", here)
	return &smoke.Inside{Name: "buildenv " + b.Plan.Root.Name + " (" + b.Plan.Root.Digest + ")", Root: c.root.Root, Enter: enter}, nil
}

// canStart says why programs built with a newer C library cannot be run here; nil:
// they can, as far as this tells.
func canStart(floor, here string) error {
	if floor == "" || here == "" || !binary.Less(here, floor) {
		return nil
	}
	return fmt.Errorf("the programs need glibc %s and this machine has %s: run llpatch on a newer system, or smoke the bundle there", floor, here)
}

// hostGlibc is the version of this machine's own C library for a machine's programs,
// empty where it is not known.
func hostGlibc(ctx context.Context, machine string) (string, error) {
	libs, err := binary.SystemLibraries(ctx, nil)
	if err != nil {
		return "", err
	}
	path := libs.Find("libc.so.6", machine)
	if path == "" {
		return "", nil
	}
	f, err := binary.ReadLibrary(path)
	if err != nil {
		return "", err
	}
	return f.Highest()["GLIBC"], nil
}
