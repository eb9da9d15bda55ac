package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/doctor"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

func (a *app) doctorCmd() *cobra.Command {
	var headers, clang, rootName string
	c := &cobra.Command{
		Use:   "doctor TARGET [TAG] | FILE-or-BUNDLE",
		Short: "Show what a build or a bundle needs that is not here",
		Example: "  llpatch doctor linux-cpu\n  llpatch doctor linux-cpu b8833 --offline\n" +
			"  llpatch doctor llama-b8833-llp1-bin-linux-cpu-x64.tar.gz",
		Args: args("TARGET", "[TAG]"),
		RunE: func(c *cobra.Command, got []string) error {
			e, err := a.workspace()
			if err != nil {
				return err
			}
			var r *doctor.Report
			if _, known := e.Repo.Recipes[got[0]]; !known && isPath(got[0]) {
				if err := ofTarget(c, got[0]); err != nil {
					return err
				}
				if len(got) == 2 {
					return usage("%s is a file or folder: a tag has no place there", got[0])
				}
				r, err = doctor.Bundle(c.Context(), os.Environ(), e.Repo.Advisories, got[0])
				if errors.Is(err, fs.ErrNotExist) {
					return &usageError{err, missing(got[0])}
				}
			} else {
				var root *buildenv.Decl
				if rootName != "" {
					d, err := a.buildenvDecl(e.Repo, e.Cache, rootName)
					if err != nil {
						return err
					}
					root = &d
				}
				var t *tag.Tag
				if len(got) == 2 {
					named, err := tag.Parse(got[1])
					if err != nil {
						return usage("%w", err)
					}
					t = &named
				}
				r, err = doctor.Target(c.Context(), doctor.Options{
					Workspace: e, Root: root, Environ: os.Environ(),
					CUDAHeaders: cmp.Or(headers, os.Getenv("CUDA_HEADERS")), Clang: clang,
				}, got[0], t)
			}
			if unknown := new(spec.Unknown); errors.As(err, &unknown) {
				return fmt.Errorf("%w; nor is there such a file", err)
			}
			if err != nil {
				return err
			}
			return errors.Join(a.print(r, r.Text), r.Err())
		},
	}
	c.Flags().StringVar(&headers, "cuda-headers", "",
		"NVIDIA's headers for the simulated device, as scripts/cuda-headers makes them (default $CUDA_HEADERS)")
	c.Flags().StringVar(&clang, "clang", "", "clang++ for the simulated device (default: the newest on the PATH)")
	c.Flags().StringVar(&a.source, "source", "", "look at this source alone: a git URL, or the path of a repository, a "+
		"git bundle, an npm package or a source tarball")
	c.Flags().StringVar(&rootName, "env", "", "look at the root of this `BUILDENV` instead of this machine's tools")
	c.Flags().BoolVar(&a.nearest, "nearest", false,
		"where no source has the tag, look for the nearest tag that one has, and say so")
	c.Flags().BoolVar(&a.offline, "offline", false, "use no network: sources that need it are not asked")
	return c
}

// ofTarget refuses flags that say something of a target where a file is looked at.
func ofTarget(c *cobra.Command, file string) (err error) {
	everywhere := c.InheritedFlags()
	c.Flags().Visit(func(f *pflag.Flag) {
		if everywhere.Lookup(f.Name) != nil {
			return
		}
		err = usage("--%s is for a target, and %s is a file or folder", f.Name, file)
	})
	return err
}

// isPath tells a file or folder from the name of a target.
func isPath(name string) bool {
	_, err := os.Lstat(name)
	return err == nil || strings.ContainsAny(name, "/\\")
}
