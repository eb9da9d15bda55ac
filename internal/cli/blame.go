package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) blameBreakCmd() *cobra.Command {
	var f historyFlags
	var from string
	c := &cobra.Command{
		Use: "blame-break FIX", Short: "Name the upstream commit that broke a fix",
		Example: "  llpatch blame-break graph-cache-lru --source llama.cpp.git",
		Args:    args("FIX"),
		RunE: func(c *cobra.Command, got []string) (err error) {
			h, stack, o, err := a.open(f)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			if _, err := h.Range(from + ".."); from != "" && err != nil {
				return &usageError{err: fmt.Errorf("--from: %w", err)}
			}
			blame, err := h.Blame(c.Context(), o, stack, got[0], from)
			if err != nil {
				return err
			}
			return a.print(blame, blame.Text)
		},
	}
	f.add(c)
	c.Flags().StringVar(&from, "from", "", "only the first break after this tag")
	return c
}
