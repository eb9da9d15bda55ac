package fork

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
)

// Pushed says what a remote got.
type Pushed struct {
	Remote  string   `json:"remote"`
	Branch  string   `json:"branch"`
	Before  string   `json:"before,omitempty"` // the remote's commit; "": it had no such branch
	Tip     string   `json:"tip"`
	Tags    []string `json:"tags,omitempty"`
	Written bool     `json:"written"`
}

// Push sends a branch and the -llp tags of its tip to a remote, by git with its own
// credentials. What the remote has is replaced only if it is part of the branch, or what was
// pushed from here before.
func Push(ctx context.Context, e chain.Workspace, r *Repo, remote, branch string) (*Pushed, error) {
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	c, err := Check(ctx, e, r, CheckOptions{Branch: branch})
	if err != nil {
		return nil, err
	}
	if branch == "" {
		branch = c.Branch
	}
	if tip, err := r.commit(ctx, "refs/heads/"+branch); err != nil || tip != c.Tip {
		return nil, refuse("git switch BRANCH", "no branch is checked out in %s", r.Dir)
	}
	remote = r.far(ctx, remote)
	p := &Pushed{Remote: remote, Branch: branch, Tip: c.Tip}
	if p.Before, err = r.see(ctx, remote, branch); err != nil {
		return nil, err
	}
	if err := r.mayReplace(ctx, p); err != nil {
		return nil, err
	}
	refs := []string{c.Tip + ":refs/heads/" + branch}
	names, err := r.git(ctx, "tag", "--points-at", c.Tip, "--list", "*-llp*")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(names) {
		p.Tags = append(p.Tags, name)
		refs = append(refs, "refs/tags/"+name)
	}
	if len(p.Tags) == 0 {
		r.Log.Info("no tag goes with it: no -llp tag names its tip, as fork make TAG TARGET makes one where nothing lies above the fixes",
			"branch", branch, "tip", c.Tip)
	}
	out, err := r.git(ctx, append([]string{
		"push", "--porcelain", "--atomic", "--no-follow-tags", "--force-with-lease=refs/heads/" + branch + ":" + p.Before, "--", remote,
	}, refs...)...)
	if err != nil {
		return nil, &Refusal{
			Msg:  fmt.Sprintf("push to %s: nothing was changed there: %s", remote, rejected(out, said(err))),
			Next: "llpatch fork check --remote " + remote + " says what is there", Code: exit.Source,
		}
	}
	p.Written = strings.Contains(out, "\n*\t") || strings.Contains(out, "\n+\t") || strings.Contains(out, "\n \t")
	_, err = r.git(ctx, "update-ref", r.pushedRef(remote, branch), c.Tip)
	return p, err
}

// far is a remote as git is to have it: by its name, its address, or, of a path, from where the user stands and not from
// the repository.
func (r *Repo) far(ctx context.Context, remote string) string {
	known, err := r.git(ctx, "ls-remote", "--get-url", "--", remote)
	host, _, _ := strings.Cut(remote, "/")
	if at, aerr := filepath.Abs(remote); err == nil && known == remote && aerr == nil && !strings.Contains(host, ":") {
		return at
	}
	return remote
}

// rejected is why a remote refused, from what git push printed.
func rejected(out, said string) string {
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "!\t"); ok {
			return strings.TrimSpace(strings.ReplaceAll(rest, "\t", " "))
		}
	}
	return said
}

// pushedRef keeps what was pushed from here, by remote and branch.
func (r *Repo) pushedRef(remote, branch string) string {
	return "refs/llpatch/pushed/" + objectID("blob", []byte(remote)) + "/" + branch
}

// mayReplace refuses to overwrite what somebody else pushed.
func (r *Repo) mayReplace(ctx context.Context, p *Pushed) error {
	if p.Before == "" || p.Before == p.Tip {
		return nil
	}
	if last, err := r.commit(ctx, r.pushedRef(p.Remote, p.Branch)); err != nil || last == p.Before {
		return err
	}
	if _, err := r.git(ctx, "merge-base", "--is-ancestor", p.Before, p.Tip); err == nil {
		return nil
	}
	return &Refusal{
		Msg: fmt.Sprintf("%s of %s is at %.12s, which was not pushed from here and is not part of the branch: it would be lost",
			p.Branch, p.Remote, p.Before),
		Next: fmt.Sprintf("llpatch fork check --remote %s says what it is; git fetch, and rebase or cherry-pick what is worth keeping", p.Remote),
		Code: exit.Source,
	}
}
