package fork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Exported says what an export wrote.
type Exported struct {
	Branch string   `json:"branch"`
	Tag    string   `json:"tag"`
	Dir    string   `json:"dir"`
	Files  []string `json:"files"`          // below Dir; none where nothing had changed
	Kept   []string `json:"kept,omitempty"` // fixes that are as they were
	Left   []string `json:"left,omitempty"` // commits of the user that belong to no fix
	// the command that makes the branch of what was written, and the one that releases it
	Next string `json:"next,omitempty"`
}

// ExportOptions say what is exported.
type ExportOptions struct {
	Branch string // "": the one that is checked out
	New    string // the fix that commits without one become; "": they are left
}

var fixID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// group is what a branch holds of one fix.
type group struct {
	fix           string
	commits       []Commit
	before, after *source.Tree
}

// Export writes the commits of a branch back to the patch files of their fixes. What a fix
// gives as it is declared keeps its bytes. A fix that has no commit on the branch is left as it is.
func Export(ctx context.Context, e chain.Workspace, r *Repo, o ExportOptions) (_ *Exported, err error) {
	if e.Records.Dir == e.Records.Cache {
		return nil, refuse("-C DIR: a new folder is laid over llpatch's own fixes",
			"the fixes are those inside llpatch, which cannot be written")
	}
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	b, err := r.Read(ctx, e.Repo, o.Branch)
	if err == nil {
		err = errors.Join(b.flat(), r.committed(ctx, b))
	}
	if err != nil {
		return nil, err
	}
	x := Exported{Branch: b.label(), Tag: b.Tag.String(), Dir: e.Records.Dir, Files: []string{}}
	groups, left, err := sort(e.Repo, b, o.New)
	if err != nil {
		return nil, err
	}
	repo, err := source.OpenRepository(r.common)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	if err := r.replay(ctx, repo, b, groups, len(left) == 0); err != nil {
		return nil, err
	}
	d, err := newDeclaring(ctx, e, r, b)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(e.Repo.Fixes, func(f spec.Fix) bool {
		v, _ := f.VariantFor(b.Upstream, d.lo)
		return v.Commit != "" && slices.ContainsFunc(groups, func(g *group) bool { return g.fix == f.ID })
	}) {
		want, _, _, err := expected(ctx, e, r, b, nil)
		if err != nil {
			return nil, err
		}
		for _, c := range want {
			d.made = append(d.made, c.ID)
		}
	}
	for _, g := range groups {
		changed, err := d.group(ctx, g)
		if err != nil {
			return nil, err
		}
		if !changed {
			x.Kept = append(x.Kept, g.fix)
		}
	}
	for _, c := range left {
		x.Left = append(x.Left, c.short())
		r.Log.Warn("left out: it is of no fix", "commit", c.short())
	}
	const how = "--new ID makes a fix of them; the trailer \"Llpatch-Fix: ID\", or a subject \"fixup! SUBJECT\", puts " +
		"a commit into a fix"
	switch {
	case len(d.files) == 0 && len(left) > 0:
		return nil, refuse(how, "nothing to export: %s belongs to no fix", left[0].short())
	case len(left) > 0:
		r.Log.Info(how)
	case len(d.files) == 0:
		return &x, nil
	}
	var ids []string
	for _, g := range groups {
		ids = append(ids, g.fix)
	}
	// Where nothing is new of any fix, there was an answer above.
	if x.Files, err = d.write(ctx, ids, groups[len(groups)-1].after); err != nil {
		return nil, err
	}
	target := r.target(ctx, b)
	if x.Next = makeCommand(e, r, b, target) + " makes the branch of it"; target != "" {
		x.Next += "; " + run.QuoteArgv(append([]string{"llpatch", "release", b.Tag.String(), target}, r.Flags...)) +
			" releases it"
	}
	return &x, nil
}

// committed refuses a branch whose work tree has changes that no commit holds.
func (r *Repo) committed(ctx context.Context, b Branch) error {
	head, _, err := r.head(ctx)
	if err != nil || r.work == "" || head != b.Name {
		return err
	}
	files, err := r.dirty(ctx)
	if err == nil && len(files) > 0 {
		return refuse(r.command("commit")+" or "+r.command("stash"), "%s has changes that are in no commit: %s", r.work,
			few(files))
	}
	return err
}

// sort puts every commit into its fix, or, where it belongs to none, among those that are left.
func sort(repo *spec.Repo, b Branch, fresh string) (groups []*group, left []Commit, err error) {
	if fresh != "" {
		switch {
		case !fixID.MatchString(fresh):
			return nil, nil, refuse("", "--new %q is not the name of a fix: lower-case words joined by hyphens", fresh)
		case slices.ContainsFunc(repo.Fixes, func(f spec.Fix) bool { return f.ID == fresh }):
			return nil, nil, refuse("the trailer \"Llpatch-Fix: "+fresh+"\" puts a commit into it",
				"--new %s: there is such a fix", fresh)
		}
	}
	commits := slices.Clone(b.Commits)
	for i := range commits {
		c := &commits[i]
		if c.Tree == treeBefore(b, i) {
			return nil, nil, refuse("git rebase -i drops it", "%s changes nothing", c.short())
		}
		if to := target(*c, commits[:i]); to >= 0 && c.Fix == "" {
			c.Fix = commits[to].Fix
		}
		c.Fix = cmp.Or(c.Fix, fresh)
		if c.Fix == "" {
			left = append(left, *c)
			continue
		}
		if !fixID.MatchString(c.Fix) {
			return nil, nil, refuse("", "%s: %s %q is not the name of a fix: lower-case words joined by hyphens", c.short(),
				trailerFix, c.Fix)
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.fix == c.Fix })
		if at < 0 {
			at, groups = len(groups), append(groups, &group{fix: c.Fix})
		}
		groups[at].commits = append(groups[at].commits, *c)
	}
	if fresh != "" && !slices.ContainsFunc(groups, func(g *group) bool { return g.fix == fresh }) {
		return nil, nil, refuse("commit the change first", "--new %s: every commit of %s belongs to a fix already", fresh,
			b.label())
	}
	return groups, left, nil
}

// treeBefore is the tree of the commit below the i-th.
func treeBefore(b Branch, i int) string {
	if i == 0 {
		return b.BaseTree
	}
	return b.Commits[i-1].Tree
}

// replay works out what each fix starts from and gives, with all its commits in one place.
// whole says that nothing is left out, so that the branch's tree must come out.
func (r *Repo) replay(ctx context.Context, repo *source.Repository, b Branch, groups []*group, whole bool) error {
	now, err := repo.Tree(ctx, b.Base)
	if err != nil {
		return err
	}
	var made []Commit // where commits had to be moved
	moved := false
	for _, g := range groups {
		g.before = now
		for _, c := range g.commits {
			parent, err := repo.Tree(ctx, c.Parents[0])
			if err != nil {
				return err
			}
			if parent.ID() == now.ID() {
				if now, err = repo.Tree(ctx, c.ID); err != nil {
					return err
				}
				continue
			}
			moved = true
			p, err := r.patchOf(ctx, c)
			if err != nil {
				return err
			}
			m, err := patch.ThreeWay(ctx, p, parent, now, patch.MergeOptions{Git: r.program})
			if err != nil {
				return &Refusal{
					Msg:  fmt.Sprintf("%s cannot be put beside the other commits of %s: %v", c.short(), g.fix, err),
					Next: "put it there with git rebase -i --autosquash, and export again", Code: exit.Conflict,
				}
			}
			now = m.Result.Tree
		}
		g.after = now
		files, err := changedFiles(g.before, g.after)
		if err != nil {
			return err
		}
		made = append(made, Commit{Author: ours(b.when()), Committer: ours(b.when()), files: files})
	}
	if !moved || len(made) == 0 {
		return nil
	}
	tip, err := repo.Tree(ctx, b.Tip)
	if err == nil && whole && tip.ID() != now.ID() {
		return &Refusal{
			Msg: fmt.Sprintf("with the commits of each fix put together, %s has another tree (%s) than it has (%s)", b.label(),
				now.ID(), tip.ID()),
			Next: "put them together with git rebase -i --autosquash, and export again", Code: exit.Conflict,
		}
	}
	if err != nil {
		return err
	}
	made[0].Parents = []string{b.Base}
	if _, err := r.feed(ctx, stream(newRef, made), "fast-import", "--quiet", "--force"); err != nil {
		return fmt.Errorf("write trees: %s", said(err))
	}
	_, err = r.git(ctx, "update-ref", "-d", newRef)
	return err
}

// when is a time that depends on nothing but the branch.
func (b Branch) when() time.Time { return b.Commits[0].Committer.When }

// bytes is the patch file of a group: with the head of the declared one where the message is the same.
func (g *group) bytes(ctx context.Context, r *Repo, declared []byte) ([]byte, error) {
	first := g.commits[0]
	head := patch.CommitHead(source.Change{
		Author: first.Author.Name, Email: first.Author.Email, When: first.Author.When, Message: g.message(),
	})
	if ps, err := patch.Parse(g.fix, "", declared); err == nil && len(ps) == 1 && g.says(ps[0].Header, "") {
		if kept, err := patch.Head(declared); err == nil {
			head = kept
		}
	}
	diff, err := r.diff(ctx, g.before.ID(), g.after.ID())
	if err != nil {
		return nil, err
	}
	if len(diff) == 0 {
		return nil, refuse("to drop a fix, remove it from the declarations", "%s: its commits together change nothing", g.fix)
	}
	data := slices.Concat(head, diff)
	ps, err := patch.Parse(g.fix, g.fix+".patch", data)
	if err != nil {
		return nil, err
	}
	res, err := patch.Apply(g.before, ps)
	if err != nil || res.Tree.ID() != g.after.ID() {
		return nil, fmt.Errorf("the patch of %s does not give what its commits do: %w", g.fix, err)
	}
	return data, nil
}

// message is that of the group's first commit, or of its last amend!.
func (g *group) message() string {
	text := plain(g.commits[0].Message)
	for _, c := range g.commits[1:] {
		if rest, ok := strings.CutPrefix(c.Message, "amend! "); ok {
			if _, body, ok := strings.Cut(rest, "\n\n"); ok {
				text = plain(body)
			}
		}
	}
	return text
}

// says reports whether the group's author, date and message are those of a patch.
func (g *group) says(h patch.Header, fallback string) bool {
	c := g.commits[0]
	at, err := h.Time()
	return g.message() == plain(message(h, cmp.Or(fallback, g.fix), nil, "")) &&
		(h.Author == "" && h.Email == "" || c.Author.Name == h.Author && c.Author.Email == h.Email) &&
		(err != nil || c.Author.When.Equal(at))
}

// is reports whether a group is just what a patch file gives; fits, whether that can be applied where the group starts.
func (g *group) is(data []byte) (same, fits bool, err error) {
	ps, err := patch.Parse(g.fix, path.Base(g.fix), data)
	if err != nil {
		return false, false, err
	}
	return g.gives(ps)
}

// gives is is, of patches that were read.
func (g *group) gives(ps []patch.Patch) (same, fits bool, err error) {
	res, err := patch.Apply(g.before, ps)
	if c := new(patch.Conflict); errors.As(err, &c) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	return res.Tree.ID() == g.after.ID() && g.says(ps[0].Header, ""), true, nil
}

// tempDir makes a folder and returns how to remove it.
func tempDir(name string) (string, func(), error) {
	dir, err := os.MkdirTemp("", name)
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
