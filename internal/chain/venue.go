package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// Device says where smoke checks are asked to run that do not say it themselves.
type Device struct {
	Name string `json:"device,omitempty"` // spec.Host (also where it is empty) or spec.Card
	// Pick names the cards, as memory.ChooseCards takes them; empty: the first.
	Pick    string   `json:"pick,omitempty"`
	Environ []string `json:"-"` // the user's, for the tools that know the cards
}

// Venue is what was found of a device: what the checks run with.
type Venue struct {
	Device
	Wine   *smoke.Wine   // runs the programs; nil: they run by themselves
	Card   *memory.Cards // nil: none
	NoCard string        // why
}

// Look looks for what the checks of an order need besides its programs, before all that takes
// long. What is missing and was asked for, and a card for programs that use none, is an error
// that wraps a *smoke.NotRun.
func (d Device) Look(ctx context.Context, e Workspace, o Order, tc spec.Toolchain) (v Venue, err error) {
	v.Device = d
	wanted := d.Name == spec.Card || d.Pick != ""
	if d.Name == spec.Card && !slices.ContainsFunc(o.Recipe.Backends, usesCard) {
		return v, o.notRun(fmt.Errorf("%s is built for %s and has no backend that uses a card: its programs would run on "+
			"the processor", o.Recipe.Name, strings.Join(o.Recipe.Backends, ", ")))
	}
	if wanted || slices.ContainsFunc(o.Recipe.Smoke, func(s spec.Check) bool { return s.Device == spec.Card }) {
		v.Card, err = memory.ChooseCards(ctx, d.Environ, d.Pick)
		switch {
		case ctx.Err() != nil:
			return v, context.Cause(ctx)
		case err != nil && wanted:
			return v, o.notRun(err)
		case err != nil:
			v.NoCard = err.Error()
		default:
			e.Log.Info("found a card", "card", v.Card.String(), "driver", v.Card.List[0].Driver, "memory by", v.Card.Source)
		}
	}
	v.Wine, err = findWine(ctx, e, o, tc)
	return v, err
}

// findWine finds what runs the recipe's checks; nil: they run by themselves.
func findWine(ctx context.Context, e Workspace, o Order, tc spec.Toolchain) (*smoke.Wine, error) {
	if o.Recipe.Wine == "" {
		return nil, nil
	}
	if _, declared := tc.Programs[spec.WineRole]; !declared {
		return nil, spec.ErrorAt(e.Repo.FS, recipeFile(o.Recipe), "wine",
			"toolchain %s has no program %s, which the checks are to run through", tc.Name, spec.WineRole)
	}
	// Checks run on this machine, wherever the build does.
	t, err := build.FindTool(ctx, tc, spec.WineRole)
	if missing := new(build.MissingTools); errors.As(err, &missing) {
		return nil, o.notRun(err)
	}
	if err != nil {
		return nil, err
	}
	return &smoke.Wine{Program: t.Path, Banner: t.Banner, Windows: o.Recipe.Wine}, nil
}
