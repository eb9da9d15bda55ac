package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/page"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// begin reads the tag and loads what every command on one needs.
func (a *app) begin(name string) (tag.Tag, chain.Workspace, error) {
	t, err := tagOf(name)
	if err != nil {
		return t, chain.Workspace{}, err
	}
	e, err := a.workspace()
	return t, e, err
}

// withFlag is --with: the fixes that no recipe takes.
func withFlag(c *cobra.Command, ids *[]string) {
	c.Flags().StringArrayVar(ids, "with", nil,
		"take this `FIX`, too, which is taken only on request (llpatch explain names them); may be repeated")
}

// withoutFlag is --without: groups of fixes that are left out.
func withoutFlag(c *cobra.Command, groups *[]string) {
	c.Flags().StringArrayVar(groups, "without", nil,
		"leave this `GROUP` of fixes out: security, the cures of known security defects")
}

func (a *app) explainCmd() *cobra.Command {
	var with, without []string
	c := &cobra.Command{
		Use: "explain TAG TARGET", Short: "Show for every fix why it is in or out", Args: args("TAG", "TARGET"),
		Example: "  llpatch explain b8833 linux-cpu",
		RunE: func(c *cobra.Command, got []string) error {
			t, e, err := a.begin(got[0])
			if err != nil {
				return err
			}
			s, err := e.Explain(c.Context(), t, got[1], with, without)
			if err != nil {
				return err
			}
			rec, err := e.Repo.Recipe(got[1])
			if err != nil {
				return err
			}
			out := explained{Series: s, Security: e.Repo.Advisories.Of(s.Upstream, s.Build, s, rec.Contents())}
			if out.Landed, err = a.landed(c.Context(), e, s); err != nil {
				return err
			}
			if err := a.print(out, func() string { return explain(out) }); err != nil {
				return err
			}
			if slices.ContainsFunc(s.Out, func(o spec.Excluded) bool { return o.Case == spec.NotCovered }) {
				a.hint("llpatch apply " + strings.Join(got, " ") +
					" -o DIR --three-way tries the nearest patch of a fix that does not cover the tag")
			}
			return nil
		},
	}
	a.sourceFlags(c)
	withFlag(c, &with)
	withoutFlag(c, &without)
	return c
}

func explain(s explained) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (build %s) for %s\n", s.Upstream, s.Tag, spec.Number(s.Build, s.BuildMax), s.Target)
	if s.Unpinned != "" {
		fmt.Fprintf(&b, "its tree is not pinned: %s\n", s.Unpinned)
	}
	for _, c := range s.In {
		fmt.Fprintf(&b, "in   %s: %s\n     %s, because %s\n     from %s%s\n", c.Fix, c.Summary, c.Case, c.Reason, c.Patch,
			c.Commit)
		curedText(&b, c.Partly)
		if run, ok := s.Landed[c.Fix]; ok {
			landedText(&b, run)
		}
	}
	for _, o := range s.Out {
		fmt.Fprintf(&b, "out  %s: %s\n     %s, because %s\n", o.Fix, o.Summary, o.Case, o.Reason)
		curedText(&b, o.Partly)
	}
	byCommit := 0
	for _, c := range s.In {
		if c.Group == spec.Security && c.Commit != "" {
			byCommit++
		}
	}
	if byCommit > 0 {
		fmt.Fprintf(&b, "cures that are upstream's commits: %d; without a way to its history they are left out\n", byCommit)
	}
	for _, line := range s.Security.Lines(0) {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// curedText says which parts of a fix's defect upstream has cured.
func curedText(b *strings.Builder, parts []spec.Cure) {
	for _, c := range parts {
		fmt.Fprintf(b, "     upstream cured a part in %s\n", c)
	}
}

func (a *app) fetchCmd() *cobra.Command {
	var upstream, ui string
	var history bool
	c := &cobra.Command{
		Use: "fetch TAG", Short: "Fetch a tag into the cache and verify its tree", Args: fetchArgs(&history),
		Example:     "  llpatch fetch b8833\n  llpatch fetch v0.5.0 --ui\n  llpatch fetch --history",
		Annotations: map[string]string{interrupted: goesOn},
		RunE: func(c *cobra.Command, got []string) error {
			if history {
				return a.fetchHistory(c.Context(), upstream)
			}
			t, e, err := a.begin(got[0])
			if err != nil {
				return err
			}
			if c.Flags().Changed("ui") {
				if ui == fromSources {
					ui = ""
				}
				return a.fetchPage(c.Context(), e, upstream, t, ui)
			}
			tree, err := e.Fetch(c.Context(), upstream, t)
			if err != nil {
				return err
			}
			defer func() { _ = tree.Close() }()
			v := struct {
				Upstream string   `json:"upstream"`
				Tag      tag.Tag  `json:"tag"`
				Pin      spec.Pin `json:"pin"`
				Source   string   `json:"source"`
				InPlace  bool     `json:"in_place"`
				Unread   bool     `json:"source_unread,omitempty"` // the tag was in the cache, and --source was not read
			}{upstream, tree.Tag, tree.Pin, tree.Source, tree.InPlace, tree.Unread}
			if tree.InPlace && a.source != "" {
				a.log.Info("a local repository is used in place: the cache holds nothing of it, so give --source again with the "+
					"next command", "source", tree.Source)
			}
			return a.print(v, func() string { return fmt.Sprintf("%s %s\n", tree.Tag, tree.ID()) })
		},
	}
	addUpstream(c, &upstream, "whose tag it is")
	c.Flags().StringVar(&ui, "ui", "", "fetch the tag's web page as well: built from its sources, or with =PATH the "+
		"one in this folder, if its hash is that of recipes/pages.lock")
	c.Flags().Lookup("ui").NoOptDefVal = fromSources
	c.Flags().BoolVar(&history, "history", false, "instead of a tag, fetch or update the whole history, for status and "+
		"backports; --source is then a git URL or a repository")
	a.sourceFlags(c)
	exclusive(c, "history locked", "history nearest", "history ui")
	return c
}

// fromSources is --ui without a folder.
const fromSources = "sources"

// fetchPage puts the web page of a tag into the cache.
func (a *app) fetchPage(ctx context.Context, e chain.Workspace, upstream string, t tag.Tag, from string) error {
	t, p, err := chain.FetchPage(ctx, e, upstream, t, from)
	if err != nil {
		return err
	}
	v := struct {
		Upstream string  `json:"upstream"`
		Tag      tag.Tag `json:"tag"`
		page.Page
	}{upstream, t, p}
	return a.print(v, func() string { return fmt.Sprintf("%s %s\n", t, p.SHA256) })
}

// job is what a command on a tag and a target works with.
type job struct {
	chain.Workspace
	chain.Prepared // of a command that does not build only its Patched is set
}

// reach is how far a command goes along the chain.
type reach int

const (
	toTree     reach = iota // it patches
	toPlan                  // it says as well how a folder of --out is built
	toPrograms              // it builds there, and goes on where it was stopped
)

// checkOut refuses a folder that no build can be in.
func checkOut(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return build.CheckFolder(dir)
}

// request is what the flags of such a command ask for.
type request struct {
	flags   chain.Flags
	machine chain.Machine
	three   *merge.ThreeWay // how patches that do not fit are merged; nil: not
}

// chainCmd is a command that takes a tag and a target and works on their chain. tune, which
// may be nil, adds to the request what its own flags say.
func (a *app) chainCmd(use, short string, to reach, tune func(*request),
	do func(context.Context, job) error,
) *cobra.Command {
	builds := to >= toPlan
	var r request
	var rootName, on string
	c := &cobra.Command{
		Use: use + " TAG TARGET", Short: short, Args: args("TAG", "TARGET"),
		RunE: func(c *cobra.Command, got []string) (err error) {
			ctx := c.Context()
			t, e, err := a.begin(got[0])
			if err != nil {
				return err
			}
			if builds {
				if err := checkOut(a.out); err != nil { // before anything is waited for
					return err
				}
			}
			if on != "" {
				h, err := build.ParseRemote(on, os.Environ())
				if err != nil {
					return usage("--on: %w", err)
				}
				r.machine.Remote = &h
			}
			if rootName != "" {
				if r.machine.Root, r.machine.Libraries, err = a.buildenvs(e, rootName); err != nil {
					return err
				}
			}
			r.flags.Runtime = a.runtime
			r.machine.Builds = to == toPrograms
			if tune != nil {
				tune(&r)
			}
			order, err := chain.NewOrder(e, t, got[1], r.flags)
			if err != nil {
				return err
			}
			if err := chain.CheckSigner(ctx, e, order, a.sign); err != nil {
				return err
			}
			j := job{Workspace: e}
			if builds {
				j.Prepared, err = chain.Prepare(ctx, e, order, r.machine, r.three)
			} else {
				j.Patched, err = chain.Patch(ctx, e, order, r.three)
			}
			if err != nil {
				return err
			}
			return errors.Join(do(ctx, j), j.Close())
		},
	}
	a.sourceFlags(c)
	withFlag(c, &r.flags.With)
	withoutFlag(c, &r.flags.Without)
	if builds {
		c.Flags().StringVar(&r.flags.Archs, "cuda-archs", "", "make device code for these instead of the recipe's: 86 or "+
			"120a for machine code and PTX, 86-real, 86-virtual; several joined by commas")
		c.Flags().StringVar(&r.flags.GFX, "gfx", "",
			"make device code for these AMD cards instead of the recipe's: gfx1201, gfx12-generic; several joined by commas")
		c.Flags().StringVar(&r.flags.Page, "ui", "",
			"take llama-server's web page from this folder, if its hash is that of recipes/pages.lock, instead of building it")
		c.Flags().BoolVar(&r.flags.RequirePage, "require-ui", false,
			"end with 8 where the web page is not in the cache and cannot be built, instead of leaving it out")
		c.Flags().StringVar(&rootName, "env", "",
			"build in the root of this `BUILDENV`, which llpatch env create makes, with its compilers")
		if to == toPrograms {
			c.Annotations = map[string]string{interrupted: goesOn}
			c.Flags().StringVar(&on, "on", "", "build on another machine, ssh:HOST or ssh:HOST:DIR (a folder there that "+
				"llpatch may fill; default: llpatch), and fetch the programs")
		}
		c.Flags().BoolVar(&r.flags.BackendOnly, "backend-only", false,
			"make nothing but the target's backend library, for the official package of the same tag")
	}
	return c
}

// buildenvs are the buildenv that a build runs in and the one with the libraries that a full
// bundle carries, which is nil where the first names none.
func (a *app) buildenvs(e chain.Workspace, name string) (root, libraries *buildenv.Decl, err error) {
	d, err := a.buildenvDecl(e.Repo, e.Cache, name)
	if err != nil {
		return nil, nil, err
	}
	if len(d.Programs) == 0 {
		return nil, nil, &usageError{
			fmt.Errorf("buildenv %s has no compilers: nothing is built in it", d.Name),
			"see llpatch env list",
		}
	}
	if d.Runtime == "" {
		return &d, nil, nil
	}
	r, err := a.buildenvDecl(e.Repo, e.Cache, d.Runtime)
	return &d, &r, err
}

func (a *app) planCmd() *cobra.Command {
	var sh, ps1 bool
	c := a.chainCmd("plan", "Show the commands that build the target", toPlan, func(r *request) {
		r.machine.Box = ps1
	}, func(_ context.Context, j job) error {
		plan, err := chain.NewPlan(j.Workspace, j.Prepared)
		if err != nil {
			return err
		}
		a.progress.close()
		if ps1 {
			script, err := chain.BoxScript(j.Patched)
			if err != nil {
				return err
			}
			return plan.PowerShell(a.stdout, script)
		}
		if !sh {
			return a.print(plan, func() string { return planText(plan) })
		}
		script, err := chain.Script(j.Workspace, j.Prepared, plan)
		if err != nil {
			return err
		}
		return plan.Script(a.stdout, script)
	})
	c.Example = "  llpatch plan b8833 linux-cpu --sh >build.sh"
	exclusive(c, "sh json", "ps1 json", "sh ps1", "ps1 env")
	c.Flags().BoolVar(&ps1, "ps1", false, "as a PowerShell script that checks the patched source and builds it on a "+
		"Windows machine")
	c.Flags().BoolVar(&sh, "sh", false, "as a shell script that fetches, patches and builds without llpatch")
	return c
}

func planText(p build.Plan) string {
	var b strings.Builder
	if p.Root != nil {
		fmt.Fprintf(&b, "inside buildenv %s (%s)\n", p.Root.Name, p.Root.Digest)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s (in %s)\n", s.Name, s.Dir)
		for _, a := range s.Argv {
			fmt.Fprintf(&b, "  %s\n", a)
		}
	}
	for _, off := range p.Off {
		fmt.Fprintf(&b, "left out: %s\n", off)
	}
	if p.Cost.CPUSeconds > 0 {
		fmt.Fprintf(&b, "a whole build takes %s\n", p.Cost)
	}
	if p.Glibc != "" {
		fmt.Fprintf(&b, "the result may need glibc up to %s\n", p.Glibc)
	}
	fmt.Fprintf(&b, "plan %s\n", p.Digest)
	return b.String()
}

func (a *app) buildCmd() *cobra.Command {
	return a.chainCmd("build", "Fetch, patch and build a target", toPrograms, nil, func(ctx context.Context, j job) error {
		b, err := chain.Build(ctx, j.Workspace, j.Prepared)
		if err != nil {
			return err
		}
		if err := b.Close(); err != nil {
			return err
		}
		return a.print(b, func() string { return filepath.Join(b.Artifacts.Dir, "bin") + "\n" })
	})
}

func (a *app) releaseCmd() *cobra.Command {
	var on device
	var cures bool
	c := a.chainCmd("release", "Run the whole chain: fetch, patch, build, smoke, pack", toPrograms, func(r *request) {
		r.flags.Cures = cures
	}, func(ctx context.Context, j job) error {
		venue, err := on.look(ctx, j) // before what takes long
		if err != nil {
			return err
		}
		done, err := chain.Release(ctx, j.Workspace, j.Prepared, venue, a.sign, a.key, a.partMiB)
		if err != nil {
			return err
		}
		known := j.Known(j.Workspace)
		a.log.Info(known.Head())
		for _, avoid := range known.Avoids() {
			a.log.Info("avoid: " + avoid)
		}
		if a.key == nil {
			a.log.Info("not signed: --key FILE signs a release, and llpatch key new FILE makes a key")
		}
		return a.print(done, func() string { return done.Archive + "\n" })
	})
	c.Flags().BoolVar(&cures, "require-cures", false, "end with 8 where the commit of a cure of a security defect is "+
		"in no history at hand, instead of leaving that cure out")
	c.SuggestFor = []string{"bundle"}
	c.Example = `  llpatch release b8833 linux-cpu
  llpatch release b8833 linux-cuda --device card
  llpatch release b8833 linux-cuda --cuda-archs 86-real --backend-only
  llpatch release b8833 win7-vxkex-cuda11.4 --env win7-cuda-11.8
  llpatch release b8833 linux-cuda --with upstream-fattn-reserve`
	on.flags(c, spec.Host, spec.Card)
	return a.packFlags(c, on.check)
}
