package release

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// checkSigning looks at the flag and at all that signing needs.
func (o Options) checkSigning(ctx context.Context, rec spec.Recipe) error {
	if o.Sign == nil {
		return nil
	}
	if rec.Verify.PE == nil {
		return &BadOption{"--sign", fmt.Errorf("%s has no Windows programs, which alone have such signatures", rec.Name)}
	}
	sig, err := o.Sign.Check(ctx)
	if err == nil {
		o.Log.Info("programs are signed", "as", sig.Signer, "until", sig.Until.UTC().Format(time.DateOnly))
	}
	return err
}

// sign signs what was built of the staged files. Those of others that a full bundle
// carries stay as their makers gave them out.
func (c *Chain) sign(ctx context.Context, top string, files []*binary.File) (authenticode.Signed, error) {
	mine := slices.DeleteFunc(slices.Clone(files), func(f *binary.File) bool { return stage.Carries(c.Recipe.Bundle, f.Name) })
	signed, err := c.Sign.SignAll(ctx, top, mine, c.Progress)
	if err == nil && c.Sign != nil {
		c.Log.Info("signed", "files", len(signed.Unsigned), "by", signed.Signer)
	}
	return signed, err
}
