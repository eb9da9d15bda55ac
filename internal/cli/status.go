package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// historyFlags say which patches are judged, and on which history.
type historyFlags struct {
	source   string
	patches  string
	upstream string
}

func (f *historyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.source, "source", "",
		"a local repository with upstream's tags and history, read where it is (default: the mirror in the cache)")
	c.Flags().StringVar(&f.patches, "patches", "",
		"judge the patches of this folder instead of llpatch's: its quilt series, or every *.patch by name")
	addUpstream(c, &f.upstream, "whose tags they are")
}

// open opens the history and makes the stack ready.
func (a *app) open(f historyFlags) (*compat.History, compat.Stack, compat.Options, error) {
	repo, records, err := a.declarations()
	if err != nil {
		return nil, compat.Stack{}, compat.Options{}, err
	}
	o := compat.Options{Cache: records.Cache, Log: a.log, Progress: a.progress.update}
	stack, err := declaredOrFolder(repo, f)
	if err != nil {
		return nil, stack, o, err
	}
	path := f.source
	if path == "" {
		path = source.MirrorPath(records.Cache, f.upstream)
		if _, err := os.Stat(path); err != nil {
			return nil, stack, o, usage("--source PATH is missing: there is no mirror of %s's history in the cache; llpatch "+
				"fetch --history --upstream %[1]s makes one", f.upstream)
		}
	}
	h, err := compat.Open(path, f.upstream, repo.Lock[f.upstream])
	return h, stack, o, err
}

func declaredOrFolder(repo *spec.Repo, f historyFlags) (compat.Stack, error) {
	if f.patches != "" {
		s, err := compat.Folder(f.patches)
		if bad := new(patch.ParseError); err != nil && !errors.As(err, &bad) {
			err = usage("--patches: %w", err)
		}
		return s, err
	}
	s, err := compat.Declared(repo, f.upstream, nil)
	if err == nil && len(s.Fixes) == 0 {
		err = usage("there is no fix for %s", f.upstream)
	}
	return s, err
}

// threeWay returns what the merges of status are made with: the git program and
// the kept resolutions.
func (a *app) threeWay() (*compat.ThreeWay, error) {
	_, records, err := a.declarations()
	if err != nil {
		return nil, err
	}
	kept, err := patch.LoadResolutions(os.DirFS(records.Dir))
	if err != nil {
		return nil, err
	}
	git := patch.FindGit(os.Getenv("PATH"))
	if git == "" {
		a.log.Warn("no git program: only kept resolutions count as merges")
	}
	return &compat.ThreeWay{Git: git, Resolutions: kept}, nil
}

// stackFor marks the fixes of the stack that a target does not take.
func (a *app) stackFor(s compat.Stack, f historyFlags, target string) (compat.Stack, error) {
	repo, _, err := a.declarations()
	if err != nil {
		return s, err
	}
	rec, err := repo.Recipe(target)
	switch {
	case err != nil:
		return s, err
	case rec.Upstream != f.upstream:
		return s, usage("--target: %s builds %s; give --upstream %s", target, rec.Upstream, rec.Upstream)
	}
	return s.For(repo, rec), nil
}

// knownOf is a line for the oldest and the newest of the tags: how many security defects each is
// known to have, and for how many there is a cure here.
func (a *app) knownOf(upstream string, tags []compat.Tag) ([]string, error) {
	repo, _, err := a.declarations()
	if err != nil {
		return nil, err
	}
	var lines []string
	if repo.Advisories.Date == "" {
		return nil, nil
	}
	for _, t := range slices.Compact([]compat.Tag{tags[0], tags[len(tags)-1]}) {
		s := &spec.Series{}
		for _, fix := range repo.Fixes {
			if _, fits := fix.VariantFor(upstream, t.Build); fits && !fix.OptIn {
				s.In = append(s.In, spec.Chosen{Fix: fix.ID})
			}
		}
		k := repo.Advisories.Of(upstream, t.Build, s, spec.Contents{})
		switch {
		case k.Through == 0:
			lines = append(lines, fmt.Sprintf("security: %s: not looked up", t.Name))
		default:
			lines = append(lines, fmt.Sprintf("security: %s: %d known defects, %d with a cure here (data of %s)", t.Name,
				k.Total(), len(k.Cured), k.Date))
		}
	}
	return lines, nil
}

func (a *app) statusCmd() *cobra.Command {
	var f historyFlags
	var page, target, blame string
	var threeWay bool
	c := &cobra.Command{
		Use: "status [FROM..TO]", Short: "Show which fix fits which tag, over all tags",
		Example: `  llpatch status --source llama.cpp.git b8000..
  llpatch status --source llama.cpp.git --patches my-patches --html status.html
  llpatch status --source llama.cpp.git --blame graph-cache-lru`,
		SuggestFor: []string{"blame-break"},
		Args:       args("[FROM..TO]"),
		RunE: func(c *cobra.Command, got []string) (err error) {
			h, stack, o, err := a.open(f)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			if blame != "" {
				return a.blame(c.Context(), h, o, stack, blame, got)
			}
			if threeWay {
				if o.ThreeWay, err = a.threeWay(); err != nil {
					return err
				}
			}
			if target != "" {
				if stack, err = a.stackFor(stack, f, target); err != nil {
					return err
				}
			}
			tags := h.Tags
			if len(got) == 1 {
				if tags, err = h.Range(got[0]); err != nil {
					return usage("%w", err)
				}
			}
			report, err := h.Status(c.Context(), o, stack, tags)
			if err != nil {
				return err
			}
			if f.patches == "" {
				if report.Security, err = a.knownOf(h.Upstream, tags); err != nil {
					return err
				}
			}
			if page != "" {
				text, err := report.HTML()
				if err == nil {
					err = atomicfile.WriteFile(page, text, 0o644)
				}
				if err != nil {
					return fmt.Errorf("--html: %w", err)
				}
			}
			if err := a.print(report, report.Text); err != nil {
				return err
			}
			if broken := report.Broken(); broken != nil {
				return broken
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().StringVar(&blame, "blame", "",
		"instead of the table, name the upstream commits that broke this `FIX`; with FROM.. the first one")
	exclusive(c, "blame three-way", "blame target", "blame html", "target patches")
	c.Flags().BoolVar(&threeWay, "three-way", false, "where a patch does not fit, try to merge it over what it was "+
		"made for, as apply --three-way does; nothing is written")
	c.Flags().StringVar(&target, "target", "", "say which fixes this target takes for no tag, too")
	c.Flags().StringVar(&page, "html", "", "write one HTML page with a map of all tags and fixes to this file, too")
	return c
}
