package source

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/tag"
)

// Attempt is one source that was tried and why it did not serve.
type Attempt struct {
	Source string // its name, or its address where it has none
	Err    error
}

// Unavailable says that no source can give a tag.
type Unavailable struct {
	Upstream string
	Tag      tag.Tag
	Tried    []Attempt
	Nearest  []string // tags that can be had, the nearest build number first
}

// Error names every source tried, why each failed, and what can be had instead.
func (e *Unavailable) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no source can give %s %s", e.Upstream, e.Tag)
	if len(e.Tried) == 0 {
		b.WriteString(": none is declared for this upstream")
	}
	for _, a := range e.Tried {
		fmt.Fprintf(&b, "\n  %s: %s", a.Source, strings.ReplaceAll(a.Err.Error(), "\n", "\n  "))
	}
	if len(e.Nearest) > 0 {
		fmt.Fprintf(&b, "\n  nearest tags to be had: %s", strings.Join(e.Nearest, ", "))
	}
	return b.String()
}

// ExitCode is exit.Source.
func (e *Unavailable) ExitCode() int { return exit.Source }

// Hint names another tag, or what --source takes.
func (e *Unavailable) Hint() string {
	if len(e.Nearest) > 0 {
		return fmt.Sprintf("--nearest takes %s instead; --source takes a repository, bundle or tarball that you have",
			e.Nearest[0])
	}
	if len(e.Tried) == 1 && errors.Is(e, fs.ErrNotExist) {
		return "--source names a path that is not there"
	}
	return "--source takes a repository, bundle or tarball that you have"
}

// Unwrap gives the reasons of all sources to errors.Is and errors.As.
func (e *Unavailable) Unwrap() []error {
	errs := make([]error, len(e.Tried))
	for i, a := range e.Tried {
		errs[i] = a.Err
	}
	return errs
}

// Mismatch says that a source gave something other than what is pinned. It ends
// a fetch, even where another source is left: somebody must look at it.
type Mismatch struct {
	Upstream  string
	Tag       tag.Tag
	Source    string
	What      string // "tree", or "commit": the tag moved upstream
	Want, Got string // full ids
}

// Error shows both ids.
func (e *Mismatch) Error() string {
	if e.What == "commit" {
		return fmt.Sprintf("%s %s moved upstream: the lock pins commit %s, %s now has %s; if that is right, remove the "+
			"tag from recipes/tags.lock and fetch it again",
			e.Upstream, e.Tag, e.Want, e.Source, e.Got)
	}
	return fmt.Sprintf("%s %s: %s gives %s %s, the lock pins %s; nothing of it is used",
		e.Upstream, e.Tag, e.Source, e.What, e.Got, e.Want)
}

// ExitCode is exit.Source.
func (e *Mismatch) ExitCode() int { return exit.Source }

// NotLocked says that a tag has no pin although only pinned tags are allowed.
type NotLocked struct {
	Upstream string
	Tag      tag.Tag
}

// Error names the tag and how to pin it.
func (e *NotLocked) Error() string {
	return fmt.Sprintf("%s %s is not pinned in recipes/tags.lock; fetch it once without --locked to record it",
		e.Upstream, e.Tag)
}

// ExitCode is exit.Source.
func (e *NotLocked) ExitCode() int { return exit.Source }

// maxForeign is how many files a Foreign lists.
const maxForeign = 10

// Foreign says that a folder holds files that no checkout wrote, or that somebody
// changed since. Nothing was written.
type Foreign struct {
	Dir   string
	Files []string // from the top of the folder, sorted; at most 10
	More  bool     // there are more than these
}

// Error lists the files and says what to do.
func (e *Foreign) Error() string {
	more := ""
	if e.More {
		more = "\n  and more"
	}
	return fmt.Sprintf("%s holds files that llpatch did not write, or that were changed since; nothing was written:\n  "+
		"%s%s\ngive another folder, or move these away (or the whole folder, with %s)",
		e.Dir, strings.Join(e.Files, "\n  "), more, indexPath(e.Dir))
}

// ExitCode is exit.Usage.
func (e *Foreign) ExitCode() int { return exit.Usage }

// Missing says that a repository has a tree but not the content of one of its
// files, as a partial clone does.
type Missing struct {
	Where string // the repository
	Path  string // "" where the object is not a file
	Blob  string
}

// Error names the file, the blob and the repository.
func (e *Missing) Error() string {
	what := "object " + e.Blob
	if e.Path != "" {
		what = fmt.Sprintf("%s (blob %s)", e.Path, e.Blob)
	}
	return fmt.Sprintf("%s is not in %s: the repository is incomplete, as a partial clone is (git clone --filter), or "+
		"has lost objects", what, e.Where)
}

// Hint says how to complete it.
func (e *Missing) Hint() string {
	return complete(e.Where) + " completes it; or use another source, or exclude the path"
}

// complete is the command that brings all objects into a repository, also into a partial clone.
func complete(dir string) string {
	return run.QuoteArgv([]string{"git", "-C", dir, "fetch", "--refetch", "--no-filter"})
}

// ExitCode is exit.Source.
func (e *Missing) ExitCode() int { return exit.Source }

// Corrupt says that a stored object is not what its id promises.
type Corrupt struct {
	Where string // the repository
	Path  string // "" where the object is not a file
	ID    string
	Err   error // why it could not be read; nil: it was read and has another id
}

// Error names the object and the repository.
func (e *Corrupt) Error() string {
	what := "object " + e.ID
	if e.Path != "" {
		what = fmt.Sprintf("%s (blob %s)", e.Path, e.ID)
	}
	if e.Err == nil {
		return fmt.Sprintf("%s is corrupt in %s: its content has another id", what, e.Where)
	}
	return fmt.Sprintf("%s is corrupt in %s: %v", what, e.Where, e.Err)
}

// ExitCode is exit.Source.
func (e *Corrupt) ExitCode() int { return exit.Source }

// Unwrap returns the cause.
func (e *Corrupt) Unwrap() error { return e.Err }

// Outward says that a tree has a symbolic link that leads out of it. Nothing was written.
type Outward struct{ Path, Target string }

// Error names the link, where it leads, and what to do.
func (e *Outward) Error() string {
	return fmt.Sprintf("%q links to %q, out of the tree; exclude the path", e.Path, clip(e.Target))
}

// ExitCode is exit.Source.
func (e *Outward) ExitCode() int { return exit.Source }

// fatal marks errors that another source cannot cure, so that the fetch stops.
func fatal(err error) bool {
	var mismatch *Mismatch
	return errors.As(err, &mismatch) || errors.Is(err, errCache) ||
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// errCache marks a cache folder that cannot be used at all.
var errCache = errors.New("the cache cannot be used")
