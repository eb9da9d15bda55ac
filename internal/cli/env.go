package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/spec"
)

func (a *app) envCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "env", Short: "Make, list and remove build roots",
		Long: `A buildenv is a list of Debian packages with their hashes. llpatch makes a root
file system of it in the cache, and builds in it with --env NAME: with compilers
that this machine need not have. Nothing is installed on this machine, and it
takes no root rights. Some are lists of NVIDIA's own archives or of Python's
wheels: a folder of files that a build or a bundle takes, in which nothing runs.`,
	}
	c.AddCommand(a.envCreateCmd(), a.envListCmd(), a.envRemoveCmd())
	return c
}

func (a *app) envCreateCmd() *cobra.Command {
	var o buildenv.Options
	var update bool
	c := &cobra.Command{
		Use: "create NAME", Short: "Make the root of a buildenv from the packages of its lock", Args: args("NAME"),
		Example:     "  llpatch env create cuda-11.8",
		Annotations: map[string]string{interrupted: goesOn},
		RunE: func(c *cobra.Command, got []string) error {
			repo, records, err := a.declarations()
			if err != nil {
				return err
			}
			d, err := repo.Buildenv(got[0])
			if err != nil {
				return err
			}
			o.Cache, o.Log, o.Progress = records.Cache, a.log, a.progress.update
			if o.Mirror, err = mirrorURL(o.Mirror); err != nil {
				return err
			}
			var made buildenv.Made
			if update {
				made, err = a.renewBuildenv(c.Context(), d, o, records)
			} else if d, err = a.buildenvDecl(repo, records.Cache, got[0]); err == nil {
				made, err = buildenv.Create(c.Context(), d, o)
			}
			if err != nil {
				return err
			}
			return a.print(made, func() string { return made.Root + "\n" })
		},
	}
	f := c.Flags()
	f.BoolVar(&update, "update-lock", false,
		"take what the mirror has now, and write packages.lock anew when all of it was fetched, checked and unpacked")
	f.StringVar(&o.Mirror, "mirror", "", "take packages from this folder of a Debian mirror: a URL or a folder below "+
		"which dists/ and pool/ lie (default: the one that this machine's apt uses). For NVIDIA's archives the folder "+
		"with their redistrib_*.json, for wheels one with wheels")
	f.StringVar(&o.Keyring, "keyring", "", "with --update-lock, a file with the keys that sign the mirror's lists "+
		"(default: Debian's)")
	f.BoolVar(&o.Past, "past", false, "with --update-lock, take lists whose time is over, as those of a snapshot of "+
		"the mirror are; their signatures are checked all the same")
	return c
}

// mirrorURL makes the URL of a folder on this machine; a URL stays as it is.
func mirrorURL(mirror string) (string, error) {
	if mirror == "" || strings.Contains(mirror, "://") {
		return mirror, nil
	}
	dir, err := filepath.Abs(mirror)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", usage("--mirror %s is neither a URL, such as http://HOST/debian, nor a folder", mirror)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(), nil
}

// buildenvDecl is a buildenv with the lock that counts.
func (a *app) buildenvDecl(repo *spec.Repo, cache, name string) (buildenv.Decl, error) {
	d, err := repo.Buildenv(name)
	if err != nil {
		return d, err
	}
	d, own, err := d.WithOwnLock(cache)
	if err == nil && own != "" {
		a.log.Info("the lock made on this machine counts; llpatch env remove drops it", "buildenv", name, "lock", own)
	}
	return d, err
}

// renewBuildenv makes the root of what the mirror has now, and writes the lock of it.
func (a *app) renewBuildenv(ctx context.Context, d buildenv.Decl, o buildenv.Options,
	at records.Store,
) (buildenv.Made, error) {
	inside := at.Dir == at.Cache
	name := filepath.Join(at.Dir, spec.BuildenvFolder, d.Name, spec.BuildenvLock)
	if inside { // then the lock so far may be one that was made on this machine, and not be whole
		name = buildenv.OwnLock(at.Cache, d.Name)
		own, _, err := d.WithOwnLock(at.Cache)
		if d.Lock = own.Lock; err != nil {
			d.Lock = nil
		}
	}
	if err := canWrite(name); err != nil {
		return buildenv.Made{}, err
	}
	return buildenv.Renew(ctx, d, o, func(l *buildenv.Lock) error {
		// A Containerfile holds nothing of the lock: whatever happens here, the two fit.
		if !inside && d.Kind() == buildenv.Debian {
			if err := atomicfile.WriteFile(filepath.Join(filepath.Dir(name), spec.BuildenvContainerfile),
				[]byte(d.Containerfile()), 0o644); err != nil {
				return err
			}
		}
		if err := atomicfile.WriteFile(name, []byte(l.String()), 0o644); err != nil {
			return err
		}
		a.log.Info("wrote the lock", "file", name, "packages", len(l.Packages))
		return nil
	})
}

// canWrite finds out whether a file can be written beside or in the place of name, before
// an hour's work is done for it.
func canWrite(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := atomicfile.Create(name, 0o644)
	if err != nil {
		return err
	}
	return f.Cleanup()
}

// listedBuildenv is a row of env list.
type listedBuildenv struct {
	Name     string         `json:"name"`
	Summary  string         `json:"summary,omitempty"`
	Digest   string         `json:"digest,omitempty"` // empty: there is no lock yet
	Packages int            `json:"packages"`
	Current  bool           `json:"current"`         // is what the buildenv and its lock say now
	Made     *buildenv.Info `json:"made"`            // null: not made
	Begun    int64          `json:"begun,omitempty"` // bytes of one that is being made, or whose making was stopped
}

func (a *app) envListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the buildenvs and the roots in the cache", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			repo, records, err := a.declarations()
			if err != nil {
				return err
			}
			made, err := buildenv.List(records.Cache)
			if err != nil {
				return err
			}
			begun, err := buildenv.Begun(records.Cache)
			if err != nil {
				return err
			}
			rows := []listedBuildenv{}
			for _, name := range slices.Sorted(maps.Keys(repo.Buildenvs)) {
				d, err := a.buildenvDecl(repo, records.Cache, name)
				if err != nil {
					return err
				}
				row := listedBuildenv{Name: name, Summary: d.Summary, Current: true}
				if d.Lock != nil {
					row.Digest, row.Packages = d.Digest(), len(d.Lock.Packages)
				}
				if i := slices.IndexFunc(made, func(m buildenv.Info) bool {
					return m.Name == name && m.Digest == row.Digest
				}); i >= 0 {
					row.Made = &made[i]
				}
				rows = append(rows, row)
			}
			for i, m := range made {
				if !slices.ContainsFunc(rows, func(r listedBuildenv) bool { return r.Made == &made[i] }) {
					rows = append(rows, listedBuildenv{Name: m.Name, Digest: m.Digest, Packages: m.Packages, Made: &made[i]})
				}
			}
			for _, b := range begun {
				i := slices.IndexFunc(rows, func(r listedBuildenv) bool { return r.Name == b.Name && r.Digest == b.Digest })
				if i < 0 {
					rows, i = append(rows, listedBuildenv{Name: b.Name, Digest: b.Digest}), len(rows)
				}
				rows[i].Begun = b.Bytes
			}
			return a.print(rows, func() string { return buildenvTable(rows) })
		},
	}
}

func buildenvTable(rows []listedBuildenv) string {
	lines := [][]string{{"NAME", "MADE", "SIZE", "DIGEST", "PACKAGES", "WHAT"}}
	for _, r := range rows {
		made, size, what := "no", "-", r.Summary
		if r.Begun > 0 {
			made, size = "begun", fmt.Sprintf("%d MB", r.Begun/1e6)
		}
		if r.Made != nil {
			made, size = "yes", fmt.Sprintf("%d MB", r.Made.Bytes/1e6)
		}
		if !r.Current {
			what = "of another lock; llpatch env remove " + r.Name + "-" + r.Digest
		}
		digest := r.Digest
		if digest == "" {
			digest, made = "-", "no lock"
		}
		lines = append(lines, []string{r.Name, made, size, digest, fmt.Sprint(r.Packages), what})
	}
	return table(lines...)
}

func (a *app) envRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove the roots of a buildenv from the cache", Args: args("NAME"),
		Example: "  llpatch env remove cuda-11.8\n  llpatch env remove cuda-11.8-0123456789ab",
		RunE: func(_ *cobra.Command, got []string) error {
			removed, err := a.removeBuildenv(got[0])
			if len(removed) == 0 {
				return err
			}
			return errors.Join(err, a.print(removed, func() string { return strings.Join(removed, "\n") + "\n" }))
		},
	}
}

// buildenvNameRE is what a buildenv or one of its roots can be called.
var buildenvNameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]*$`)

// removeBuildenv removes the roots of a buildenv and then the lock that was made on
// this machine: one that is still in use is of that lock.
func (a *app) removeBuildenv(name string) ([]string, error) {
	if !buildenvNameRE.MatchString(name) || strings.Contains(name, "..") {
		return nil, &usageError{fmt.Errorf("%q is not the name of a buildenv or of a root", name), "see llpatch env list"}
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	own := buildenv.OwnLock(cache, name)
	_, statErr := os.Lstat(own)
	removed, err := buildenv.Remove(cache, name)
	_, notMade := errors.AsType[*buildenv.NotMade](err)
	switch {
	case statErr == nil && (err == nil || notMade):
		if err := os.Remove(own); err != nil {
			return nil, err
		}
		return append(removed, filepath.Base(own)), nil
	case notMade:
		if err := a.knownBuildenv(name); err != nil {
			return nil, err
		}
	}
	return removed, err
}

// knownBuildenv is a usageError for a name that no declaration has, alone or with
// the digest of a lock behind it.
func (a *app) knownBuildenv(name string) error {
	repo, _, err := a.declarations()
	if err != nil {
		return err
	}
	_, err = repo.Buildenv(name)
	if n, _, ok := buildenv.SplitID(name); ok && err != nil {
		if _, idErr := repo.Buildenv(n); idErr == nil {
			return nil
		}
	}
	if err != nil {
		return &usageError{err, "see llpatch env list"}
	}
	return nil
}

// probeInsideCmd is what llpatch calls of itself in a build root.
func probeInsideCmd() *cobra.Command {
	return &cobra.Command{
		Use: build.InsideCommand, Hidden: true, Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			return build.AnswerProbe(c.Context(), os.Stdin, c.OutOrStdout())
		},
	}
}

// joinCUDACmd is what a plan's compile commands call where nvcc and clang share a file.
func joinCUDACmd() *cobra.Command {
	return &cobra.Command{
		Use: build.JoinCommand + " OBJECT TEXT", Hidden: true, Args: args("OBJECT", "TEXT"),
		RunE: func(c *cobra.Command, names []string) error {
			return build.Join(c.Context(), names[0], names[1])
		},
	}
}
