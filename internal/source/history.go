package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/tag"
)

// Mirror is the whole history of an upstream on this machine: a bare repository
// with its branches and tags.
type Mirror struct {
	Path   string `json:"path"`
	Source string `json:"source"` // the name of the source that gave it, or its address
	New    bool   `json:"new"`    // made now, not updated
	Tags   int    `json:"tags"`   // of releases, such as b8833
}

// MirrorPath is where the mirror of an upstream's history lies in a cache.
func MirrorPath(cache, upstream string) string {
	return filepath.Join(cache, "mirror", upstream+".git")
}

// NoHistory says that nothing can give an upstream's history, or nothing at
// hand holds one commit of it.
type NoHistory struct {
	Upstream string
	Commit   string // "": the whole history was wanted
	Tried    []Attempt
}

// Error names every place that was tried, why it failed, and what helps.
func (e *NoHistory) Error() string {
	var b strings.Builder
	if e.Commit == "" {
		fmt.Fprintf(&b, "no source can give the history of %s", e.Upstream)
		if len(e.Tried) == 0 {
			b.WriteString(": no git repository is declared for it in recipes/sources.toml; give one by --source")
		}
	} else {
		fmt.Fprintf(&b, "commit %s of %s is in no history at hand", e.Commit, e.Upstream)
	}
	for _, a := range e.Tried {
		fmt.Fprintf(&b, "\n  %s: %s", a.Source, strings.ReplaceAll(a.Err.Error(), "\n", "\n  "))
	}
	switch {
	case e.Commit != "" || len(e.Tried) == 0:
	case errors.Is(e, errOffline):
		b.WriteString("\n  --source takes a git repository on this machine that has it")
	default:
		b.WriteString("\n  --source takes a git URL, or a git repository on this machine, that has it")
	}
	if e.Commit != "" {
		fmt.Fprintf(&b, "\n  llpatch fetch --history --upstream %s fetches upstream's history; or give a local repository "+
			"that has the commit by --source", e.Upstream)
	}
	return b.String()
}

// ExitCode is exit.Source.
func (e *NoHistory) ExitCode() int { return exit.Source }

// Unwrap gives the reasons to errors.Is and errors.As.
func (e *NoHistory) Unwrap() []error {
	errs := make([]error, len(e.Tried))
	for i, a := range e.Tried {
		errs[i] = a.Err
	}
	return errs
}

// TagsMoved says that a source has other commits for tags that the mirror has.
// The mirror keeps what it had.
type TagsMoved struct {
	Upstream string
	Source   string
	Mirror   string // path of the mirror
	Tags     []string
}

// Error names the tags and what to do if they are right.
func (e *TagsMoved) Error() string {
	const shown = 10
	names, more := e.Tags, ""
	if len(names) > shown {
		names, more = names[:shown], fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return fmt.Sprintf("%s: moved in %s, and the mirror keeps what it has: %s%s; find out why; if that is right, "+
		"remove them (git -C %s tag -d %s) and fetch again",
		e.Upstream, e.Source, strings.Join(names, ", "), more, e.Mirror, e.Tags[0])
}

// ExitCode is exit.Source.
func (e *TagsMoved) ExitCode() int { return exit.Source }

// History makes or updates the mirror of an upstream's history in the cache, from
// the first source that is a git repository and answers. It is done by the git
// program. A tag that moved is refused and the rest taken. The errors that a user
// acts on are *NoHistory and *TagsMoved.
func History(ctx context.Context, o Options, upstream string) (_ *Mirror, err error) {
	f := newFetcher(ctx, o, upstream)
	gone := &NoHistory{Upstream: upstream}
	program, err := run.LookPath("git", os.Getenv("PATH"))
	if err != nil {
		gone.Tried = []Attempt{{Source: "git", Err: errors.New(
			"a whole history is fetched by the git program, which is not on the PATH: install git (llpatch's own reader " +
				"would take six times its memory)")}}
		return nil, gone
	}
	path := MirrorPath(o.Cache, upstream)
	unlock, err := f.lockMirror(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	h := historian{fetcher: f, git: program, path: path}
	for _, s := range f.declared() {
		if s.Kind != "git" && s.Kind != kindSniff {
			continue
		}
		f.label = s.Name
		m, err := h.from(ctx, s)
		if err == nil {
			return m, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if moved := new(TagsMoved); fatal(err) || errors.As(err, &moved) {
			return nil, err
		}
		f.Log.Debug("source does not give the history", "source", s.Name, "error", err)
		gone.Tried = append(gone.Tried, Attempt{Source: s.Name, Err: err})
	}
	return nil, gone
}

// scratchSuffix marks a mirror that is not whole yet.
const scratchSuffix = ".scratch"

// lockMirror waits for the mirror, and sweeps what a killed process left.
func (f *fetcher) lockMirror(ctx context.Context, path string) (unlock func() error, err error) {
	l, err := lock.Wait(ctx, path+".lock", false, func() {
		f.Log.Warn("another llpatch is fetching the history, waiting for it", "mirror", path)
	})
	if err != nil {
		if ctx.Err() == nil {
			err = cacheError(err)
		}
		return nil, err
	}
	if err := os.RemoveAll(path + scratchSuffix); err != nil {
		return nil, errors.Join(cacheError(err), l.Close())
	}
	return l.Close, nil
}

// hasMirror reports whether the upstream's history was fetched.
func (f *fetcher) hasMirror() bool {
	_, err := os.Stat(MirrorPath(f.Cache, f.upstream))
	return err == nil
}

// releaseTags lists the tags of a repository that name releases.
func releaseTags(path string) ([]string, error) {
	all, err := repositoryTags(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range all {
		if t.Kind() != tag.Commit {
			names = append(names, t.String())
		}
	}
	slices.Sort(names)
	return names, nil
}
