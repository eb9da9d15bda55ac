package fork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// rebasing is a rebase under way, kept in the work tree's git folder from its first stop on.
// The old branch never moves, so that nothing is lost wherever it ends.
type rebasing struct {
	Branch   string    `json:"branch"` // "": a detached HEAD
	From     string    `json:"from"`   // its commit
	Head     string    `json:"head"`   // what was checked out: a branch, or a commit
	Upstream string    `json:"upstream"`
	To       tag.Tag   `json:"to"`
	Name     string    `json:"name"`
	Base     string    `json:"base"`
	Tip      string    `json:"tip"`  // of what is done
	When     time.Time `json:"when"` // of the tag's commit
	Done     []Moved   `json:"done"`
	Stop     *halt     `json:"stop,omitempty"`
	Left     bool      `json:"left,omitempty"`  // HEAD has left where it was
	Clear    bool      `json:"clear,omitempty"` // the work tree is to be put on Tip
	Force    bool      `json:"force,omitempty"` // whatever is in it: the commit there is left out
	Drop     bool      `json:"drop,omitempty"`

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
		return nil, &Refusal{
			Msg:  fmt.Sprintf("%s: %v", r.stateFile(), err),
			Next: run.QuoteArgv([]string{"rm", r.stateFile()}) + " forgets the rebase: the old branch is as it was",
		}
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
func GoOn(ctx context.Context, e chain.Workspace, r *Repo, way string) (*Rebased, error) {
	held, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	s, err := r.load()
	if err == nil && s == nil {
		err = refuse(r.llpatch("fork", "rebase", "--to", "TAG")+" begins one", "no rebase is under way in %s", r.Dir)
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
	if len(s.Done) > len(b.Commits) || s.Stop != nil && len(s.Done) == len(b.Commits) {
		return nil, refuse(r.llpatch("fork", "rebase", "--abort"),
			"%s does not tell of the rebase of %s: it has more commits", r.stateFile(), b.label())
	}
	if s.Stop != nil {
		c := b.Commits[len(s.Done)]
		done := Moved{Old: c.ID, Fix: c.Fix, Subject: c.Subject()}
		if way == Skip {
			done.How, done.Why, s.Clear, s.Force = Dropped, "it was left out by hand", true, true
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
		if _, err := r.place(ctx, "checkout", "-q", "-f", s.Head); err != nil {
			return fmt.Errorf("go back to %s: %s", s.Head, said(err))
		}
	}
	return r.forget(ctx)
}

// solved takes what somebody made of a conflict, and remembers it. Where the conflict was never
// laid out, as after a kill, done stays as it is, and the commit comes again.
func (r *Repo) solved(ctx context.Context, e chain.Workspace, s *rebasing, c Commit, done *Moved) error {
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
		return refuse(r.command("checkout", "--detach", s.Tip[:12])+", or --abort",
			"%s is not where the rebase stopped: HEAD is %.12s %s", r.work, head, branch)
	}
	if open, err := r.git(ctx, "diff", "--name-only", "--diff-filter=U"); err != nil || open != "" {
		return errors.Join(err, &Refusal{
			Msg: "still in conflict: " + strings.ReplaceAll(open, "\n", ", "), Next: "solve them and git add them",
			Code: exit.Conflict,
		})
	}
	if open, err := r.git(ctx, "diff", "--name-only"); err != nil || open != "" {
		return errors.Join(err, refuse("git add what belongs to the commit", "changed and not added: %s",
			strings.ReplaceAll(open, "\n", ", ")))
	}
	tree, err := r.git(ctx, "write-tree")
	if err != nil {
		return err
	}
	if was, err := r.tree(ctx, s.Tip); err != nil || was == tree {
		return errors.Join(err, refuse("--skip leaves the commit out", "nothing is left of %s", c.short()))
	}
	if out, err := r.git(ctx, "diff-tree", "--check", "-r", s.Tip, tree); failed(err) &&
		strings.Contains(out, "leftover conflict marker") {
		return &Refusal{
			Msg: "conflict markers are left: " + strings.TrimSpace(out), Next: "solve them and git add them",
			Code: exit.Conflict,
		}
	}
	next := Commit{Author: c.Author, Committer: c.Committer, Message: c.Message, Parents: []string{s.Tip}, Tree: tree}
	if c.Fix != "" {
		next.Committer = ours(s.When)
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
func (r *Repo) remember(ctx context.Context, e chain.Workspace, s *rebasing, c Commit, tree string) error {
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
