package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

func (a *app) targetsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "targets", Short: "List what can be built", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			repo, _, err := a.declarations()
			if err != nil {
				return err
			}
			list := []spec.Recipe{}
			rows := [][]string{{"TARGET", "UPSTREAM", "BUILDS", "WHAT"}}
			for _, name := range slices.Sorted(maps.Keys(repo.Recipes)) {
				r := repo.Recipes[name]
				list = append(list, r)
				rows = append(rows, []string{r.Name, r.Upstream, r.Range.String(), r.Summary})
			}
			return a.print(list, func() string { return table(rows...) })
		},
	}
}

func (a *app) inspectCmd() *cobra.Command {
	return &cobra.Command{
		Use: "inspect FILE...", Short: "Show what a built program or library holds and needs",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, files []string) error {
			if len(files) == 0 {
				return args("FILE")(c, files)
			}
			var list []*binary.File
			for _, name := range files {
				f, err := binary.Inspect(name)
				if errors.Is(err, fs.ErrPermission) {
					return err
				}
				if err != nil { // it is not there, or not what can be inspected
					return &usageError{err: err}
				}
				list = append(list, f)
			}
			return a.print(list, func() string {
				var b strings.Builder
				for _, f := range list {
					fmt.Fprintf(&b, "%s\n  machine  %s\n  needs    %s\n  runpath  %s\n  build id %s\n", f.Name, f.Machine, strings.Join(f.Needed, " "), strings.Join(f.RunPath, ":"), f.BuildID)
					for _, family := range slices.Sorted(maps.Keys(f.Versions)) {
						fmt.Fprintf(&b, "  at least %s %s\n", family, f.Versions[family])
					}
				}
				return b.String()
			})
		},
	}
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show llpatch's version", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return a.print(v, func() string {
				return fmt.Sprintf("llpatch %s %s %s\n", v["version"], v["go"], v["platform"])
			})
		},
	}
}
