package cli

import (
	"context"
	"strings"

	"github.com/llpatch/llpatch/internal/compat"
)

// blame names the upstream commits that broke a fix: all of them, or the first behind the
// tag of "FROM..".
func (a *app) blame(ctx context.Context, h *compat.History, o compat.Options, s compat.Stack, fix string,
	tags []string,
) error {
	from := ""
	if len(tags) > 0 {
		var to string
		if from, to, _ = strings.Cut(tags[0], ".."); to != "" || from == tags[0] {
			return usage("--blame takes FROM.., from which on the first break is named, not %s", tags[0])
		}
		if _, err := h.Range(tags[0]); err != nil {
			return usage("%w", err)
		}
	}
	blame, err := h.Blame(ctx, o, s, fix, from)
	if err != nil {
		return err
	}
	return a.print(blame, blame.Text)
}
