package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/spec"
)

// card is what was found of a card on this machine.
type card struct {
	looked bool
	on     *memory.Cards // nil: none
	none   string        // why
}

// FindCard looks for the card that checks of the target are to run on, where any
// is. That there is none is an error, a *smoke.NotRun, where Options.Place asks
// for one, as it is then that the target has no backend for one.
func (c *Chain) FindCard(ctx context.Context) error {
	wanted := c.Place.Device == spec.Card || c.Place.Pick != ""
	if c.card.looked || !wanted && !slices.ContainsFunc(c.Recipe.Smoke, func(s spec.Check) bool { return s.Device == spec.Card }) {
		return nil
	}
	if c.Place.Device == spec.Card && !slices.ContainsFunc(c.Recipe.Backends, usesCard) {
		return c.notRun(fmt.Errorf("%s is built for %s and has no backend that uses a card: its programs would run on the processor", c.Recipe.Name, strings.Join(c.Recipe.Backends, ", ")))
	}
	on, err := memory.ChooseCards(ctx, c.Place.Env, c.Place.Pick)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && wanted:
		return c.notRun(err)
	case err != nil:
		c.card.none = err.Error()
	default:
		c.card.on = on
		c.Log.Info("found a card", "card", on.String(), "driver", on.List[0].Driver, "memory by", on.Source)
	}
	c.card.looked = true
	return nil
}

// usesCard tells whether a backend computes on a graphics card of this machine.
func usesCard(backend string) bool { return !slices.Contains([]string{"cpu", "blas", "rpc"}, backend) }
