package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/lint"
)

func (a *app) lintCmd() *cobra.Command {
	var o lint.Options
	c := &cobra.Command{
		Use: "lint", Short: "Check that everything declared is true", Args: args(),
		Example: "  llpatch lint\n  llpatch lint --source llama.cpp.git     proves ranges and pins, too",
		RunE: func(c *cobra.Command, _ []string) error {
			repo, records, err := a.declarations()
			if report, ok := lint.LoadFindings(err); ok && err != nil {
				// --json shows the findings of either kind in the same form.
				return errors.Join(a.print(report, report.Text), err)
			}
			if err != nil {
				return err
			}
			o.Cache, o.Log, o.Progress = records.Cache, a.log, a.progress.update
			report, err := lint.Check(c.Context(), repo, o)
			if err != nil {
				return err
			}
			for _, note := range report.Notes {
				a.log.Warn(note)
			}
			return errors.Join(a.print(report, report.Text), report.Err())
		},
	}
	c.Flags().StringVar(&o.Source, "source", "", "a local repository with upstream's tags and history: prove the ranges and the pins on it")
	addUpstream(c, &o.Upstream, "whose history that is")
	return c
}
