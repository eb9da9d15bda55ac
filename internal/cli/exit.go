package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/llpatch/llpatch/internal/exit"
)

// interrupted is the annotation of a command with what helps where it was interrupted.
const interrupted = "interrupted"

// goesOn is that of a command that uses what an interrupted run of it has done.
const goesOn = "run the same command again: it goes on where it stopped"

// report prints an error with what to do next, and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	code, hint := exit.Code(err), exit.Hint(err)
	switch {
	case ctx.Err() != nil:
		code, hint, err = exit.Interrupted, a.interrupted, errInterrupted
	case code == exit.Unexpected && noFolder(err) != "":
		code, hint = exit.Usage, noFolder(err)
	}
	if hint == "" {
		hint = a.elsewhere(err)
	}
	_, _ = fmt.Fprintf(a.stderr, "llpatch: error: %s\n", strings.TrimRight(err.Error(), "\n"))
	if hint != "" {
		_, _ = fmt.Fprintf(a.stderr, "llpatch: hint: %s\n", hint)
	}
	return code
}

// elsewhere says how to take another folder than one that cannot be used.
func (a *app) elsewhere(err error) string {
	p, ok := is[*fs.PathError](err)
	unusable := func(cause error) bool { return errors.Is(err, cause) }
	if !ok || !slices.ContainsFunc([]error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT}, unusable) {
		return ""
	}
	below := func(dir string, err error) bool {
		path, perr := filepath.Abs(p.Path)
		return err == nil && perr == nil && strings.HasPrefix(path+"/", dir+"/")
	}
	switch {
	case below(cacheDir()):
		return "LLPATCH_CACHE=DIR takes another folder for the cache"
	case below(filepath.Abs(a.out)):
		return "--out DIR takes another folder"
	// Not what a user has there: all of llpatch's is called so.
	case strings.HasPrefix(p.Path, filepath.Join(os.TempDir(), "llpatch-")):
		return "TMPDIR=DIR takes another folder for what is temporary"
	}
	return ""
}

// is reports whether err holds an error of type T.
func is[T error](err error) (T, bool) {
	var t T
	ok := errors.As(err, &t)
	return t, ok
}

// noFolder says why the system makes no folder where the user wants one, else "".
func noFolder(err error) string {
	p, ok := is[*fs.PathError](err)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return "a file stands where a folder must be"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "the path is too long for this system: give a shorter one"
	case ok && p.Op == "mkdir" && errors.Is(p, fs.ErrExist):
		return "a link that leads nowhere stands where a folder must be"
	}
	return ""
}

func holds[T error](err error) bool {
	_, ok := is[T](err)
	return ok
}
