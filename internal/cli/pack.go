package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/release"
	"github.com/llpatch/llpatch/internal/spec"
)

// packFlags are for a command that ends in an archive.
func (a *app) packFlags(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&a.runtime, "bundle", "", "thin: the user's machine has the toolkit's libraries; full: they are inside (default: as the recipe says)")
	c.Flags().Int64Var(&a.partMiB, "part-size", release.DefaultPartMiB, "a larger archive is also given in parts of so many MiB")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if a.runtime != "" && a.runtime != spec.Thin && a.runtime != spec.Full {
			return &usageError{err: fmt.Errorf("--bundle is %s or %s, not %q", spec.Thin, spec.Full, a.runtime), help: c.CommandPath() + " --help"}
		}
		if a.partMiB < 1 || a.partMiB > release.MaxPartMiB {
			return &usageError{err: fmt.Errorf("--part-size is %d; it must be 1 to %d", a.partMiB, release.MaxPartMiB), help: c.CommandPath() + " --help"}
		}
		return nil
	}
	return c
}
