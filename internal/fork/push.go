package fork

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
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
		return nil, refuse(r.command("switch")+" BRANCH", "no branch is checked out in %s", r.Dir)
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
		r.Log.Info("no tag goes with it: no -llp tag names its tip, as fork make TAG TARGET makes one where nothing lies "+
			"above the fixes",
			"branch", branch, "tip", c.Tip)
	}
	out, err := r.git(ctx, append([]string{
		"push", "--porcelain", "--atomic", "--no-follow-tags", "--force-with-lease=refs/heads/" + branch + ":" + p.Before,
		"--", remote,
	}, refs...)...)
	if err != nil {
		return nil, r.refused(ctx, p, out, err)
	}
	p.Written = strings.Contains(out, "\n*\t") || strings.Contains(out, "\n+\t") || strings.Contains(out, "\n \t")
	_, err = r.git(ctx, "update-ref", r.pushedRef(remote, branch), c.Tip)
	return p, err
}

// far is a remote as git is to have it: by its name, its address, or, of a path, from where the
// user stands and not from
// the repository.
func (r *Repo) far(ctx context.Context, remote string) string {
	known, err := r.git(ctx, "ls-remote", "--get-url", "--", remote)
	host, _, _ := strings.Cut(remote, "/")
	if at, aerr := filepath.Abs(remote); err == nil && known == remote && aerr == nil && !strings.Contains(host, ":") {
		return at
	}
	return remote
}

// refused is why a push did not come about: a hook of the repository or of the remote, the remote, or the way there.
func (r *Repo) refused(ctx context.Context, p *Pushed, out string, err error) error {
	no := &Refusal{
		Next: r.llpatch("fork", "check", "--remote", p.Remote, "--branch", p.Branch) + " says what is there",
		Code: exit.Source,
	}
	reason, lines := rejected(out, said(err))
	hook, _ := r.git(ctx, "rev-parse", "--git-path", "hooks/pre-push") // "": what git said stands for itself
	who := "push to " + p.Remote
	switch {
	case strings.Contains(reason, "hook declined"):
		who, no.Next = p.Remote+" refused, by a hook of its own", "what it says is the remote's to answer; "+no.Next
	case strings.Contains(reason, "[remote rejected]"):
		who = p.Remote + " refused"
	case reason == "" && !strings.Contains(said(err), "fatal: ") && hook != "" && isFile(r.inDir(hook)):
		who, no.Next = "the hook "+hook+" of "+r.Dir+" refused", "do what it says, and push again"
	}
	no.Msg = who + ": nothing was changed there"
	for _, line := range append([]string{reason}, lines...) {
		if line != "" {
			no.Msg += "\n  " + patch.Printable(line)
		}
	}
	return no
}

// inDir is a path that git gave, which counts from the repository's folder.
func (r *Repo) inDir(at string) string {
	if filepath.IsAbs(at) {
		return at
	}
	return filepath.Join(r.Dir, at)
}

// rejected is why git push changed nothing, "" where no ref says so, and what hooks, the remote and git said besides.
func rejected(out, said string) (reason string, lines []string) {
	for line := range strings.Lines(out + "\n" + said) {
		line = strings.TrimRight(line, "\n")
		switch rest, ok := strings.CutPrefix(line, "!\t"); {
		case ok:
			if reason == "" || strings.Contains(reason, "atomic") {
				reason = strings.ReplaceAll(rest, "\t", " ")
			}
		case line == "" || line == "Done" || strings.HasPrefix(line, "To ") ||
			strings.HasPrefix(line, "error: failed to push some refs"):
		case !slices.Contains(lines, line):
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return reason, lines
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
		Msg: fmt.Sprintf("%s of %s is at %.12s, which was not pushed from here and is not part of the branch: it "+
			"would be lost",
			p.Branch, p.Remote, p.Before),
		Next: r.llpatch("fork", "check", "--remote", p.Remote, "--branch", p.Branch) +
			" says what it is; git fetch, and rebase or cherry-pick what is worth keeping",
		Code: exit.Source,
	}
}
