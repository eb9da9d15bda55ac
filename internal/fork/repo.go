package fork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/run"
)

// Refusal is something that is not done, because of what the repository, the branch or the
// patches are.
type Refusal struct {
	Msg  string
	Next string // what to do; may be empty
	Code int    // 0: exit.Usage
}

// Error says what is in the way.
func (e *Refusal) Error() string { return e.Msg }

// Hint says what to do.
func (e *Refusal) Hint() string { return e.Next }

// ExitCode is Code, or exit.Usage.
func (e *Refusal) ExitCode() int {
	if e.Code == 0 {
		return exit.Usage
	}
	return e.Code
}

func refuse(next, format string, args ...any) error {
	return &Refusal{Msg: fmt.Sprintf(format, args...), Next: next}
}

// llpatch is a command line of llpatch's on the repository, as a shell takes it.
func (r *Repo) llpatch(args ...string) string {
	return run.QuoteArgv(slices.Concat([]string{"llpatch"}, args, r.Flags, []string{"--repo", r.Dir}))
}

// command is one of git's.
func (r *Repo) command(args ...string) string {
	return run.QuoteArgv(append([]string{"git", "-C", r.Dir}, args...))
}

// Repo is a git repository in which branches of llpatch live.
type Repo struct {
	Dir string // as the user named it
	Log *slog.Logger

	Flags []string // that the user gave besides: commands that are proposed have them, too

	program string
	env     []string
	work    string // top of the work tree; "": it is bare
	own     string // git folder of this work tree
	common  string // git folder that all work trees share
	fresh   bool   // it has no commit yet
	made    string // the first folder that Open made for it, or the empty one that it made it in; "": it was there
	empty   bool   // made was there, empty
}

// located are variables that would lead git to another repository.
var located = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "LC_ALL", "LANGUAGE", "GIT_EDITOR",
}

// Open opens the repository at dir: a work tree, a linked one or a bare repository. With
// create a folder that is not there, or empty, becomes one.
func Open(ctx context.Context, log *slog.Logger, dir string, create bool) (*Repo, error) {
	program, err := run.LookPath("git", os.Getenv("PATH"))
	if err != nil {
		return nil, &Refusal{Msg: "there is no git program on the PATH: llpatch fork works through it", Code: exit.NotRun}
	}
	r := &Repo{Dir: dir, Log: log, program: program}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !containsFold(located, name) {
			r.env = append(r.env, v)
		}
	}
	r.env = append(r.env, "LC_ALL=C", "GIT_EDITOR=:")
	entries, err := os.ReadDir(dir)
	switch {
	case create && (errors.Is(err, os.ErrNotExist) || err == nil &&
		(len(entries) == 0 || len(entries) == 1 && entries[0].Name() == newRepo)):
		if r.made, r.empty = dir, err == nil; !r.empty {
			r.made = firstNew(dir)
		}
		if err := r.init(ctx); err != nil {
			return nil, errors.Join(err, r.Discard())
		}
	case err != nil:
		return nil, refuse("--repo names a git repository", "--repo %s: %v", dir, err)
	}
	out, err := r.git(ctx, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--is-bare-repository")
	if err != nil {
		return nil, refuse("--repo names a git repository", "--repo %s is not a git repository: %v", dir, lastLine(err))
	}
	lines := strings.Split(out, "\n")
	r.own, r.common = lines[0], lines[1]
	if lines[2] == "false" {
		if r.work, err = r.git(ctx, "rev-parse", "--path-format=absolute", "--show-toplevel"); err != nil {
			return nil, err
		}
		r.Dir = r.work
	}
	_, err = r.git(ctx, "rev-parse", "-q", "--verify", "HEAD^{commit}")
	r.fresh = err != nil
	return r, nil
}

// newRepo is where a repository is made, so that a kill leaves none that is half made.
const newRepo = ".llpatch-new"

// init makes a repository of a folder, at once.
func (r *Repo) init(ctx context.Context) error {
	stage := filepath.Join(r.Dir, newRepo)
	err := os.RemoveAll(stage)
	for n := 0; err != nil && n < 20; n++ { // git of a run that was killed may be at its last file
		time.Sleep(50 * time.Millisecond)
		err = os.RemoveAll(stage)
	}
	if err := errors.Join(err, os.MkdirAll(stage, 0o755)); err != nil {
		return err
	}
	if _, err := r.git(ctx, "init", "-q", newRepo); err != nil {
		return err
	}
	return errors.Join(os.Rename(filepath.Join(stage, ".git"), filepath.Join(r.Dir, ".git")), os.Remove(stage))
}

// firstNew is the topmost folder of a path that is not there.
func firstNew(dir string) string {
	for up := filepath.Dir(dir); up != dir; up = filepath.Dir(up) {
		if _, err := os.Lstat(up); err == nil {
			break
		}
		dir = up
	}
	return dir
}

// Discard removes the repository again that Open made, with what has come into it, and nothing that was there before.
func (r *Repo) Discard() error {
	if r.made == "" || !r.empty {
		return os.RemoveAll(r.made)
	}
	entries, err := os.ReadDir(r.made)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.made, e.Name())))
	}
	return err
}

func containsFold(list []string, s string) bool {
	for _, l := range list {
		if strings.EqualFold(l, s) {
			return true
		}
	}
	return false
}

// lastLine is what git said last.
func lastLine(err error) string {
	if e := new(run.Error); errors.As(err, &e) && len(e.Tail) > 0 {
		return strings.TrimPrefix(e.Tail[len(e.Tail)-1], "fatal: ")
	}
	return err.Error()
}

// said is all that git said.
func said(err error) string {
	if e := new(run.Error); errors.As(err, &e) {
		return strings.Join(e.Tail, "\n")
	}
	return err.Error()
}

// failed reports whether git itself said no, and was not ended or missing.
func failed(err error) bool {
	e := new(run.Error)
	return errors.As(err, &e) && e.Err == nil && e.Exit > 0
}

// git runs git in the repository and returns its output without the last line end.
func (r *Repo) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.feed(ctx, nil, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// place is git for what llpatch does to the work tree on its way: without hooks, of which one that
// fails would stop it halfway.
func (r *Repo) place(ctx context.Context, args ...string) (string, error) {
	return r.git(ctx, append([]string{"-c", "core.hooksPath=" + os.DevNull}, args...)...)
}

// feed is git with an input; the output is as it is.
func (r *Repo) feed(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	fixed := []string{r.program, "-c", "core.quotePath=false", "-c", "advice.detachedHead=false", "-c", "gc.auto=0"}
	return run.Output(ctx, run.Cmd{Argv: append(fixed, args...), Env: r.env, Dir: r.Dir, Stdin: in})
}

// commit is the full id of the commit that a name means; "" where there is none.
func (r *Repo) commit(ctx context.Context, name string) (string, error) {
	out, err := r.git(ctx, "rev-parse", "-q", "--verify", "--end-of-options", name+"^{commit}")
	if failed(err) {
		return "", nil
	}
	return out, err
}

// tree is the id of a commit's tree; "" where there is none.
func (r *Repo) tree(ctx context.Context, commit string) (string, error) {
	out, err := r.git(ctx, "rev-parse", "-q", "--verify", "--end-of-options", commit+"^{tree}")
	if failed(err) {
		return "", nil
	}
	return out, err
}

// lock keeps two llpatch apart in one repository.
func (r *Repo) lock(ctx context.Context) (*os.File, error) {
	if err := os.MkdirAll(filepath.Join(r.common, "llpatch"), 0o755); err != nil {
		return nil, refuse(run.QuoteArgv([]string{"git", "clone", r.Dir})+" makes one that is yours",
			"%s cannot be written: %v", r.Dir, err)
	}
	return records.Lock(ctx, r.Log, filepath.Join(r.common, "llpatch", "lock"), r.Dir)
}

// where is the work tree that has a branch checked out; "": none.
func (r *Repo) where(ctx context.Context, branch string) (string, error) {
	out, err := r.git(ctx, "worktree", "list", "--porcelain")
	if err != nil {
		return "", err
	}
	at := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if path, ok := strings.CutPrefix(line, "worktree "); ok {
			at = path
		}
		if line == "branch refs/heads/"+branch {
			return at, nil
		}
	}
	return "", nil
}

// dirty are the tracked files of the work tree that differ from HEAD.
func (r *Repo) dirty(ctx context.Context) ([]string, error) {
	out, err := r.git(ctx, "status", "--porcelain", "-uno")
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// few names the first five of a list, and how many more there are.
func few(list []string) string {
	if len(list) <= 5 {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:5], ", "), len(list)-5)
}

// head is the branch that is checked out, "" for none, and the commit.
func (r *Repo) head(ctx context.Context) (branch, commit string, err error) {
	if commit, err = r.commit(ctx, "HEAD"); err != nil {
		return "", "", err
	}
	out, err := r.git(ctx, "symbolic-ref", "-q", "--short", "HEAD")
	if failed(err) {
		return "", commit, nil
	}
	return out, commit, err
}
