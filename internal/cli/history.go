package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/source"
)

// fetchArgs demands a tag, or none for the whole history.
func fetchArgs(history *bool) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if !*history {
			return args("TAG")(c, got)
		}
		if len(got) > 0 {
			return usage("--history takes no TAG: it fetches all of them")
		}
		return nil
	}
}

// fetchHistory makes or updates the mirror of an upstream's history.
func (a *app) fetchHistory(ctx context.Context, upstream string) error {
	repo, records, err := a.declarations()
	if err != nil {
		return err
	}
	m, err := source.History(ctx, source.Options{
		Cache: records.Cache, Sources: repo.Sources, Lock: repo.Lock, Override: a.source, Offline: a.offline,
		Log: a.log, Progress: a.progress.update,
	}, upstream)
	if err != nil {
		return err
	}
	a.log.Info("the history is here", "upstream", upstream, "tags", m.Tags)
	return a.print(m, func() string { return m.Path + "\n" })
}
