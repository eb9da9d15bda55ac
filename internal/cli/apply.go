package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// applyFlags are those of llpatch apply.
type applyFlags struct {
	to       string
	threeWay bool
	accept   bool
	follow   []string
}

func (a *app) applyCmd() *cobra.Command {
	var f applyFlags
	follow := map[string]string{}
	three := func(r *request) {
		if f.threeWay {
			r.three = &merge.ThreeWay{Git: patch.FindGit(os.Getenv("PATH")), Follow: follow, Accept: f.accept, Show: a.showMerge}
		}
	}
	c := a.chainCmd("apply", "Write the patched tree to a folder and print its git tree id", toTree, three,
		func(ctx context.Context, j job) error {
			p := j.Patched
			stats, err := p.Checkout(ctx, f.to)
			if err != nil {
				return err
			}
			a.log.Info(f.to + ": " + stats.String())
			for _, name := range p.Lacks {
				a.log.Warn("not written: the source does not have this file", "file", name)
			}
			for _, v := range p.Variants {
				_, _ = fmt.Fprintf(a.stderr, "written %s; to use it, add to patches/%s/fix.toml:\n\n%s\n", v.File, v.Fix, v.Block)
			}
			v := struct {
				Tag        string            `json:"tag"`
				Tree       string            `json:"tree"`
				Dir        string            `json:"dir"`
				Series     *spec.Series      `json:"series"`
				Placements []patch.Placement `json:"placements"`
				Variants   []merge.Variant   `json:"variants,omitempty"`
				Unread     bool              `json:"source_unread,omitempty"` // the tag was in the cache, and --source was not read
			}{p.Tree.Tag.String(), p.Result.Tree.ID(), f.to, p.Series, p.Result.Placements, p.Variants, p.Tree.Unread}
			return a.print(v, func() string { return p.Result.Tree.ID() + "\n" })
		})
	c.Example = "  llpatch apply b8833 linux-cpu -o llama.cpp\n  llpatch apply b8900 linux-cpu -o llama.cpp " +
		"--three-way --accept"
	c.PreRunE = func(*cobra.Command, []string) error { return f.check(follow) }
	c.Flags().StringVarP(&f.to, "output", "o", "", "folder to write; what is there already and right is left alone")
	c.Flags().BoolVar(&f.threeWay, "three-way", false, "where a patch does not fit, replay it on a tag that it was "+
		"made for and merge; fixes without a variant for the tag are tried, too")
	c.Flags().BoolVar(&f.accept, "accept", false, "with --three-way: write each merge as a new patch file of its fix")
	c.Flags().StringArrayVar(&f.follow, "follow", nil, "with --three-way: `OLD=NEW` takes the file OLD of the patch "+
		"for NEW of the tag, to which it has moved; may be repeated")
	return c
}

// check judges the flags and takes --follow apart.
func (f *applyFlags) check(follow map[string]string) error {
	if f.to == "" {
		return usage("-o DIR is missing")
	}
	if !f.threeWay && (f.accept || len(f.follow) > 0) {
		return usage("--accept and --follow need --three-way")
	}
	return followed(f.follow, follow)
}

// followed takes the values of --follow apart.
func followed(given []string, follow map[string]string) error {
	for _, s := range given {
		from, to, ok := strings.Cut(s, "=")
		if !ok || from == "" || to == "" {
			return usage("--follow %q is not OLD=NEW", s)
		}
		if other, twice := follow[from]; twice && other != to {
			return usage("--follow gives two places for %s", from)
		}
		follow[from] = to
	}
	return nil
}

// showMerge writes how the files of a patch were merged.
func (a *app) showMerge(m *patch.Merge, base string) {
	if m.Note != "" {
		_, _ = fmt.Fprintf(a.stderr, "%s: not merged: %s\n", m.Fix, m.Note)
	}
	for _, f := range m.Files {
		by := "llpatch alone"
		switch {
		case f.Resolution != "":
			by = "taken from " + f.Resolution
		case f.Checked:
			by = "llpatch and git merge-file give the same"
		}
		from := ""
		if f.From != "" {
			from = fmt.Sprintf(" (%s of the base)", f.From)
		}
		switch {
		case f.Merged == "" || f.Proposed:
			_, _ = fmt.Fprintf(a.stderr, "%s: %s%s: not merged over %s\n", m.Fix, f.Path, from, base)
		case f.Landed:
			_, _ = fmt.Fprintf(a.stderr, "%s: %s%s: merged over %s: the tag has all of it; %s\n", m.Fix, f.Path, from, base, by)
		default:
			_, _ = fmt.Fprintf(a.stderr, "%s: %s%s: merged over %s: %s\n%s", m.Fix, f.Path, from, base, by, f.Diff)
		}
	}
}
