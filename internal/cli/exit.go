package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
)

// interrupted is the annotation of a command with what helps where it was interrupted.
const interrupted = "interrupted"

// usageError is a command line that says something impossible.
type usageError struct {
	err  error
	hint string // "": that of err, or the command's own help
}

// usage is a usageError for which the command's own help is the hint.
func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...), ""} }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// ExitCode is exit.Usage.
func (e *usageError) ExitCode() int { return exit.Usage }

// Hint names what explains it.
func (e *usageError) Hint() string { return cmp.Or(e.hint, exit.Hint(e.err)) }

// goesOn is that of a command that uses what an interrupted run of it has done.
const goesOn = "run the same command again: it goes on where it stopped"

// report prints the error of a command with what to do next, and returns the exit code.
func (a *app) report(ctx context.Context, c *cobra.Command, err error) int {
	code, hint := exit.Code(err), exit.Hint(err)
	_, isUsage := errors.AsType[*usageError](err)
	switch {
	case ctx.Err() != nil:
		code, hint, err = exit.Interrupted, a.interrupted, errInterrupted
	case code == exit.Unexpected && noFolder(err) != "":
		code, hint = exit.Usage, noFolder(err)
	case code == exit.Unexpected && strings.HasPrefix(err.Error(), "unknown command"): // cobra has no type for it
		code, hint = exit.Usage, "see "+c.CommandPath()+" --help"
	case hint == "" && isUsage:
		hint = "see " + c.CommandPath() + " --help"
	}
	if hint == "" {
		hint = a.elsewhere(err)
	}
	_, _ = fmt.Fprintf(a.stderr, "llpatch: error: %s\n", printable(strings.TrimRight(err.Error(), "\n")))
	if hint != "" {
		a.hint(hint)
	}
	return code
}

// hint tells what to do next.
func (a *app) hint(text string) { _, _ = fmt.Fprintf(a.stderr, "llpatch: hint: %s\n", printable(text)) }

// printable is patch.Printable for a text of several lines: names in it may be anybody's, and no terminal must take
// them for more.
func printable(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.Split(line, "\t")
		for j, word := range words {
			words[j] = patch.Printable(word)
		}
		lines[i] = strings.Join(words, "\t")
	}
	return strings.Join(lines, "\n")
}

// elsewhere says how to take another folder than one that cannot be used.
func (a *app) elsewhere(err error) string {
	p, ok := errors.AsType[*fs.PathError](err)
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

// noFolder says why the system makes no folder where the user wants one, else "".
func noFolder(err error) string {
	p, ok := errors.AsType[*fs.PathError](err)
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

// missing is the hint for a file that is not there: what is called nearly so beside it,
// or what prints where files are.
func missing(name string) string {
	return missingOr(name, "llpatch build TAG TARGET prints the folder of the programs that it built")
}

// missingOr is missing with another hint where no name beside it is like it.
func missingOr(name, otherwise string) string {
	entries, _ := os.ReadDir(filepath.Dir(name)) // none where that is not there either
	var beside []string
	for _, e := range entries {
		beside = append(beside, filepath.Join(filepath.Dir(name), e.Name()))
	}
	return cmp.Or(exit.DidYouMean(filepath.Clean(name), beside), otherwise)
}
