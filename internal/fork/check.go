package fork

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// What a commit of a branch is.
const (
	Pure    = "ours"    // just what its fix gives
	Changed = "changed" // it says that it is a fix's, and is not what that gives
	Yours   = "yours"   // it says nothing of a fix, and lies above those that do
	Foreign = "foreign" // it says nothing of a fix, and lies among those that do
)

// Checked is a branch compared with what its tag and fixes give.
type Checked struct {
	Branch  string          `json:"branch"`
	Remote  string          `json:"remote,omitempty"`
	Tag     string          `json:"tag"`
	Tip     string          `json:"tip"`
	Base    string          `json:"base"`
	Root    bool            `json:"root,omitempty"`
	Pure    bool            `json:"pure"` // what llpatch made is as it was made; the user's own commits may lie above
	Commits []CheckedCommit `json:"commits"`
	Missing []string        `json:"missing,omitempty"` // fixes of the target that the branch does not have
}

// CheckedCommit is one commit of it.
type CheckedCommit struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
	Fix     string `json:"fix,omitempty"`
	Is      string `json:"is"`
	Why     string `json:"why,omitempty"`
}

// NotPure is a branch that is not what its tag and fixes give.
type NotPure struct {
	*Checked
	next string // the commands that put its changes into the fixes, and make it again
}

// Error names the first commit that is not llpatch's.
func (e *NotPure) Error() string {
	for _, c := range e.Commits {
		if c.Is == Changed || c.Is == Foreign {
			return fmt.Sprintf("%s is not what %s and its fixes give: %.12s %q %s", e.Branch, e.Tag, c.ID, c.Subject, c.Why)
		}
	}
	switch {
	case len(e.Missing) > 0:
		return fmt.Sprintf("%s is not what %s and its fixes give: %s is missing", e.Branch, e.Tag,
			strings.Join(e.Missing, ", "))
	case !slices.ContainsFunc(e.Commits, func(c CheckedCommit) bool { return c.Fix != "" }):
		return fmt.Sprintf("%s holds no fix of llpatch's on %s", e.Branch, e.Tag)
	}
	return fmt.Sprintf("%s is not what %s and its fixes give: its base %s is not the tag's", e.Branch, e.Tag, e.Base)
}

// ExitCode is exit.Source.
func (e *NotPure) ExitCode() int { return exit.Source }

// Hint says what to do.
func (e *NotPure) Hint() string {
	return e.next
}

// makeCommand is the command line that makes a branch from the fixes, for a target, if it was made for one.
func makeCommand(e chain.Workspace, r *Repo, b Branch, target string) string {
	argv := []string{"fork", "make", b.Tag.String()}
	own := e.Records.Dir != e.Records.Cache && spec.IsOverlay(os.DirFS(e.Records.Dir))
	var with []string
	for _, c := range b.Commits {
		own = own && (c.Fix == "" || declares(e, c.Fix))
		for _, f := range e.Repo.Fixes {
			if f.ID == c.Fix && (f.OptIn || len(f.OS) > 0) {
				with = append(with, "--with", f.ID)
			}
		}
	}
	if target != "" {
		argv = append(argv, target)
	} else {
		if argv = append(argv, with...); own {
			argv = append(argv, "--own")
		}
		if b.Upstream != spec.LlamaCpp {
			argv = append(argv, "--upstream", b.Upstream)
		}
	}
	if b.Name != "" && b.Name != Prefix+b.Tag.Short() {
		argv = append(argv, "--branch", b.Name)
	}
	return r.llpatch(argv...)
}

// target is the target that a branch was made for, as llpatch's tags say: the highest on it, or all
// that its upstream tag
// has. "" where they do not.
func (r *Repo) target(ctx context.Context, b Branch) string {
	out, err := r.git(ctx, "for-each-ref", "--format=%(*objectname) %(contents:subject)", "refs/tags/"+b.Tag.Short()+
		"-llp*")
	if err != nil {
		return ""
	}
	tags := tagSubject.FindAllStringSubmatch(out, -1)
	for _, c := range slices.Backward(b.Commits) {
		for _, m := range tags {
			if m[1] == c.ID {
				return m[2]
			}
		}
	}
	if len(tags) > 0 && !slices.ContainsFunc(tags, func(m []string) bool { return m[2] != tags[0][2] }) {
		return tags[0][2]
	}
	return ""
}

var tagSubject = regexp.MustCompile(`(?m)^([0-9a-f]+) \S+ for (\S+), with the fixes of llpatch$`)

// CheckOptions say what is compared.
type CheckOptions struct {
	Branch string // "": the one that is checked out
	Remote string // name or address of the remote whose branch it is; "": the repository's own
	Target string // whose fixes must be there; "": those that are
	With   []string
}

// Check compares a branch with what its tag and fixes give. The error is a *NotPure where
// it differs, and the Checked is there with it.
func Check(ctx context.Context, e chain.Workspace, r *Repo, o CheckOptions) (*Checked, error) {
	b, err := r.readFrom(ctx, e.Repo, o)
	if err != nil {
		return nil, err
	}
	c := &Checked{
		Branch: b.label(), Remote: o.Remote, Tag: b.Tag.String(), Tip: b.Tip, Base: b.Base, Root: b.Root,
		Commits: []CheckedCommit{},
	}
	var unfit []string
	want, series, base, err := expected(ctx, e, r, b, &unfit)
	if err != nil {
		return nil, err
	}
	c.Pure = base == b.Base && slices.ContainsFunc(b.Commits, func(k Commit) bool { return k.Fix != "" })
	c.compare(b, want, unfit)
	if o.Target != "" {
		p, err := patched(ctx, e, r, Want{Upstream: b.Upstream, Tag: b.Tag, Target: o.Target, With: o.With})
		if err != nil {
			return nil, err
		}
		defer func() { _ = p.Tree.Close() }() // it was only read from
		for _, in := range p.Series.In {
			if !slices.ContainsFunc(series, func(s spec.Chosen) bool { return s.Fix == in.Fix }) {
				c.Missing = append(c.Missing, in.Fix)
			}
		}
	}
	c.Pure = c.Pure && len(c.Missing) == 0
	if !c.Pure {
		return c, &NotPure{c, r.llpatch("fork", "export") + " puts changes into the fixes; " +
			makeCommand(e, r, b, cmp.Or(o.Target, r.target(ctx, b))) +
			" makes the branch again"}
	}
	return c, nil
}

// readFrom reads the branch, of a remote where one is named.
func (r *Repo) readFrom(ctx context.Context, repo *spec.Repo, o CheckOptions) (Branch, error) {
	if o.Remote == "" {
		return r.Read(ctx, repo, o.Branch)
	}
	b := Branch{Name: o.Branch}
	if b.Name == "" {
		head, _, err := r.head(ctx)
		if err != nil || head == "" {
			return b, errors.Join(err, refuse("--branch NAME", "no branch is checked out in %s", r.Dir))
		}
		b.Name = head
	}
	var err error
	if b.Tip, err = r.see(ctx, r.far(ctx, o.Remote), b.Name); err != nil {
		return b, err
	}
	if b.Tip == "" {
		return b, &Refusal{Msg: fmt.Sprintf("%s has no branch %s", o.Remote, b.Name), Code: exit.Source}
	}
	return b, r.stand(ctx, repo, &b)
}

// see fetches a remote's branch and returns its commit; "" where it has none.
func (r *Repo) see(ctx context.Context, remote, branch string) (string, error) {
	out, err := r.git(ctx, "ls-remote", "--", remote, "refs/heads/"+branch)
	if err != nil {
		return "", &Refusal{Msg: fmt.Sprintf("%s: %s", remote, said(err)), Code: exit.Source}
	}
	if out == "" {
		return "", nil
	}
	ref := fmt.Sprintf("refs/llpatch/seen/%x", sha256.Sum256([]byte(remote+"\n"+branch)))[:40]
	if _, err := r.git(ctx, "fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", remote, "+refs/heads/"+branch+":"+
		ref); err != nil {
		return "", &Refusal{Msg: fmt.Sprintf("%s: %s", remote, said(err)), Code: exit.Source}
	}
	return r.commit(ctx, ref)
}

// expected are the commits that the fixes of a branch give on its tag, and the base's id.
// unfit gets the fixes that do not fit on the others, such as where one that they stand on is
// not there; where it is nil they are an error.
func expected(ctx context.Context, e chain.Workspace, r *Repo, b Branch,
	unfit *[]string,
) (want []Commit, in []spec.Chosen, base string, err error) {
	e, err = from(ctx, e, r, b.Tag)
	if err != nil {
		return nil, nil, "", err
	}
	all := e.Repo
	var p chain.Patched
	for {
		e.Repo = only(all, func(f spec.Fix) bool {
			return (unfit == nil || !slices.Contains(*unfit, f.ID)) && slices.ContainsFunc(b.Commits, func(c Commit) bool {
				return c.Fix == f.ID
			})
		})
		p, err = chain.Patch(ctx, e, chain.Order{Tag: b.Tag, Recipe: chain.AnyTarget(b.Upstream)}, nil)
		c := new(patch.Conflict)
		if unfit == nil || !errors.As(err, &c) || slices.Contains(*unfit, c.Fix) {
			break
		}
		*unfit = append(*unfit, c.Fix)
	}
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { err = errors.Join(err, p.Tree.Close()) }()
	from := Commit{ID: p.Tree.Pin.Commit}
	if b.Root {
		from = rootOf(p.Tree)
	}
	want, err = plan(p, from)
	return want, p.Series.In, from.ID, err
}

// compare tells the commits apart.
func (c *Checked) compare(b Branch, want []Commit, unfit []string) {
	last := -1 // of those that are a fix's
	for i, k := range b.Commits {
		if k.Fix != "" {
			last = i
		}
	}
	for i, k := range b.Commits {
		out := CheckedCommit{ID: k.ID, Subject: k.Subject(), Fix: k.Fix, Is: Pure}
		at := slices.IndexFunc(want, func(w Commit) bool { return w.Fix == k.Fix })
		switch {
		case k.Fix == "" && i > last:
			out.Is = Yours
			if k.Tree == treeBefore(b, i) {
				out.Why = "changes nothing"
			}
		case k.Fix == "":
			if out.Is, out.Why = Foreign, "is no fix's, by "+k.Committer.Name; k.Tree == treeBefore(b, i) {
				out.Why += ", and changes nothing"
			}
		case slices.Contains(unfit, k.Fix):
			out.Is, out.Why = Changed, "is of a fix that does not fit on "+c.Tag+" with the other fixes of the branch"
		case at < 0:
			out.Is, out.Why = Changed, "is of a fix that is not declared for "+c.Tag
		case want[at].ID != k.ID:
			out.Is, out.Why = Changed, difference(k, want[at])
		}
		c.Pure = c.Pure && out.Is != Foreign && out.Is != Changed
		c.Commits = append(c.Commits, out)
	}
}

// difference says in what a commit is not the one that is wanted.
func difference(is, want Commit) string {
	switch {
	case is.Committer.String() != want.Committer.String():
		return "was committed by " + is.Committer.Name
	case is.Author.String() != want.Author.String():
		return "has another author or date than its patch: " + is.Author.String()
	case is.Message != want.Message:
		return "has another message than its patch"
	case is.Tree != want.Tree:
		return "has another content than its patch gives"
	case !slices.Equal(is.Parents, want.Parents):
		return "stands on another commit than it should"
	}
	return "has headers that llpatch does not write, such as a signature"
}
