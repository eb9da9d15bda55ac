package buildenv

import (
	"context"
	"fmt"
)

// Renew is Update, and then Create with the lock that came of it. d.Lock is the one that
// counts so far, nil where there is none. keep gets the new one, and only when all that it
// names was fetched from where it says, has the size and the hash that it says, and was
// unpacked into a root. Where the mirror's list is wrong, keep fails or ctx ends, the lock
// so far is still the one that counts. The error is one of Update's or of Create's.
func Renew(ctx context.Context, d Decl, o Options, keep func(*Lock) error) (Made, error) {
	old := d.Lock
	var err error
	if d.Lock, err = Update(ctx, d, o); err != nil {
		return Made{}, err
	}
	o.fresh = old == nil || old.String() != d.Lock.String()
	m, err := Create(ctx, d, o)
	switch {
	case err != nil && o.fresh:
		return m, fmt.Errorf("%w\n  packages.lock stays as it was", err)
	case err != nil:
		return m, err
	case ctx.Err() != nil: // too late for Create to see it
		return m, context.Cause(ctx)
	}
	return m, keep(d.Lock)
}
