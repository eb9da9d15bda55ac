package patch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// FindGit returns the git program on a list of folders written like PATH, or ""
// if there is none.
func FindGit(path string) string {
	git, err := run.LookPath("git", path)
	if err != nil {
		return ""
	}
	return git
}

// gitMergeFile has git merge three files. clean is false where it has conflicts.
func gitMergeFile(ctx context.Context, git string, base, ours, theirs []byte) (merged []byte, clean bool, err error) {
	dir, err := os.MkdirTemp("", "llpatch-merge-")
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files := []string{"ours", "base", "theirs"}
	for i, data := range [][]byte{ours, base, theirs} {
		if err := os.WriteFile(filepath.Join(dir, files[i]), data, 0o600); err != nil {
			return nil, false, err
		}
	}
	// Neither the user's settings nor a repository around the folder may count.
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "HOME=" + dir,
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "LC_ALL=C", "PATH=" + filepath.Dir(git),
	}
	if runtime.GOOS == "windows" {
		env = append(env, "SystemRoot="+os.Getenv("SystemRoot"))
	}
	out, err := run.Output(ctx, run.Cmd{
		Argv: append([]string{git, "merge-file", "-p", "-q"}, files...),
		Env:  env, Dir: dir, Timeout: 2 * time.Minute,
	})
	// The exit code is the number of conflicts; git's own errors are above 127.
	var e *run.Error
	if errors.As(err, &e) && e.Err == nil && e.Exit > 0 && e.Exit < 128 {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("ask git for a second opinion: %w", err)
	}
	return out, true, nil
}
