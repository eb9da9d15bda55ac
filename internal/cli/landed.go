package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// explained is a series with what upstream has of its fixes, where there is a
// history that tells.
type explained struct {
	*spec.Series
	Landed   map[string]compat.Run `json:"landed,omitempty"` // by fix
	Security spec.Known            `json:"security"`
}

// landed judges the fixes of a series on its tag: on the mirror in the cache, or
// on --source. Where neither has the tag's history there is nothing to say.
func (a *app) landed(ctx context.Context, e chain.Workspace, s *spec.Series) (map[string]compat.Run, error) {
	path := cmp.Or(a.source, source.MirrorPath(e.Cache, s.Upstream))
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		return nil, nil
	}
	h, err := compat.Open(path, s.Upstream, e.Repo.Lock[s.Upstream])
	if none := new(compat.NoHistory); errors.As(err, &none) {
		a.log.Debug("what landed is not said", "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.Close() }() // it was only read from
	at := slices.IndexFunc(h.Tags, func(t compat.Tag) bool { return t.Name == s.Tag })
	if at < 0 {
		a.log.Debug("what landed is not said", "tag", s.Tag, "not in", path)
		return nil, nil
	}
	stack, err := compat.Declared(e.Repo, s.Upstream, nil)
	if err != nil {
		return nil, err
	}
	report, err := h.Status(ctx, compat.Options{Cache: e.Cache, Log: a.log, Progress: a.progress.update}, stack,
		h.Tags[at:at+1])
	if err != nil {
		return nil, err
	}
	out := map[string]compat.Run{}
	for _, st := range report.Fixes {
		if run := st.Runs[0]; len(run.Landed) > 0 && slices.ContainsFunc(s.In, func(c spec.Chosen) bool {
			return c.Fix == st.Fix
		}) {
			out[st.Fix] = run
		}
	}
	return out, nil
}

// landedText says below a fix what upstream has of it.
func landedText(b *strings.Builder, run compat.Run) {
	if run.Verdict == compat.Landed {
		b.WriteString("     upstream has all of it\n")
	} else {
		fmt.Fprintf(b, "     upstream has %d of its %d changes\n", run.Held, run.Changes)
	}
	for _, l := range compat.Landings(run.Landed, run.Verdict == compat.Landed) {
		fmt.Fprintf(b, "       %s\n", l)
	}
}
