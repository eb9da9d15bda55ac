package fork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// How a commit came onto another tag.
const (
	ByFix    = "declared" // by the patch that its fix declares for the tag
	Placed   = "placed"   // its own change has its places there
	Merged   = "merged"   // three ways, and git agrees
	Resolved = "resolved" // by hand, now or before
	Dropped  = "dropped"  // nothing of it is left to do, or it was left out
)

// Moved is what became of one commit.
type Moved struct {
	Old     string   `json:"old"`
	New     string   `json:"new,omitempty"` // "": it was dropped
	Fix     string   `json:"fix,omitempty"` // "": it is the user's own
	Subject string   `json:"subject"`
	How     string   `json:"how"`
	Why     string   `json:"why,omitempty"`
	Files   []string `json:"files,omitempty"` // that were merged, or taken from a resolution
}

// Rebased is a branch on another tag.
type Rebased struct {
	From    string  `json:"from"` // the branch that was moved; it is left as it was
	Branch  string  `json:"branch"`
	Tag     string  `json:"tag"`
	Base    string  `json:"base"`
	Tip     string  `json:"tip"`
	Commits []Moved `json:"commits"`
}

// RebaseOptions say what is moved.
type RebaseOptions struct {
	Branch string // "": the one that is checked out
	To     tag.Tag
	Name   string // of the branch that is made; "": llpatch/<tag>
	Drop   bool   // leave out what conflicts, instead of stopping
	Follow map[string]string
}

// Stopped is a rebase that needs somebody: the conflict is in the work tree, as git leaves one.
type Stopped struct {
	Commit    Commit
	Tag       string
	Dir       string // the work tree
	Conflicts []*patch.Conflict
	Causes    []Cause
	Files     []string // that are in conflict
}

// Error shows what is in conflict and which of upstream's commits changed it.
func (e *Stopped) Error() string {
	var b strings.Builder
	whose := "its own commit"
	if e.Commit.Fix != "" {
		whose = e.Commit.Fix
	}
	fmt.Fprintf(&b, "%s (%s) does not fit %s", e.Commit.short(), whose, e.Tag)
	for _, c := range e.Conflicts {
		fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(c.Error(), "\n", "\n  "))
	}
	for _, c := range e.Causes {
		fmt.Fprintf(&b, "\n  upstream changed %s there: %.12s %s", c.File, c.Commit, c.Subject)
	}
	fmt.Fprintf(&b, "\nthe conflict is in %s", e.Dir)
	return b.String()
}

// ExitCode is exit.Conflict.
func (e *Stopped) ExitCode() int { return exit.Conflict }

// Hint says how it goes on.
func (e *Stopped) Hint() string {
	return "solve it there, git add the files, then llpatch fork rebase --continue (or --skip, or --abort) --repo " + e.Dir
}

// rebasing is a rebase under way, kept in the work tree's git folder from its first stop on.
// The old branch never moves, so that nothing is lost wherever it ends.
type rebasing struct {
	Branch   string  `json:"branch"` // "": a detached HEAD
	From     string  `json:"from"`   // its commit
	Head     string  `json:"head"`   // what was checked out: a branch, or a commit
	Upstream string  `json:"upstream"`
	To       tag.Tag `json:"to"`
	Name     string  `json:"name"`
	Base     string  `json:"base"`
	Tip      string  `json:"tip"` // of what is done
	Done     []Moved `json:"done"`
	Stop     *halt   `json:"stop,omitempty"`
	Left     bool    `json:"left,omitempty"`  // HEAD has left where it was
	Clear    bool    `json:"clear,omitempty"` // the work tree is to be put on Tip, whatever is in it
	Drop     bool    `json:"drop,omitempty"`

	Follow map[string]string `json:"follow,omitempty"`
}

// halt is where it stopped.
type halt struct {
	Commit string   `json:"commit"`
	Files  []string `json:"files"` // in conflict
}

func (r *Repo) stateFile() string { return filepath.Join(r.own, "llpatch", "rebase.json") }

// rebaseRef keeps what is done of a rebase from being collected.
const rebaseRef = "refs/llpatch/rebase"

func (r *Repo) load() (*rebasing, error) {
	data, err := os.ReadFile(r.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(rebasing)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to forget the rebase", r.stateFile(), err)
	}
	return s, nil
}

func (r *Repo) save(s *rebasing) error {
	data, err := spec.JSON(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.stateFile()), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(r.stateFile(), data, 0o644)
}

// mover moves commits onto a tag.
type mover struct {
	*rebasing
	e       chain.Env
	r       *Repo
	old     Branch
	tree    *source.Tree // the tag's
	now     *source.Tree // as far as it is done
	repo    *source.Repository
	kept    patch.Resolutions
	pending []Commit // made, and not in the repository yet
}

// Rebase makes the branch of another tag of a branch's commits. It stops with a *Stopped
// where one needs somebody.
func Rebase(ctx context.Context, e chain.Env, r *Repo, o RebaseOptions) (_ *Rebased, err error) {
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	if s, err := r.load(); err != nil || s != nil {
		return nil, errors.Join(err, refuse("llpatch fork rebase --continue, --skip or --abort", "a rebase is under way in %s", r.Dir))
	}
	b, err := r.Read(ctx, e.Repo, o.Branch)
	if err == nil {
		err = b.flat()
	}
	if err != nil {
		return nil, err
	}
	s := &rebasing{Branch: b.Name, From: b.Tip, Upstream: b.Upstream, To: o.To, Name: o.Name, Drop: o.Drop, Follow: o.Follow, Done: []Moved{}}
	if s.Name == "" {
		s.Name = Prefix + o.To.Short()
	}
	head, at, err := r.head(ctx)
	if err != nil {
		return nil, err
	}
	if s.Head = head; head == "" {
		s.Head = at
	}
	return r.move(ctx, e, s, b)
}

// move does what is left of a rebase.
func (r *Repo) move(ctx context.Context, e chain.Env, s *rebasing, b Branch) (_ *Rebased, err error) {
	m := &mover{rebasing: s, e: e, r: r, old: b}
	if m.kept, err = patch.LoadResolutions(os.DirFS(e.Records.Dir)); err != nil {
		return nil, err
	}
	in, err := from(ctx, e, r, s.To)
	if err != nil {
		return nil, err
	}
	if m.tree, err = in.Fetch(ctx, s.Upstream, s.To); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.tree.Close()) }()
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.repo.Close()) }()
	for _, c := range b.Commits[len(s.Done):] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.one(ctx, c); err != nil {
			return nil, err
		}
	}
	return m.finish(ctx)
}

// start finds the base and the tree that is gone on from.
func (m *mover) start(ctx context.Context) error {
	base, err := m.r.base(ctx, m.e, m.tree)
	if err != nil {
		return err
	}
	if m.Base == "" {
		m.Base, m.Tip = base.ID, base.ID
		if base.files != nil {
			if err := fill(m.tree, base); err != nil {
				return err
			}
			if err := m.r.put(ctx, rebaseRef, []Commit{base}); err != nil {
				return err
			}
			m.r.Log.Warn("the branch starts at a root of its own: upstream's commit is not to be had here", "tag", m.To)
		}
	}
	if m.repo, err = source.OpenRepository(m.r.common); err != nil {
		return err
	}
	m.now, err = m.repo.Tree(ctx, m.Tip)
	if err != nil {
		return err
	}
	if m.Clear {
		return m.clear(ctx)
	}
	return nil
}

// clear puts the work tree on what is done.
func (m *mover) clear(ctx context.Context) error {
	if _, err := m.r.git(ctx, "cherry-pick", "--quit"); err != nil {
		return err
	}
	if _, err := m.r.git(ctx, "checkout", "-q", "-f", "--detach", m.Tip); err != nil {
		return err
	}
	m.Clear = false
	return m.r.save(m.rebasing)
}

// one moves the next commit.
func (m *mover) one(ctx context.Context, c Commit) error {
	done := Moved{Old: c.ID, Fix: c.Fix, Subject: c.Subject()}
	next := Commit{Author: c.Author, Committer: c.Committer, Message: c.Message, Fix: c.Fix, Parents: []string{m.Tip}}
	if c.Fix != "" {
		next.Committer = ours(m.tree.Pin.Time)
	}
	before, err := m.repo.Tree(ctx, c.Parents[0])
	if err != nil {
		return err
	}
	result, why, err := m.declared(ctx, c, before, &next)
	if err != nil {
		return err
	}
	done.How, done.Why = ByFix, why
	if result == nil && why == "" {
		p, err := m.r.patchOf(ctx, c)
		if err != nil {
			return err
		}
		if p == nil {
			done.Why = "it changes nothing"
		} else {
			merge, err := patch.ThreeWay(ctx, p, before, m.now, patch.MergeOptions{Git: m.r.program, NeedGit: true, Resolutions: m.kept, Follow: m.Follow})
			if conflicts := conflictsIn(err); err != nil && len(conflicts) > 0 {
				return m.stop(ctx, c, done, conflicts)
			}
			if err != nil {
				return err
			}
			if result = merge.Result.Tree; result.ID() == m.now.ID() {
				result, done.Why = nil, "upstream has all of it"
			}
			done.How = how(merge, &done)
		}
	}
	if result == nil {
		done.How = Dropped
		m.Done = append(m.Done, done)
		return nil
	}
	if next.files, err = changedFiles(m.now, result); err != nil {
		return err
	}
	next.Tree = result.ID()
	next.ID = next.sum()
	m.pending = append(m.pending, next)
	done.New, m.Tip, m.now = next.ID, next.ID, result
	m.Done = append(m.Done, done)
	return nil
}

// how says how a merge came about, and notes its files.
func how(merge *patch.Merge, done *Moved) string {
	is := Placed
	for _, f := range merge.Files {
		if f.Landed {
			continue
		}
		done.Files = append(done.Files, f.Path)
		if f.Resolution != "" {
			is = Resolved
			done.Files[len(done.Files)-1] += " (" + f.Resolution + ")"
		} else if is == Placed {
			is = Merged
		}
	}
	return is
}

// conflictsIn takes the conflicts out of an error of package patch.
func conflictsIn(err error) []*patch.Conflict {
	var out []*patch.Conflict
	if c := new(patch.Conflict); errors.As(err, &c) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				if c := new(patch.Conflict); errors.As(e, &c) {
					out = append(out, c)
				}
			}
			return out
		}
		out = append(out, c)
	}
	return out
}

// declared gives what the fix of a commit declares for the tag, where the commit is just what the
// fix declares for the old one; or why the tag needs nothing of it. Neither: the commit's own change counts.
func (m *mover) declared(ctx context.Context, c Commit, before *source.Tree, next *Commit) (*source.Tree, string, error) {
	at := slices.IndexFunc(m.e.Repo.Fixes, func(f spec.Fix) bool { return f.ID == c.Fix })
	if at < 0 {
		return nil, "", nil
	}
	f := m.e.Repo.Fixes[at]
	n := m.tree.Pin.Build
	if is, why := f.Defect(m.Upstream).Absent(n); is != "" {
		return nil, why, nil
	}
	v, ok := f.VariantFor(m.Upstream, n)
	old, wasOK := f.VariantFor(m.Upstream, buildOf(m.e.Repo, m.old))
	if !ok || !wasOK || v.Patch == "" || old.Patch == "" {
		return nil, "", nil
	}
	now, err := m.repo.Tree(ctx, c.ID)
	if err != nil {
		return nil, "", err
	}
	g := group{fix: f.ID, commits: []Commit{c}, before: before, after: now}
	data, err := fs.ReadFile(m.e.Repo.FS, path.Join("patches", f.ID, old.Patch))
	if err != nil {
		return nil, "", err
	}
	if same, _, err := g.is(data); err != nil || !same {
		return nil, "", err
	}
	ps, err := patch.ParseFile(m.e.Repo.FS, path.Join("patches", f.ID, v.Patch), f.ID, v.Patch)
	if err != nil {
		return nil, "", err
	}
	res, err := patch.Apply(m.now, ps)
	if len(conflictsIn(err)) > 0 {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if res.Tree.ID() == m.now.ID() {
		return nil, "upstream has all of it", nil
	}
	next.Message = message(ps[0].Header, f.ID, f.Reports, "")
	return res.Tree, "", nil
}

// stop leaves the next commit's conflict in the work tree, or, where that is asked for, leaves the commit out.
func (m *mover) stop(ctx context.Context, c Commit, done Moved, conflicts []*patch.Conflict) error {
	causes := m.r.causes(ctx, m.old.Base, m.Base, conflicts)
	var files []string
	for _, k := range conflicts {
		if !slices.Contains(files, k.File) {
			files = append(files, k.File)
		}
	}
	if m.Drop {
		done.How, done.Why = Dropped, "it does not fit: "+strings.ReplaceAll(conflicts[0].Error(), "\n", " ")
		for _, k := range causes {
			done.Why += fmt.Sprintf("; upstream changed %s: %.12s %s", k.File, k.Commit, k.Subject)
		}
		m.Done = append(m.Done, done)
		return nil
	}
	if m.r.work == "" {
		return &Refusal{
			Msg:  fmt.Sprintf("%s does not fit %s, and a bare repository has no work tree to solve it in: %v", c.short(), m.To, errors.Join(asErrors(conflicts)...)),
			Next: "git worktree add, and --repo there; or --drop leaves out what does not fit", Code: exit.Conflict,
		}
	}
	busy, err := m.r.busy(ctx)
	if err != nil {
		return err
	}
	if busy != "" {
		return &Refusal{
			Msg:  fmt.Sprintf("%s does not fit %s, and its conflict has no room: %s %s", c.short(), m.To, m.r.work, busy),
			Next: "git commit or git stash first: nothing was changed", Code: exit.Usage,
		}
	}
	if err := m.r.put(ctx, rebaseRef, m.pending); err != nil {
		return err
	}
	m.pending = nil
	m.Stop, m.Left = &halt{Commit: c.ID, Files: files}, true
	if err := m.r.save(m.rebasing); err != nil {
		return err
	}
	if _, err := m.r.git(ctx, "checkout", "-q", "--detach", m.Tip); err != nil {
		return fmt.Errorf("check out what is done: %s", said(err))
	}
	// What git itself can merge it commits; that is looked at by whoever goes on, too.
	if _, err := m.r.git(ctx, "-c", "user.name=llpatch", "-c", "user.email="+ours(m.tree.Pin.Time).Email, "-c", "core.hooksPath="+os.DevNull, "-c", "commit.gpgSign=false",
		"cherry-pick", "--allow-empty", c.ID); err != nil && !failed(err) {
		return err
	}
	return &Stopped{Commit: c, Tag: m.To.String(), Dir: m.r.work, Conflicts: conflicts, Causes: causes, Files: files}
}

func asErrors(conflicts []*patch.Conflict) []error {
	var out []error
	for _, c := range conflicts {
		out = append(out, c)
	}
	return out
}

// busy says what is in the way of a conflict in the work tree; "": nothing.
func (r *Repo) busy(ctx context.Context) (string, error) {
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"} {
		if _, err := os.Stat(filepath.Join(r.own, name)); err == nil {
			return "is in the middle of another git command (" + name + ")", nil
		}
	}
	files, err := r.dirty(ctx)
	if len(files) > 0 {
		return "has changes that are in no commit: " + strings.Join(files, ", "), err
	}
	return "", err
}

// finish writes the branch and forgets the rebase.
func (m *mover) finish(ctx context.Context) (*Rebased, error) {
	out := &Rebased{From: m.old.label(), Branch: m.Name, Tag: m.To.String(), Base: m.Base, Tip: m.Tip, Commits: m.Done}
	if m.old.Name != "" {
		if at, err := m.r.commit(ctx, "refs/heads/"+m.old.Name); err != nil || at != m.From {
			return nil, errors.Join(err, refuse("llpatch fork rebase --abort, and again: what was solved by hand is remembered",
				"%s has moved since the rebase began, to %.12s", m.old.Name, at))
		}
	}
	made := &Made{Branch: m.Name, Base: m.Base, Tip: m.Tip, Tree: m.now.ID()}
	if _, err := m.r.write(ctx, made, m.pending, Ident{}); err != nil {
		return nil, err
	}
	if m.Left {
		if _, err := m.r.git(ctx, "cherry-pick", "--quit"); err != nil {
			return nil, err
		}
		if _, err := m.r.git(ctx, "checkout", "-q", m.Name); err != nil {
			return nil, fmt.Errorf("%s is made; check it out: %s", m.Name, said(err))
		}
	}
	return out, m.r.forget(ctx)
}

// forget removes what is kept of a rebase.
func (r *Repo) forget(ctx context.Context) error {
	if err := os.Remove(r.stateFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_, err := r.git(ctx, "update-ref", "-d", rebaseRef)
	return err
}

// Ways to go on with a rebase that stopped.
const (
	Continue = "continue"
	Skip     = "skip"
	Abort    = "abort"
)

// GoOn goes on with a rebase that stopped: with the conflict solved (Continue), without the
// commit (Skip), or back to where it began (Abort), for which the Rebased is nil.
func GoOn(ctx context.Context, e chain.Env, r *Repo, way string) (*Rebased, error) {
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	s, err := r.load()
	if err == nil && s == nil {
		err = refuse("llpatch fork rebase --to TAG begins one", "no rebase is under way in %s", r.Dir)
	}
	if err != nil {
		return nil, err
	}
	if way == Abort {
		return nil, r.abort(ctx, s)
	}
	b := Branch{Name: s.Branch, Tip: s.From}
	if err := r.stand(ctx, e.Repo, &b); err != nil {
		return nil, err
	}
	if s.Stop != nil {
		c := b.Commits[len(s.Done)]
		done := Moved{Old: c.ID, Fix: c.Fix, Subject: c.Subject()}
		if way == Skip {
			done.How, done.Why, s.Clear = Dropped, "it was left out by hand", true
		} else if err := r.solved(ctx, e, s, c, &done); err != nil {
			return nil, err
		}
		if done.How != "" {
			s.Done, s.Stop = append(s.Done, done), nil
			if err := r.save(s); err != nil {
				return nil, err
			}
		}
	}
	return r.move(ctx, e, s, b)
}

func (r *Repo) abort(ctx context.Context, s *rebasing) error {
	if s.Left {
		if _, err := r.git(ctx, "cherry-pick", "--quit"); err != nil {
			return err
		}
		if _, err := r.git(ctx, "checkout", "-q", "-f", s.Head); err != nil {
			return fmt.Errorf("go back to %s: %s", s.Head, said(err))
		}
	}
	return r.forget(ctx)
}

// solved takes what somebody made of a conflict, and remembers it. Where the conflict was never
// laid out, as after a kill, done stays as it is, and the commit comes again.
func (r *Repo) solved(ctx context.Context, e chain.Env, s *rebasing, c Commit, done *Moved) error {
	branch, head, err := r.head(ctx)
	if err != nil {
		return err
	}
	picking, err := r.commit(ctx, "CHERRY_PICK_HEAD")
	if err != nil {
		return err
	}
	staged, err := r.git(ctx, "diff-index", "--cached", "--name-only", "HEAD")
	if err != nil {
		return err
	}
	home := branch != "" && branch == s.Head || branch == "" && head == s.Head
	if (head == s.Tip || home) && picking == "" && staged == "" {
		return nil
	}
	if _, err := r.git(ctx, "merge-base", "--is-ancestor", s.Tip, head); err != nil || branch != "" {
		return refuse("git checkout --detach "+s.Tip[:12]+", or --abort", "%s is not where the rebase stopped: HEAD is %.12s %s", r.work, head, branch)
	}
	if open, err := r.git(ctx, "diff", "--name-only", "--diff-filter=U"); err != nil || open != "" {
		return errors.Join(err, &Refusal{
			Msg: "still in conflict: " + strings.ReplaceAll(open, "\n", ", "), Next: "solve them and git add them", Code: exit.Conflict,
		})
	}
	if open, err := r.git(ctx, "diff", "--name-only"); err != nil || open != "" {
		return errors.Join(err, refuse("git add what belongs to the commit", "changed and not added: %s", strings.ReplaceAll(open, "\n", ", ")))
	}
	tree, err := r.git(ctx, "write-tree")
	if err != nil {
		return err
	}
	if was, err := r.tree(ctx, s.Tip); err != nil || was == tree {
		return errors.Join(err, refuse("--skip leaves the commit out", "nothing is left of %s", c.short()))
	}
	if out, err := r.git(ctx, "diff-tree", "--check", "-r", s.Tip, tree); failed(err) && strings.Contains(out, "leftover conflict marker") {
		return &Refusal{Msg: "conflict markers are left: " + strings.TrimSpace(out), Next: "solve them and git add them", Code: exit.Conflict}
	}
	next := Commit{Author: c.Author, Committer: c.Committer, Message: c.Message, Parents: []string{s.Tip}, Tree: tree}
	if c.Fix != "" {
		in, err := from(ctx, e, r, s.To)
		if err != nil {
			return err
		}
		t, err := in.Fetch(ctx, s.Upstream, s.To)
		if err != nil {
			return err
		}
		next.Committer = ours(t.Pin.Time)
		if err := t.Close(); err != nil {
			return err
		}
	}
	next.ID = next.sum()
	if err := r.remember(ctx, e, s, c, tree); err != nil {
		return err
	}
	if _, err := r.feed(ctx, strings.NewReader(next.text()), "hash-object", "-t", "commit", "-w", "--stdin"); err != nil {
		return err
	}
	if _, err := r.git(ctx, "update-ref", rebaseRef, next.ID); err != nil {
		return err
	}
	done.How, done.New, done.Files, s.Tip, s.Clear = Resolved, next.ID, s.Stop.Files, next.ID, true
	return nil
}

// remember keeps what somebody made of the files that were in conflict, by their blobs.
func (r *Repo) remember(ctx context.Context, e chain.Env, s *rebasing, c Commit, tree string) error {
	fix := c.Fix
	if fix == "" {
		fix = "own"
	}
	for _, file := range s.Stop.Files {
		var sides [4][]byte
		whole := true
		for i, at := range []string{c.Parents[0], c.ID, s.Tip, tree} {
			data, err := r.feed(ctx, nil, "cat-file", "blob", at+":"+file)
			if failed(err) {
				whole = false
				break
			}
			if err != nil {
				return err
			}
			sides[i] = data
		}
		if !whole {
			continue // it was moved or deleted, and a resolution is about one file
		}
		res := patch.NewResolution(fix, file, sides[0], sides[1], sides[2], sides[3])
		name := filepath.Join(e.Records.Dir, patch.ResolutionDir, res.Name())
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := atomicfile.WriteFile(name, res.Encode(), 0o644); err != nil {
			return err
		}
		r.Log.Info("remembered", "file", file, "in", name)
	}
	return nil
}
