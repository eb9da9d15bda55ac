package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/fork"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/tag"
)

// forkFlags are those that the commands on a fork share.
type forkFlags struct {
	repo   string
	branch string
}

func (a *app) forkCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "fork", Short: "Keep the fixes as a branch: make, export, rebase, ...",
		Long: `A fork is a branch of any git repository with one commit a fix on the commit of
upstream's tag. The tag and the fixes alone decide its commits.`,
	}
	c.AddCommand(a.forkMakeCmd(), a.forkExportCmd(), a.forkRebaseCmd(), a.forkCheckCmd(), a.forkPushCmd(),
		a.forkImportCmd(), a.forkBackportCmd())
	return c
}

// forkSub is a command on a repository.
func (a *app) forkSub(c *cobra.Command, f *forkFlags, do func(ctx context.Context, e chain.Workspace, r *fork.Repo,
	got []string) error,
) *cobra.Command {
	c.RunE = func(c *cobra.Command, got []string) error {
		a.newDir = c.Name() != "check" && c.Name() != "push"
		if err := fork.Recover(cmp.Or(a.dir, ".")); err != nil {
			return err
		}
		e, err := a.workspace()
		if err != nil {
			return err
		}
		r, err := fork.Open(c.Context(), a.log, f.repo, c.Name() == "make")
		if err != nil {
			return err
		}
		if a.dir != "" {
			r.Flags = []string{"-C", a.dir}
		}
		if err := do(c.Context(), e, r, got); err != nil {
			return errors.Join(err, r.Discard())
		}
		return nil
	}
	a.sourceFlags(c)
	c.Flags().StringVar(&f.repo, "repo", ".", "the git repository")
	c.Flags().StringVar(&f.branch, "branch", "", "another branch of it than the one that is checked out")
	return c
}

func (a *app) forkMakeCmd() *cobra.Command {
	var f forkFlags
	w := fork.Want{}
	var c *cobra.Command
	c = a.forkSub(&cobra.Command{
		Use: "make TAG [TARGET]", Short: "Make the branch of a tag and its fixes",
		Args:    args("TAG", "[TARGET]"),
		Example: "  llpatch fork make b8833 linux-cpu --repo llama.cpp\n  llpatch fork make b8390 --repo new-folder",
	}, &f, func(ctx context.Context, e chain.Workspace, r *fork.Repo, got []string) (err error) {
		if w.Tag, err = tagOf(got[0]); err != nil {
			return err
		}
		if w.Branch = f.branch; len(got) > 1 {
			if w.Target = got[1]; !c.Flags().Changed("upstream") {
				w.Upstream = ""
			}
		}
		if w.Own && (w.Target != "" || a.dir == "") {
			return usage("--own needs -C DIR and no TARGET, whose fixes its recipe says")
		}
		m, err := fork.Make(ctx, e, r, w)
		if err != nil {
			return err
		}
		a.log.Info("branch "+m.Branch, "commits", len(m.Commits), "base", m.Base, "tip", m.Tip, "written", m.Written)
		return a.print(m, func() string { return m.Branch + " " + m.Tip + "\n" })
	})
	addUpstream(c, &w.Upstream, "whose tag it is, where no TARGET says so")
	c.Flags().BoolVar(&w.Own, "own", false, "without TARGET: take no fix but those in the folder of -C")
	withFlag(c, &w.With)
	c.Flags().Lookup("branch").Usage = "the branch to make (default llpatch/TAG)"
	return c
}

func (a *app) forkExportCmd() *cobra.Command {
	var f forkFlags
	o := fork.ExportOptions{}
	c := a.forkSub(&cobra.Command{
		Use: "export", Short: "Write a branch's commits back to the fixes",
		Args:    args(),
		Example: "  llpatch fork export --repo llama.cpp -C mine --new my-fix",
	}, &f, func(ctx context.Context, e chain.Workspace, r *fork.Repo, _ []string) error {
		o.Branch = f.branch
		x, err := fork.Export(ctx, e, r, o)
		if err != nil {
			return err
		}
		if len(x.Files) == 0 {
			a.log.Info("nothing is new: the fixes give just what the branch has", "branch", x.Branch)
		}
		if x.Next != "" {
			a.hint(x.Next)
		}
		return a.print(x, func() string { return below(x.Dir, x.Files) })
	})
	c.Flags().StringVar(&o.New, "new", "", "make a fix of this `ID` of the commits that belong to none")
	return c
}

func (a *app) forkRebaseCmd() *cobra.Command {
	var f forkFlags
	var to string
	o := fork.RebaseOptions{}
	follow := map[string]string{}
	var moves []string
	var onward [3]bool
	ways := []string{fork.Continue, fork.Skip, fork.Abort}
	c := a.forkSub(&cobra.Command{
		Use: "rebase", Short: "Move a branch's commits to another tag",
		Args: args(),
		Example: `  llpatch fork rebase --to b8994 --repo llama.cpp
  llpatch fork rebase --continue --repo llama.cpp`,
	}, &f, func(ctx context.Context, e chain.Workspace, r *fork.Repo, _ []string) (err error) {
		var done *fork.Rebased
		if o.Branch = f.branch; to == "" {
			way := ways[slices.Index(onward[:], true)]
			if done, err = fork.GoOn(ctx, e, r, way); err == nil && way == fork.Abort {
				return nil
			}
		} else {
			if o.To, err = tagOf(to); err != nil {
				return err
			}
			o.Follow = follow
			done, err = fork.Rebase(ctx, e, r, o)
		}
		if err != nil {
			return err
		}
		return a.print(done, func() string {
			return movedText(done.Commits, " (yours)") + done.Branch + " " + done.Tip + "\n"
		})
	})
	c.PreRunE = func(*cobra.Command, []string) error {
		given := 0
		for _, is := range append(onward[:], to != "") {
			if is {
				given++
			}
		}
		if given != 1 {
			return usage("give one of --to TAG, --continue, --skip and --abort")
		}
		return followed(moves, follow)
	}
	c.Flags().StringVar(&to, "to", "", "the `TAG` to move to")
	c.Flags().StringVar(&o.Name, "name", "", "the branch to make (default llpatch/TAG)")
	c.Flags().BoolVar(&o.Drop, "drop", false, "leave out the commits that conflict, and name them, instead of stopping")
	c.Flags().BoolVar(&o.Each, "each", false,
		"go over every tag of the repository between, so that less changes at a time, as far as that goes by itself")
	c.Flags().StringArrayVar(&moves, "follow", nil,
		"`OLD=NEW` takes the file OLD for NEW of the tag, to which it has moved; may be repeated")
	for i, text := range []string{
		"go on with the conflict solved", "go on without the commit that conflicts",
		"go back to where it began",
	} {
		c.Flags().BoolVar(&onward[i], ways[i], false, text)
	}
	return c
}

// movedText tells what became of each commit, and which are the user's own where others are a fix's.
func movedText(commits []fork.Moved, own string) string {
	var b strings.Builder
	for _, m := range commits {
		id := m.New
		if id == "" {
			id = m.Old
		}
		whose := ""
		if m.Fix == "" {
			whose = own
		}
		fmt.Fprintf(&b, "%-8s %.12s %s%s", m.How, id, m.Subject, whose)
		if text := strings.Join(append(slices.Clone(m.Files), m.Why), ", "); strings.Trim(text, ", ") != "" {
			fmt.Fprintf(&b, ": %s", strings.Trim(text, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// below writes the paths of files in a folder, a line each.
func below(dir string, files []string) string {
	var b strings.Builder
	for _, name := range files {
		b.WriteString(filepath.Join(dir, filepath.FromSlash(name)) + "\n")
	}
	return b.String()
}

func (a *app) forkCheckCmd() *cobra.Command {
	var f forkFlags
	o := fork.CheckOptions{}
	c := a.forkSub(&cobra.Command{
		Use: "check [TARGET]", Short: "Say whether a branch is what its tag and fixes give",
		Args:    args("[TARGET]"),
		Example: "  llpatch fork check --repo llama.cpp\n  llpatch fork check --remote origin --branch llpatch/b8833",
	}, &f, func(ctx context.Context, e chain.Workspace, r *fork.Repo, got []string) error {
		if o.Branch = f.branch; len(got) > 0 {
			o.Target = got[0]
		}
		if len(o.With) > 0 && o.Target == "" {
			return usage("--with needs a TARGET, whose fixes it adds to")
		}
		res, err := fork.Check(ctx, e, r, o)
		if res == nil {
			return err
		}
		return errors.Join(a.print(res, func() string { return checkedText(res) }), err)
	})
	withFlag(c, &o.With)
	c.Flags().StringVar(&o.Remote, "remote", "",
		"the branch of this `REMOTE`, by name or address, instead of the repository's own")
	return c
}

func checkedText(c *fork.Checked) string {
	var b strings.Builder
	for _, k := range c.Commits {
		fmt.Fprintf(&b, "%-8s%.12s %s", k.Is, k.ID, k.Subject)
		if k.Why != "" {
			fmt.Fprintf(&b, ": %s", k.Why)
		}
		b.WriteByte('\n')
	}
	for _, id := range c.Missing {
		fmt.Fprintf(&b, "missing %s\n", id)
	}
	is := "pure"
	if !c.Pure {
		is = "not pure"
	}
	fmt.Fprintf(&b, "%s on %s: %s\n", c.Branch, c.Tag, is)
	return b.String()
}

func (a *app) forkPushCmd() *cobra.Command {
	var f forkFlags
	return a.forkSub(&cobra.Command{
		Use: "push [REMOTE]", Short: "Push a checked branch, never over what is not ours",
		Long:    "Push a checked branch, never over what is not ours.\nREMOTE is origin where none is given.",
		Args:    args("[REMOTE]"),
		Example: "  llpatch fork push origin --repo llama.cpp --branch llpatch/b8833",
	}, &f, func(ctx context.Context, e chain.Workspace, r *fork.Repo, got []string) error {
		remote := "origin"
		if len(got) > 0 {
			remote = got[0]
		}
		p, err := fork.Push(ctx, e, r, remote, f.branch)
		if err != nil {
			return err
		}
		return a.print(p, func() string { return p.Branch + " " + p.Tip + " " + p.Remote + "\n" })
	})
}

func (a *app) forkImportCmd() *cobra.Command {
	var repo, on string
	o := fork.ImportOptions{}
	c := &cobra.Command{
		Use: "import PATH...", Short: "Make fixes of a foreign series or branch",
		Args: func(_ *cobra.Command, got []string) error {
			if len(got) == 0 {
				return usage("PATH is missing")
			}
			return nil
		},
		Example: `  llpatch fork import ollama/llama/patches -C mine --source llama.cpp
  llpatch fork import my-topic --repo llama.cpp -C mine`,
		RunE: func(c *cobra.Command, got []string) (err error) {
			a.newDir = true
			if err := fork.Recover(cmp.Or(a.dir, ".")); err != nil {
				return err
			}
			e, err := a.workspace()
			if err != nil {
				return err
			}
			if on != "" {
				if o.Tag, err = tagOf(on); err != nil {
					return err
				}
			}
			var r *fork.Repo
			if repo != "" {
				if r, err = fork.Open(c.Context(), a.log, repo, false); err != nil {
					return err
				}
			}
			o.Paths, o.History = got, a.historyAt(e, repo, o.Upstream)
			done, err := fork.Import(c.Context(), e, r, o)
			if err != nil {
				return err
			}
			a.log.Info("imported", "fixes", len(done.Fixes), "tag", done.Tag, "tree", done.Tree)
			return a.print(done, func() string { return importedText(done) })
		},
	}
	a.sourceFlags(c)
	addUpstream(c, &o.Upstream, "whose tags they are for")
	c.Flags().StringVar(&repo, "repo", "", "the git repository that has the branch")
	c.Flags().StringVar(&on, "tag", "", "try them on this `TAG` (default: the newest on which the most of them fit)")
	c.Flags().StringVar(&o.Prefix, "prefix", "", "put this word before the fixes' names")
	return c
}

func (a *app) forkBackportCmd() *cobra.Command {
	var f forkFlags
	var to string
	o := fork.BackportOptions{}
	c := a.forkSub(&cobra.Command{
		Use: "backport COMMIT...", Short: "Put upstream's commits on an older tag",
		Args: func(_ *cobra.Command, got []string) error {
			if len(got) == 0 {
				return usage("COMMIT is missing")
			}
			return nil
		},
		Example: "  llpatch fork backport f8f0a47a5516 --to b8833 -C mine --new fattn",
	}, &f, func(ctx context.Context, e chain.Workspace, r *fork.Repo, got []string) (err error) {
		if to == "" {
			return usage("--to TAG is missing")
		}
		if o.To, err = tagOf(to); err != nil {
			return err
		}
		o.Commits, o.Branch, o.History = got, f.branch, a.historyAt(e, r.Dir, o.Upstream)
		done, err := fork.Backport(ctx, e, r, o)
		if err != nil {
			return err
		}
		for _, n := range done.Needs {
			a.log.Info("it was merged around lines of a commit that the tag does not have", "commit", n.Commit[:12], "subject",
				n.Subject, "file", n.File)
		}
		return a.print(done, func() string {
			return movedText(done.Commits, "") + done.Branch + " " + done.Tip + "\n" + below(done.Dir, done.Files)
		})
	})
	c.Flags().StringVar(&to, "to", "", "the `TAG` that gets them")
	c.Flags().StringVar(&o.New, "new", "", "declare them as a fix of this `ID`, by reference")
	addUpstream(c, &o.Upstream, "whose commits they are")
	c.Flags().Lookup("branch").Usage = "the branch that gets them (default llpatch/TAG)"
	return c
}

// historyAt is the first repository at hand that may have upstream's tags: --source, --repo,
// the mirror; "" where there is none.
func (a *app) historyAt(e chain.Workspace, repo, upstream string) string {
	for _, at := range []string{a.source, repo, source.MirrorPath(e.Cache, upstream)} {
		if at != "" && isDir(at) {
			return at
		}
	}
	return ""
}

func importedText(d *fork.Imported) string {
	var b strings.Builder
	for _, f := range d.Fixes {
		is := f.Range
		if f.Landed {
			is = "landed"
		}
		fmt.Fprintf(&b, "%s: %s", f.Fix, is)
		if f.Since > 0 {
			fmt.Fprintf(&b, ", since %d", f.Since)
		}
		if len(f.Settled) > 0 {
			fmt.Fprintf(&b, ", more context for %d hunks", len(f.Settled))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// tagOf reads a tag that was given.
func tagOf(name string) (tag.Tag, error) {
	t, err := tag.Parse(name)
	if err != nil {
		return t, usage("%w", err)
	}
	return t, nil
}
