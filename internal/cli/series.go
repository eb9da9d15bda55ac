package cli

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) seriesCmd() *cobra.Command {
	var to string
	c := a.chainCmd("series", "Export the patches of a tag and target for git am and quilt", toTree, nil,
		func(ctx context.Context, j job) error {
			done, err := j.Export(ctx, j.Workspace, to)
			if err != nil {
				return err
			}
			a.log.Info("series exported", "dir", done.Dir, "patches", len(done.Files), "written", done.Written, "tree",
				done.Tree)
			return a.print(done, func() string {
				var b strings.Builder
				for _, f := range done.Files {
					b.WriteString(filepath.Join(done.Dir, f.Name) + "\n")
				}
				b.WriteString(filepath.Join(done.Dir, "series") + "\n")
				return b.String()
			})
		})
	c.Example = `  llpatch series b8833 linux-cpu -o patches
  git am patches/*.patch                           in the tag's tree, or
  QUILT_PATCHES=$PWD/patches quilt push -a --fuzz=0`
	c.PreRunE = func(*cobra.Command, []string) error {
		if to == "" {
			return usage("-o DIR is missing")
		}
		return nil
	}
	c.Flags().StringVarP(&to, "output", "o", "", "folder to write: new or empty, or one that this command wrote before")
	return c
}
