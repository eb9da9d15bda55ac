package release

import (
	"context"
	"errors"
	"path"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// CanSmoke looks for what Smoke would miss only after all that takes long: the
// program that runs the checks. The error wraps a *smoke.NotRun.
func (c *Chain) CanSmoke(ctx context.Context) error {
	_, err := c.wine(ctx)
	return err
}

// wine is what runs the recipe's checks; nil: they run by themselves.
func (c *Chain) wine(ctx context.Context) (*smoke.Wine, error) {
	if c.Recipe.Wine == "" {
		return nil, nil
	}
	if _, declared := c.Toolchain.Programs[spec.WineRole]; !declared {
		return nil, spec.ErrorAt(c.Repo.FS, path.Join("recipes", c.Recipe.Name+".toml"), "wine", "toolchain %s has no program %s, which the checks are to run through", c.Toolchain.Name, spec.WineRole)
	}
	// Checks run on this machine, wherever the build does.
	t, err := build.FindTool(ctx, c.Toolchain, spec.WineRole)
	if missing := new(build.MissingTools); errors.As(err, &missing) {
		return nil, c.notRun(err)
	}
	if err != nil {
		return nil, err
	}
	return &smoke.Wine{Program: t.Path, Banner: t.Banner, Windows: c.Recipe.Wine}, nil
}
