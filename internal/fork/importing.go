package fork

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// ImportOptions say what becomes fixes.
type ImportOptions struct {
	Paths    []string // folders, mboxes, Debian sources; a branch of the repository
	Upstream string
	Tag      tag.Tag // on which they are tried; zero: the newest on which the most of them fit
	Prefix   string  // of the new fixes' names
	History  string  // a repository with upstream's tags, for the ranges; "": there is none at hand
}

// Imported says what became fixes.
type Imported struct {
	Dir   string        `json:"dir"`
	Tag   string        `json:"tag"`
	Tree  string        `json:"tree"` // the tag's, with all of them
	Fixes []ImportedFix `json:"fixes"`
	Files []string      `json:"files"`
}

// ImportedFix is one of them.
type ImportedFix struct {
	Fix     string   `json:"fix"`
	From    string   `json:"from"`
	Range   string   `json:"range"`
	Since   int      `json:"since,omitempty"`   // the build that brought the defect, where the message names its commit
	Settled []string `json:"settled,omitempty"` // hunks with several places, which got more context
	Landed  bool     `json:"landed,omitempty"`  // the tag has all of it, and it became no fix
}

// foreign is a patch that is no fix yet.
type foreign struct {
	from string // file, or commit
	id   string
	data []byte
	ps   []patch.Patch
	about
}

type about struct {
	lo, hi  int // the builds that it fits, around the tag's
	settled []string
	landed  bool
}

// Import makes fixes of foreign patches, whole and in their order. They apply as git applies them: where a hunk
// has several places, it gets git's, and more context. r may be nil where no path is a branch.
func Import(ctx context.Context, e chain.Workspace, r *Repo, o ImportOptions) (_ *Imported, err error) {
	if e.Records.Dir == e.Records.Cache {
		return nil, refuse("-C DIR: a new folder is laid over llpatch's own fixes",
			"the fixes are those inside llpatch, which cannot be written")
	}
	var all []*foreign
	for _, p := range o.Paths {
		got, err := gather(ctx, r, p)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	if err := name(all, e, o.Prefix); err != nil {
		return nil, err
	}
	var h *compat.History
	if o.History != "" {
		h, err = compat.Open(o.History, o.Upstream, e.Repo.Lock[o.Upstream])
		if none := new(compat.NoHistory); errors.As(err, &none) && !o.Tag.IsZero() {
			h, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if h != nil {
		defer func() { err = errors.Join(err, h.Close()) }()
	}
	if o.Tag.IsZero() {
		if h == nil {
			return nil, refuse("--tag TAG, or --source CLONE",
				"on which tag are they to be tried? There is no history at hand to find one in")
		}
		if o.Tag, err = bestTag(ctx, e, h, all); err != nil {
			return nil, err
		}
		e.Log.Info("tried on the newest tag where the most of them fit; --tag takes another", "tag", o.Tag)
	}
	d, err := newDeclaring(ctx, e, r, Branch{Upstream: o.Upstream, Tag: o.Tag})
	if err != nil {
		return nil, err
	}
	in, err := from(ctx, e, r, o.Tag)
	if err != nil {
		return nil, err
	}
	tree, err := in.Fetch(ctx, o.Upstream, o.Tag)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	want, err := settle(e, tree, all)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		f.lo, f.hi = d.lo, d.hi
	}
	if h != nil {
		if err := reach(ctx, e, h, d, all); err != nil {
			return nil, err
		}
	}
	out := &Imported{Dir: e.Records.Dir, Tag: o.Tag.String(), Tree: want.ID()}
	var ids []string
	for _, f := range all {
		made := ImportedFix{Fix: f.id, From: f.from, Settled: f.settled, Landed: f.landed}
		if !f.landed {
			ids = append(ids, f.id)
			made.Range = span(f.lo, f.hi, false)
			made.Since, err = d.foreign(ctx, o.History, f)
			if err != nil {
				return nil, err
			}
		}
		out.Fixes = append(out.Fixes, made)
	}
	if len(ids) == 0 {
		return nil, refuse("", "%s has all of them already", o.Tag)
	}
	out.Files, err = d.write(ctx, ids, want)
	return out, err
}

var noWord = regexp.MustCompile(`[^a-z0-9]+`)

// name gives the patches the names of fixes, in an order that is theirs also where names alone decide it.
func name(all []*foreign, e chain.Workspace, prefix string) error {
	const longest = 60
	sorted := true
	last := ""
	taken := map[string]bool{}
	for _, f := range e.Repo.Fixes {
		taken[f.ID] = true
	}
	for i, f := range all {
		id := strings.Trim(noWord.ReplaceAllString(strings.ToLower(f.id), "-"), "-")
		if len(id) > longest {
			id = strings.Trim(id[:longest], "-")
		}
		if id == "" {
			id = fmt.Sprintf("patch-%d", i+1)
		}
		f.id = strings.Trim(prefix+"-"+id, "-")
		sorted = sorted && f.id > last
		last = f.id
	}
	for i, f := range all {
		if !sorted {
			f.id = strings.Trim(fmt.Sprintf("%s-%04d-%s", prefix, i+1, strings.TrimPrefix(f.id, prefix+"-")), "-")
		}
		if !fixID.MatchString(f.id) {
			return refuse("", "--prefix %q is not part of a fix's name: lower-case words joined by hyphens", prefix)
		}
		if taken[f.id] {
			return refuse("--prefix P puts P- before the names", "there is a fix %s already", f.id)
		}
		taken[f.id] = true
		for k := range f.ps {
			f.ps[k].Fix, f.ps[k].Name = f.id, f.from
		}
	}
	return nil
}

// stack is the patches for package compat.
func stack(all []*foreign) compat.Stack {
	s := compat.Stack{Name: "import", Foreign: true}
	for _, f := range all {
		s.Fixes = append(s.Fixes, compat.Fix{ID: f.id, Variants: []compat.Variant{{File: f.from, Patches: f.ps}}})
	}
	return s
}

func options(e chain.Workspace) compat.Options {
	return compat.Options{Cache: e.Cache, Log: e.Log, Progress: e.Progress}
}

// bestTag is the newest tag on which the most patches fit, or are ambiguous only.
func bestTag(ctx context.Context, e chain.Workspace, h *compat.History, all []*foreign) (tag.Tag, error) {
	report, err := h.Status(ctx, options(e), stack(all), h.Tags)
	if err != nil {
		return tag.Tag{}, err
	}
	fits := make([]int, len(h.Tags))
	for _, st := range report.Fixes {
		at := 0
		for _, run := range st.Runs {
			for range run.Tags {
				if run.Verdict.Fits() || run.Verdict == compat.Ambiguous || run.Verdict == compat.Landed {
					fits[at]++
				}
				at++
			}
		}
	}
	best := 0
	for i, n := range fits {
		if n >= fits[best] {
			best = i
		}
	}
	return tag.Parse(h.Tags[best].Name)
}

// settle applies the patches one after the other, gives those that are ambiguous more context,
// and returns the tree with all of them.
func settle(e chain.Workspace, tree *source.Tree, all []*foreign) (*source.Tree, error) {
	now := tree
	var conflicts []error
	for _, f := range all {
		res, err := patch.Apply(now, f.ps)
		if len(conflictsIn(err)) > 0 && len(f.ps) == 1 {
			data, settled, serr := patch.Settle(now, &f.ps[0], f.data)
			if serr == nil {
				for _, c := range settled {
					f.settled = append(f.settled, fmt.Sprintf("%s: %s", c.File, c.Proposal))
					say := e.Log.Info
					if !c.Proposal.Sound() {
						say = e.Log.Warn
					}
					say("a hunk has several places; it got more context", "fix", f.id, "file", c.File, "place", c.Proposal.String())
				}
				f.data = data
				if f.ps, err = patch.Parse(f.id, f.from, data); err != nil {
					return nil, err
				}
				res, err = patch.Apply(now, f.ps)
			}
		}
		if bad := conflictsIn(err); len(bad) > 0 {
			conflicts = append(conflicts, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if f.landed = res.Tree.ID() == now.ID(); f.landed {
			e.Log.Info("the tag has all of it: it becomes no fix", "patch", f.from)
		}
		now = res.Tree
	}
	if len(conflicts) > 0 {
		return nil, fmt.Errorf("%d of %d patches do not fit %s, and no fix was written: %w", len(conflicts), len(all),
			tree.Tag, errors.Join(conflicts...))
	}
	return now, nil
}

// reach finds the builds that each patch fits, with those before it, around the tag's own.
func reach(ctx context.Context, e chain.Workspace, h *compat.History, d *declaring, all []*foreign) error {
	at := slices.IndexFunc(h.Tags, func(t compat.Tag) bool { return t.Name == d.tag.String() || t.Build == d.lo })
	if at < 0 {
		e.Log.Warn("the history does not have the tag: the fixes are for it alone", "tag", d.tag)
		return nil
	}
	spans, err := h.Around(ctx, options(e), stack(all), at)
	if err != nil {
		return err
	}
	for i, s := range spans {
		if s[0] >= 0 {
			all[i].lo, all[i].hi = min(h.Tags[s[0]].Build, d.lo), max(h.Tags[s[1]].Build, d.hi)
		}
	}
	return nil
}

var (
	bringer    = regexp.MustCompile(`(?im)^Fixes:[ \t]+(?:commit[ \t]+)?([0-9a-f]{7,40})\b`)
	upstreamOf = regexp.MustCompile(`(?im)^\(cherry picked from commit [0-9a-f]{7,40}\)|^Origin:[ \t]*(?:upstream|backport)\b|^Applied-Upstream:`)
	submitted  = regexp.MustCompile(`(?im)^Forwarded:[ \t]*https?://`)
)

// foreign declares one patch as a fix, and returns the build that brought its defect, where
// the message says so.
func (d *declaring) foreign(ctx context.Context, history string, f *foreign) (int, error) {
	h := f.ps[0].Header
	n := newFix{id: f.id, subject: h.Subject, message: h.Subject + "\n\n" + h.Body, status: "ours"}
	if n.subject == "" {
		n.subject = f.id
	}
	text := n.message
	for _, t := range h.Trailers { // those of DEP-3 may stand outside the message
		text += "\n" + t.Key + ": " + t.Value
		for _, url := range address.FindAllString(t.Value, -1) {
			if !slices.Contains(n.reports, url) {
				n.reports = append(n.reports, url)
			}
		}
	}
	switch {
	case upstreamOf.MatchString(text):
		n.status = "upstream"
	case submitted.MatchString(text):
		n.status = "submitted"
	}
	since := 0
	if m := bringer.FindStringSubmatch(text); m != nil && history != "" {
		var err error
		if since, n.defect, err = d.bringer(ctx, history, m[1], f.lo); err != nil {
			return 0, err
		}
	}
	name := "b"
	if d.upstream == spec.IkLlamaCpp {
		name = "ik"
	}
	block := fmt.Sprintf("\n[[variant]]\nrange = %s\npatch = %s\nwhy   = %s\n", quote(span(f.lo, f.hi, false)),
		quote(fmt.Sprintf("%s%d.patch", name, d.lo)),
		quote(fmt.Sprintf("It was imported on %s; these are the tags around it that it fits, with those before it.", d.tag)))
	return since, d.fix(n, f.data, []byte(block))
}

// bringer is the table of the defect that a commit brought; none where the history does not have it, or it came
// after builds that the patch fits.
func (d *declaring) bringer(ctx context.Context, history, short string, lo int) (int, string, error) {
	h, err := Open(ctx, d.Log, history, false)
	if err != nil {
		return 0, "", err
	}
	id, err := h.commit(ctx, short)
	if err != nil || id == "" {
		return 0, "", err
	}
	out, err := h.git(ctx, "rev-list", "--count", id)
	if err != nil {
		return 0, "", err
	}
	var since int
	if _, err := fmt.Sscan(out, &since); err != nil || since > lo {
		return 0, "", err
	}
	subject, err := h.git(ctx, "show", "-s", "--format=%s", id)
	return since, fmt.Sprintf("\n[[defect]]\nsince  = %d\ncommit = %s\nwhy    = %s\n", since, quote(id),
		quote("it is "+subject)), err
}
