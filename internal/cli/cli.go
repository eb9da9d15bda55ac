// Package cli is the command line: flags become one call, what it returns is
// rendered, and an error becomes an exit code.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// app is what the flags that all commands share say.
type app struct {
	dir      string // -C
	newDir   bool   // -C may name a folder that is to be made
	out      string
	json     bool
	verbose  bool
	source   string
	locked   bool
	offline  bool
	nearest  bool
	runtime  string // --bundle
	partMiB  int64
	sign     *authenticode.Signer
	key      *trust.Key // signs a release; nil: nothing does
	stdout   io.Writer
	stderr   io.Writer
	progress *progress

	interrupted string // hint where the command is interrupted
	log         *slog.Logger
}

// Run runs one command line and returns its exit code: 0 ok, 1 unexpected, 2
// usage, 3 a declaration is wrong, 4 a patch does not fit, 5 build or binary
// check failed, 6 smoke failed, 7 smoke could not run, 8 source unavailable or
// not what was pinned, 130 interrupted.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	a.progress = newProgress(stderr)
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := forgetKeys(root, args)
	var ran *cobra.Command
	if err == nil {
		ran, err = root.ExecuteContextC(ctx)
	}
	a.progress.close()
	if err == nil {
		return 0
	}
	return a.report(ctx, ran, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "llpatch",
		Short: "Turn a llama.cpp tag into fixed, proven, releasable binaries",
		Long: `llpatch fetches a tagged llama.cpp, applies the fixes that fit the tag and the
target, builds it, proves on the real programs that it works, and bundles it.

  llpatch release b8833 linux-cpu     the whole chain
  llpatch explain b8833 linux-cpu     which fixes are in or out, and why
  llpatch targets                     what can be built`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if a.verbose {
				level = slog.LevelDebug
			}
			a.log = slog.New(newHandler(a.progress, level))
			a.interrupted = c.Annotations[interrupted]
			return notEmpty(c)
		},
	}
	f := root.PersistentFlags()
	f.StringVarP(&a.dir, "directory", "C", "", "folder that holds recipes/ and patches/ (default: this folder if it "+
		"does, else those inside llpatch); without patches/series it is laid over those inside llpatch")
	f.StringVar(&a.out, "out", "dist", "folder that the stages write to")
	f.BoolVar(&a.json, "json", false, "write the result as JSON")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "tell more of what is done")
	var versions bool
	root.Flags().BoolVar(&versions, "version", false, "show llpatch's version")
	root.RunE = func(c *cobra.Command, given []string) error {
		if !versions {
			return noSubcommand(c, given)
		}
		v := map[string]string{"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
		return a.print(v, func() string { return fmt.Sprintf("llpatch %s %s %s\n", v["version"], v["go"], v["platform"]) })
	}
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages", ".FlagUsagesWrapped 80", "{{if .Runnable}}", "{{if not .HasAvailableSubCommands}}",
		"Additional Commands", "More",
	).Replace(root.UsageTemplate()))
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Build", []*cobra.Command{
			a.targetsCmd(), a.explainCmd(), a.fetchCmd(), a.seriesCmd(), a.applyCmd(), a.planCmd(), a.buildCmd(), a.smokeCmd(),
			a.releaseCmd(),
		}},
		{"Prove", []*cobra.Command{a.leakCmd(), a.vramCmd(), a.modelCmd(), a.evidenceCmd()}},
		{"Upkeep", []*cobra.Command{a.statusCmd(), a.lintCmd(), a.forkCmd()}},
		{"Trust", []*cobra.Command{a.inspectCmd(), a.doctorCmd(), a.verifyCmd(), a.publishCmd(), a.keyCmd()}},
		{"", []*cobra.Command{a.envCmd(), probeInsideCmd(), joinCUDACmd()}},
	} {
		if g.title != "" {
			root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		}
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil {
		c.Short, c.Run, c.RunE = "Show what a command does", nil, help
	}
	root.InitDefaultCompletionCmd()
	for _, c := range append(root.Commands(), root) {
		for _, sub := range c.Commands() {
			sub.Long = strings.Replace(sub.Long, "install it via your", "install it by your", 1) // 81 columns of cobra's
		}
		if c.HasSubCommands() {
			c.Args = cobra.ArbitraryArgs
			if c.RunE == nil {
				c.Run, c.RunE = nil, noSubcommand
			}
		}
	}
	a.completions(root)
	return root
}

func init() { cobra.EnableCommandSorting = false } // the help has the chain's order

// help shows what a command does, and refuses what is none: cobra would print the
// help of all and end with 0.
func help(c *cobra.Command, given []string) error {
	about, left, err := c.Root().Find(given)
	if err != nil {
		return err
	}
	if len(left) > 0 && about.HasSubCommands() {
		return noSubcommand(about, left)
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// noSubcommand refuses what is no subcommand: cobra would print the help and end
// with 0, as if it had been done.
func noSubcommand(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return c.Help()
	}
	var names []string
	hint := ""
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
		if slices.Contains(sub.SuggestFor, given[0]) {
			hint = "did you mean " + sub.Name() + "?"
		}
	}
	err := fmt.Errorf("%s has no %q; there are %s", c.CommandPath(), given[0], strings.Join(names, ", "))
	if !c.HasParent() {
		err = fmt.Errorf("unknown command %q", given[0])
	}
	return &usageError{err, cmp.Or(hint, exit.DidYouMean(given[0], names), "see "+c.CommandPath()+" --help")}
}

// notEmpty refuses a flag that was given and says nothing, as one does whose
// value is a variable of a shell that was never set.
func notEmpty(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = usage("--%s is empty", f.Name)
		}
	})
	return err
}

// sourceFlags are for every command that may fetch.
func (a *app) sourceFlags(c *cobra.Command) {
	a.exactSourceFlags(c)
	c.Flags().BoolVar(&a.nearest, "nearest", false,
		"where no source has the tag, take the nearest tag that one has, and say so")
}

// exactSourceFlags are for one that needs the very tag.
func (a *app) exactSourceFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.source, "source", "", "take the tag from here only: a git URL, or the path of a repository, a git "+
		"bundle, an npm package or a source tarball")
	f.BoolVar(&a.locked, "locked", false, "refuse a tag that recipes/tags.lock does not have")
	f.BoolVar(&a.offline, "offline", false, "use no network: only the cache and local paths")
}

// args demands the arguments that are named, and says which are missing or what the
// command takes; one in brackets may be left out.
func args(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		var err error
		switch {
		case len(got) > len(names) && len(names) == 0:
			err = fmt.Errorf("%s takes no argument, not %d", c.CommandPath(), len(got))
		case len(got) > len(names):
			err = fmt.Errorf("%s takes %s, not %d arguments", c.CommandPath(), strings.Join(names, " "), len(got))
		case len(got) < len(names) && !strings.HasPrefix(names[len(got)], "["):
			err = fmt.Errorf("%s is missing", names[len(got)])
		default:
			return nil
		}
		return usage("%w", err)
	}
}

// declarations finds and loads the declarations, and what was recorded beside
// them on this machine.
func (a *app) declarations() (*spec.Repo, records.Store, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, records.Store{}, err
	}
	records := records.Store{Dir: cache, Cache: cache, Log: a.log}
	var fsys fs.FS = llpatch.Declarations
	over := false // those in the folder are laid over those inside llpatch
	switch {
	case a.dir != "":
		if !isDir(filepath.Join(a.dir, "recipes")) && !isDir(filepath.Join(a.dir, "patches")) && !a.newDir {
			return nil, records, usage("-C %s: there is no folder recipes/ or patches/ in it", a.dir)
		}
		records.Dir = a.dir
		if fsys = os.DirFS(a.dir); spec.IsOverlay(fsys) {
			fsys, over = spec.Overlay(fsys, llpatch.Declarations), true
		}
	case isDir("recipes") && isDir("patches"):
		fsys, records.Dir = os.DirFS("."), "."
	}
	repo, err := spec.Load(fsys)
	if err != nil {
		return nil, records, err
	}
	if records.Dir == cache { // those inside llpatch, which name no path
		return repo, records, records.Overlay(repo)
	}
	for i := range repo.Sources {
		if repo.Sources[i].URL, err = source.AddressFrom(records.Dir, repo.Sources[i].URL); err != nil {
			return nil, records, err
		}
	}
	if over {
		err = records.Overlay(repo)
	}
	return repo, records, err
}

func isDir(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// cacheDir is $LLPATCH_CACHE, or llpatch in the user's cache folder.
func cacheDir() (string, error) {
	if dir := os.Getenv("LLPATCH_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", usage("no place for the cache: %w; set LLPATCH_CACHE", err)
	}
	return filepath.Join(dir, "llpatch"), nil
}

func (a *app) workspace() (chain.Workspace, error) {
	repo, records, err := a.declarations()
	if err != nil {
		return chain.Workspace{}, err
	}
	return chain.Workspace{
		Repo: repo, Records: records, Cache: records.Cache, Out: a.out, Version: version(), Log: a.log,
		Progress: a.progress.update,
		Source:   a.source, Locked: a.locked, Offline: a.offline, Nearest: a.nearest,
	}, nil
}

// version is the module's version, or the commit for a binary built from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	return v
}

var errInterrupted = errors.New("interrupted")
