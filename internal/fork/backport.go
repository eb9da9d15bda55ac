package fork

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// BackportOptions say what is taken from upstream's history.
type BackportOptions struct {
	Commits  []string // of upstream's, in the order in which they are applied
	Upstream string
	To       tag.Tag
	Branch   string // that they are put on; "": llpatch/<tag>, which is made where there is none
	New      string // the fix that they become by reference; of several NEW-1, NEW-2 and so on; "": none
	History  string // a repository with upstream's tags, for the range; "": there is none
}

// Backported says what was taken.
type Backported struct {
	Tag     string   `json:"tag"`
	Branch  string   `json:"branch"`
	Tip     string   `json:"tip"`
	Commits []Moved  `json:"commits"`
	Needs   []Cause  `json:"needs,omitempty"` // commits that the tag does not have, and that made the lines which had to be merged
	Dir     string   `json:"dir,omitempty"`
	Files   []string `json:"files,omitempty"` // of the new fixes
}

// NotAlone is a commit that does not fit a tag, with the commits that it builds on.
type NotAlone struct {
	Commit    Commit
	Tag       string
	Conflicts []*patch.Conflict
	Needs     []Cause
}

// Error shows what does not fit, and which commits made what is missing.
func (e *NotAlone) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s does not fit %s, and nothing was changed", e.Commit.short(), e.Tag)
	for _, c := range e.Conflicts {
		fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(c.Error(), "\n", "\n  "))
	}
	for _, n := range e.Needs {
		fmt.Fprintf(&b, "\n  it builds on %.12s %s (%s), which %s does not have", n.Commit, n.Subject, n.File, e.Tag)
	}
	return b.String()
}

// ExitCode is exit.Conflict.
func (e *NotAlone) ExitCode() int { return exit.Conflict }

// Hint names what to take before it.
func (e *NotAlone) Hint() string {
	if len(e.Needs) == 0 {
		return "git cherry-pick -x " + e.Commit.ID[:12] + " on the branch, and solve it by hand"
	}
	var ids []string
	for _, n := range e.Needs {
		if id := n.Commit[:12]; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return fmt.Sprintf("llpatch fork backport %s %.12s --to %s takes those before it", strings.Join(ids, " "), e.Commit.ID, e.Tag)
}

// Backport puts commits of upstream's onto a tag's branch, each placed or merged three ways, and with
// New declares them as fixes by reference: the declarations name the commit, and hold a
// resolution where it had to be merged.
func Backport(ctx context.Context, e chain.Env, r *Repo, o BackportOptions) (_ *Backported, err error) {
	if o.New != "" && e.Records.Dir == e.Records.Cache {
		return nil, refuse("-C DIR: a new folder is laid over llpatch's own fixes", "the fixes are those inside llpatch, which cannot be written")
	}
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	b := &backport{e: e, r: r, o: o, out: Backported{Tag: o.To.String(), Branch: o.Branch}}
	if b.out.Branch == "" {
		b.out.Branch = Prefix + o.To.Short()
	}
	in, err := from(ctx, e, r, o.To)
	if err != nil {
		return nil, err
	}
	if b.tree, err = in.Fetch(ctx, o.Upstream, o.To); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.tree.Close()) }()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.repo.Close()) }()
	for i, name := range o.Commits {
		if err := b.take(ctx, name, b.id(i)); err != nil {
			return nil, err
		}
	}
	if o.New != "" && len(b.taken) > 0 {
		if err := b.declare(ctx); err != nil {
			return nil, err
		}
	}
	b.out.Tip = b.tip
	return &b.out, b.write(ctx)
}

// backport is one under way.
type backport struct {
	e       chain.Env
	r       *Repo
	o       BackportOptions
	out     Backported
	tree    *source.Tree // the tag's
	repo    *source.Repository
	on      Branch // what it begins on
	root    *Commit
	old     string // the branch's commit; "": there is none
	base    string
	tip     string
	now     *source.Tree
	earlier []patch.Patch // of the fixes below
	kept    patch.Resolutions
	pending []Commit
	taken   []taking
}

// taking is one commit that was taken.
type taking struct {
	fix    newFix
	commit Commit
	p      patch.Patch
	merge  *patch.Merge
}

// id is the name of the i-th commit's fix.
func (b *backport) id(i int) string {
	if b.o.New == "" || len(b.o.Commits) == 1 {
		return b.o.New
	}
	return fmt.Sprintf("%s-%d", b.o.New, i+1)
}

// begin finds what the commits are put on.
func (b *backport) begin(ctx context.Context) error {
	base, err := b.r.base(ctx, b.e, b.tree)
	if err != nil {
		return err
	}
	b.base, b.tip, b.now = base.ID, base.ID, b.tree
	if base.files != nil {
		if err := fill(b.tree, base); err != nil {
			return err
		}
		b.pending = append(b.pending, base)
	}
	if b.old, err = b.r.commit(ctx, "refs/heads/"+b.out.Branch); err != nil {
		return err
	}
	b.on = Branch{Name: b.out.Branch, Upstream: b.o.Upstream, Tag: b.o.To}
	if b.old != "" {
		if b.on, err = b.r.Read(ctx, b.e.Repo, b.out.Branch); err != nil {
			return err
		}
		if b.on.Base != b.base {
			return refuse("--branch NAME", "%s does not stand on %s", b.out.Branch, b.o.To)
		}
		b.tip, b.pending = b.old, nil
	}
	if b.repo, err = source.OpenRepository(b.r.common); err != nil {
		return err
	}
	if b.old != "" {
		if b.now, err = b.repo.Tree(ctx, b.old); err != nil {
			return err
		}
	}
	if b.kept, err = patch.LoadResolutions(b.e.Repo.FS); err != nil {
		return err
	}
	return b.below(ctx)
}

// below reads the patches of the fixes that the branch holds.
func (b *backport) below(ctx context.Context) error {
	if len(b.on.Commits) == 0 {
		return nil
	}
	_, in, _, err := expected(ctx, b.e, b.r, b.on)
	if err != nil {
		return err
	}
	e, err := from(ctx, b.e, b.r, b.o.To)
	if err != nil {
		return err
	}
	b.earlier, err = merge.Patches(ctx, e.Repo.FS, e.Sources(), &spec.Series{Upstream: b.o.Upstream, In: in})
	return err
}

// take puts one commit onto what there is.
func (b *backport) take(ctx context.Context, name, fix string) error {
	id, err := b.r.commit(ctx, name)
	if err != nil {
		return err
	}
	if id == "" {
		id = name // what the repository lacks another history may have
	}
	if _, err := b.r.git(ctx, "merge-base", "--is-ancestor", id, b.base); err == nil {
		return refuse("", "%s has %s already", b.o.To, name)
	}
	e, err := from(ctx, b.e, b.r, b.o.To)
	if err != nil {
		return err
	}
	change, err := source.UpstreamCommit(ctx, e.Sources(), b.o.Upstream, id)
	if err != nil {
		return fmt.Errorf("backport %s: %w", name, err)
	}
	made, err := patch.FromCommit(change)
	if err != nil {
		return refuse("", "backport: %v", err)
	}
	ps, err := patch.Parse(fix, id[:12]+".patch", made)
	if err != nil {
		return err
	}
	c := Commit{
		ID: id, Parents: change.Parents, Author: Ident{change.Author, change.Email, change.When}, Committer: ours(b.tree.Pin.Time),
		Message: change.Message, Fix: fix,
	}
	done := Moved{Old: id, Fix: fix, Subject: c.Subject(), How: Placed}
	start, err := merge.Before(change)
	if err != nil {
		return err
	}
	if start, err = patch.Replay(start, b.earlier, &ps[0]); err != nil || start == nil {
		return errors.Join(err, fmt.Errorf("backport %s: the commit does not fit its own parent", name))
	}
	m, err := patch.ThreeWay(ctx, &ps[0], start, b.now, patch.MergeOptions{Git: b.r.program, NeedGit: true, Resolutions: b.kept})
	if conflicts := conflictsIn(err); len(conflicts) > 0 {
		return &NotAlone{Commit: c, Tag: b.o.To.String(), Conflicts: conflicts, Needs: b.r.needs(ctx, c, b.base, conflicts)}
	}
	if err != nil {
		return err
	}
	if done.How = how(m, &done); done.How != Placed {
		if _, err := patch.Apply(b.now, ps); len(conflictsIn(err)) > 0 {
			b.out.Needs = append(b.out.Needs, b.r.needs(ctx, c, b.base, conflictsIn(err))...)
		}
	}
	if m.Result.Tree.ID() == b.now.ID() {
		done.How, done.Why = Dropped, "the branch has all of it"
		b.out.Commits = append(b.out.Commits, done)
		return nil
	}
	fresh := newFix{id: fix, subject: c.Subject(), message: c.Message, status: "upstream"}
	if pull := pullRequest.FindStringSubmatch(c.Subject()); pull != nil && b.o.Upstream == spec.LlamaCpp {
		fresh.reports = []string{"https://github.com/ggml-org/llama.cpp/pull/" + pull[1]}
	}
	next := c
	next.Parents, next.Tree = []string{b.tip}, m.Result.Tree.ID()
	if fix != "" {
		next.Message = message(ps[0].Header, fix, fresh.addresses(), id)
	} else {
		next.Message = strings.TrimRight(next.Message, "\n") + "\n\n(cherry picked from commit " + id + ")\n"
	}
	if next.files, err = changedFiles(b.now, m.Result.Tree); err != nil {
		return err
	}
	next.ID = next.sum()
	b.pending = append(b.pending, next)
	b.taken = append(b.taken, taking{fresh, c, ps[0], m})
	b.earlier = append(b.earlier, ps[0])
	b.now, b.tip, done.New = m.Result.Tree, next.ID, next.ID
	b.out.Commits = append(b.out.Commits, done)
	return nil
}

// write moves the branch, and the work tree with it where it is checked out there.
func (b *backport) write(ctx context.Context) error {
	if b.tip == b.old {
		return nil
	}
	at, err := b.r.where(ctx, b.out.Branch)
	if err != nil {
		return err
	}
	if err := b.r.put(ctx, newRef, b.pending); err != nil {
		return err
	}
	if at != "" {
		if at != b.r.work {
			return refuse("--repo "+at, "%s is checked out in %s", b.out.Branch, at)
		}
		_, err = b.r.git(ctx, "merge", "-q", "--ff-only", b.tip)
	} else {
		_, err = b.r.git(ctx, "update-ref", "refs/heads/"+b.out.Branch, b.tip, orZero(b.old))
	}
	if err != nil {
		return fmt.Errorf("%s: %s", b.out.Branch, said(err))
	}
	_, err = b.r.git(ctx, "update-ref", "-d", newRef)
	return err
}

// declare makes fixes of the commits, by reference.
func (b *backport) declare(ctx context.Context) error {
	d, err := newDeclaring(ctx, b.e, b.r, b.on)
	if err != nil {
		return err
	}
	var all []*foreign
	for _, t := range b.taken {
		all = append(all, &foreign{from: t.commit.ID, id: t.fix.id, ps: []patch.Patch{t.p}, about: about{lo: d.lo, hi: d.hi}})
	}
	if b.o.History != "" {
		h, err := compat.Open(b.o.History, b.o.Upstream, b.e.Repo.Lock[b.o.Upstream])
		if err != nil {
			return err
		}
		err = reach(ctx, b.e, h, d, all)
		if err := errors.Join(err, h.Close()); err != nil {
			return err
		}
	}
	var ids []string
	for _, c := range b.on.Commits {
		if c.Fix != "" && !slices.Contains(ids, c.Fix) {
			ids = append(ids, c.Fix)
		}
	}
	for i, t := range b.taken {
		if slices.ContainsFunc(b.e.Repo.Fixes, func(f spec.Fix) bool { return f.ID == t.fix.id }) || !fixID.MatchString(t.fix.id) {
			return refuse("another name", "--new %s: there is such a fix, or it is no name of lower-case words joined by hyphens", t.fix.id)
		}
		for _, res := range t.merge.Resolutions() {
			d.files[path.Join(patch.ResolutionDir, res.Name())] = res.Encode()
		}
		block := fmt.Sprintf("\n[[variant]]\nrange  = %s\ncommit = %s\nwhy    = %s\n", quote(span(all[i].lo, all[i].hi, false)), quote(t.commit.ID),
			quote(fmt.Sprintf("It is upstream's commit, tried on %s.", b.o.To)))
		if err := d.fix(t.fix, nil, []byte(block)); err != nil {
			return err
		}
		ids = append(ids, t.fix.id)
	}
	b.out.Dir = filepath.Clean(b.e.Records.Dir)
	b.out.Files, err = d.write(ctx, ids, b.now)
	return err
}

var hunkHead = regexp.MustCompile(`^@@ -([0-9]+)(?:,([0-9]+))? `)

// needs finds the commits that made the lines which a commit changes or stands beside, and that
// a release does not have. Where the history is not here there are none.
func (r *Repo) needs(ctx context.Context, c Commit, release string, conflicts []*patch.Conflict) []Cause {
	later, err := r.git(ctx, "rev-list", "--reverse", release+".."+c.Parents[0])
	if err != nil {
		return nil
	}
	order := strings.Fields(later)
	var found []Cause
	add := func(id, file string) {
		if slices.Contains(order, id) && !slices.ContainsFunc(found, func(k Cause) bool { return k.Commit == id }) {
			found = append(found, Cause{File: file, Commit: id})
		}
	}
	diff, err := r.diff(ctx, c.Parents[0], c.ID)
	if err != nil {
		return nil
	}
	file, hunk := "", 0
	for line := range strings.Lines(string(diff)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "--- a/"); ok {
			file, hunk = name, 0
		}
		m := hunkHead.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		hunk++
		for _, k := range conflicts {
			if k.File != file || k.Hunk > 0 && k.Hunk != hunk {
				continue
			}
			if k.Kind == patch.MissingFile {
				if id, err := r.git(ctx, "log", "-n1", "--diff-filter=A", "--format=%H", c.Parents[0], "--", file); err == nil {
					add(id, file)
				}
			}
			first, _ := strconv.Atoi(m[1]) // digits, as the expression says
			n := 1
			if m[2] != "" {
				n, _ = strconv.Atoi(m[2])
			}
			out, err := r.git(ctx, "blame", "-l", "-s", fmt.Sprintf("-L%d,+%d", max(first, 1), max(n, 1)), c.Parents[0], "--", file)
			if err != nil {
				break
			}
			for l := range strings.Lines(out) {
				id, _, _ := strings.Cut(l, " ")
				add(id, file)
			}
			break
		}
	}
	slices.SortFunc(found, func(a, b Cause) int { return slices.Index(order, a.Commit) - slices.Index(order, b.Commit) })
	for i := range found {
		found[i].Subject, err = r.git(ctx, "show", "-s", "--format=%s", found[i].Commit)
		if m := pullRequest.FindStringSubmatch(found[i].Subject); m != nil && err == nil {
			found[i].Pull, _ = strconv.Atoi(m[1]) // as above
		}
	}
	return found
}
