package fork

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
)

// Stopped is a rebase that needs somebody: the conflict is in the work tree, as git leaves one.
type Stopped struct {
	Commit    Commit
	Tag       string
	Dir       string // the work tree
	Conflicts []*patch.Conflict
	Causes    []Cause
	Files     []string // that are in conflict
	next      string   // the command that goes on
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
	return "solve it there, git add the files, then " + e.next + ", or with --skip or --abort instead"
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
			Msg: fmt.Sprintf("%s does not fit %s, and a bare repository has no work tree to solve it in: %v", c.short(), m.To,
				errors.Join(asErrors(conflicts)...)),
			Next: m.r.command("worktree", "add") + " PATH, and --repo PATH; or --drop leaves out what does not fit",
			Code: exit.Conflict,
		}
	}
	busy, err := m.r.busy(ctx)
	if err != nil {
		return err
	}
	if busy != "" {
		return &Refusal{
			Msg:  fmt.Sprintf("%s does not fit %s, and its conflict has no room: %s %s", c.short(), m.To, m.r.work, busy),
			Next: m.r.command("commit") + " or " + m.r.command("stash") + " first: nothing was changed", Code: exit.Usage,
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
	if _, err := m.r.place(ctx, "checkout", "-q", "--detach", m.Tip); err != nil {
		return fmt.Errorf("check out what is done: %s", said(err))
	}
	// What git itself can merge it commits; that is looked at by whoever goes on, too.
	if _, err := m.r.place(ctx, "-c", "user.name=llpatch", "-c", "user.email="+ours(m.tree.Pin.Time).Email, "-c",
		"commit.gpgSign=false",
		"cherry-pick", "--allow-empty", c.ID); err != nil && !failed(err) {
		return err
	}
	return &Stopped{
		Commit: c, Tag: m.To.String(), Dir: m.r.work, Conflicts: conflicts, Causes: causes, Files: files,
		next: m.r.llpatch("fork", "rebase", "--continue"),
	}
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
		return "has changes that are in no commit: " + few(files), err
	}
	return "", err
}
