package compat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Options say how judging is done.
type Options struct {
	Cache    string                               // folder that keeps verdicts between runs; "": none are kept
	Workers  int                                  // 0: one a processor
	Log      *slog.Logger                         // nil: slog.Default
	Progress func(what string, done, total int64) // may be nil
	// ThreeWay has Status merge patches that have no place; nil: it does not.
	ThreeWay *ThreeWay
}

func (o Options) progress(what string, done, total int) {
	if o.Progress != nil {
		o.Progress(what, int64(done), int64(total))
	}
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}

// Tag is a tag of a history.
type Tag struct {
	Name  string `json:"tag"`
	Build int    `json:"build"` // its place in the order: the commit count on master

	object plumbing.Hash // what refs/tags/<name> points to
}

// History is a repository with its tags, read in place.
type History struct {
	Path     string
	Upstream string
	Tags     []Tag    // by build number
	Left     []string // tags of which no build number is known, or only bounds of it

	repo *source.Repository
	lock map[string]spec.Pin
}

// Open opens the repository at path: bare or with a work tree, with the tags
// and their history; it may lack blobs. The lock of the upstream gives version
// tags their build numbers. Where the upstream has no releases, the commits that
// the lock pins stand for them. Close must be called. The error is *NoHistory
// where there is nothing to read.
func Open(path, upstream string, lock map[string]spec.Pin) (*History, error) {
	repo, err := source.OpenRepository(path)
	if err != nil {
		return nil, &NoHistory{Path: path, Err: err}
	}
	h := &History{Path: path, Upstream: upstream, repo: repo, lock: lock}
	read := h.readTags
	if upstream != spec.LlamaCpp {
		read = h.readPins
	}
	if err := read(); err != nil {
		return nil, errors.Join(err, repo.Close())
	}
	return h, nil
}

// Close lets go of the repository.
func (h *History) Close() error { return h.repo.Close() }

func (h *History) readTags() error {
	refs, err := h.repo.Tags()
	if err != nil {
		return err
	}
	for name, id := range refs {
		t, err := tag.Parse(name)
		if err != nil || t.Kind() == tag.Commit {
			continue // upstream has tags that are no releases, such as gguf-v0.18.0
		}
		build, ok := h.build(t)
		if !ok {
			h.Left = append(h.Left, name)
			continue
		}
		h.Tags = append(h.Tags, Tag{Name: name, Build: build, object: plumbing.NewHash(id)})
	}
	if len(h.Tags) == 0 {
		return &NoHistory{Path: h.Path}
	}
	slices.Sort(h.Left)
	slices.SortFunc(h.Tags, func(a, b Tag) int {
		return cmp.Or(cmp.Compare(a.Build, b.Build), strings.Compare(a.Name, b.Name))
	})
	return nil
}

// readPins takes the pinned commits that the repository has for tags: its own
// tags are another upstream's, and their numbers count other commits.
func (h *History) readPins() error {
	objects, err := h.repo.Objects()
	if err != nil {
		return err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	for _, name := range sortedPins(h.lock) {
		pin := h.lock[name]
		id, _, err := readCommit(objects, plumbing.NewHash(pin.Commit))
		if missing := new(source.Missing); errors.As(err, &missing) {
			h.Left = append(h.Left, name)
			continue
		}
		if err != nil {
			return fmt.Errorf("commit %s of %s: %w", name, h.Path, err)
		}
		h.Tags = append(h.Tags, Tag{Name: name, Build: pin.Build, object: id})
	}
	if len(h.Tags) == 0 {
		return &NoHistory{Path: h.Path, Upstream: h.Upstream}
	}
	slices.SortStableFunc(h.Tags, func(a, b Tag) int { return cmp.Compare(a.Build, b.Build) })
	return nil
}

// trusted compares tags with the lock. Another commit of the same tree is as good.
func (h *History) trusted(tags []Tag) error {
	objects, err := h.repo.Objects()
	if err != nil {
		return err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	for _, t := range tags {
		pin, ok := h.lock[t.Name]
		if !ok || pin.Commit == "" {
			continue
		}
		id, c, err := readCommit(objects, t.object)
		if missing := new(source.Missing); errors.As(err, &missing) {
			continue
		}
		if err != nil {
			return err
		}
		if id.String() == pin.Commit || c.tree.String() == pin.Tree {
			continue
		}
		is, err := tag.Parse(t.Name)
		if err != nil {
			return err
		}
		return &source.Mismatch{
			Upstream: h.Upstream, Tag: is, Source: h.Path, What: "commit", Want: pin.Commit,
			Got: id.String(),
		}
	}
	return nil
}

// NoHistory is a path at which there is no repository with tags of releases.
type NoHistory struct {
	Path     string
	Upstream string // one without releases, whose pinned commits were wanted; "": llama.cpp
	Err      error  // why it cannot be opened; nil: it has no such tag
}

// Unwrap returns the cause.
func (e *NoHistory) Unwrap() error { return e.Err }

// Error says what is wanted and how to get it.
func (e *NoHistory) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%v; this needs a local repository with upstream's tags and history", e.Err)
	}
	if e.Upstream != "" {
		return fmt.Sprintf("%s has none of the commits that recipes/tags.lock pins of %s: this needs a repository with "+
			"its whole history (git fetch --unshallow for a shallow clone)", e.Path, e.Upstream)
	}
	return fmt.Sprintf("%s has no tag like b8833: this needs a repository with upstream's tags and history (git fetch "+
		"--tags, and --unshallow for a shallow clone)", e.Path)
}

// ExitCode is exit.Source.
func (e *NoHistory) ExitCode() int { return exit.Source }

// build returns the build number of a tag.
func (h *History) build(t tag.Tag) (int, bool) {
	if n, ok := t.Build(); ok {
		return n, true
	}
	for name, p := range h.lock {
		if p.Build > 0 && p.Max == 0 && (name == t.String() || p.Commit == t.String()) {
			return p.Build, true
		}
	}
	return 0, false
}

// Range returns the tags that "FROM..TO" names, both ends included; an empty
// end is open, a single name is that tag alone, and "" is every tag. An end
// need not be a tag of the repository, its build number counts.
func (h *History) Range(s string) ([]Tag, error) {
	if s == "" {
		return h.Tags, nil
	}
	from, to, isRange := strings.Cut(s, "..")
	if !isRange {
		to = from
	}
	lo, hi := 0, int(^uint(0)>>1)
	for _, end := range []struct {
		name string
		n    *int
	}{{from, &lo}, {to, &hi}} {
		if end.name == "" {
			continue
		}
		t, err := tag.Parse(end.name)
		if err != nil {
			return nil, err
		}
		n, ok := h.build(t)
		if !ok {
			return nil, fmt.Errorf("tag %s has no build number: recipes/tags.lock does not have it, or within bounds only", t)
		}
		*end.n = n
	}
	var out []Tag
	for _, t := range h.Tags {
		if t.Build >= lo && t.Build <= hi {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no tag of %s is in %q; it has %s to %s", h.Path, s, h.Tags[0].Name,
			h.Tags[len(h.Tags)-1].Name)
	}
	return out, nil
}

// commit is what is read of a commit object.
type commit struct {
	tree    plumbing.Hash
	parents []plumbing.Hash
	when    time.Time // of the committer
	subject string
	reverts string // the commit that it takes back, as git revert writes it; empty: none
}

var revertRE = regexp.MustCompile(`(?m)^This reverts commit ([0-9a-f]{40})`)

// readCommit reads the commit that an id means, through annotated tags, and
// returns its own id.
func readCommit(objects *source.Objects, id plumbing.Hash) (plumbing.Hash, commit, error) {
	for range 8 {
		kind, data, err := objects.Read(id.String())
		if err != nil {
			return id, commit{}, err
		}
		switch kind {
		case "commit":
			c, err := parseCommit(data)
			if err != nil {
				return id, c, fmt.Errorf("commit %s: %w", id, err)
			}
			return id, c, nil
		case "tag":
			target, ok := bytes.CutPrefix(data, []byte("object "))
			if !ok || len(target) < 2*len(id) {
				return id, commit{}, fmt.Errorf("tag object %s names no object", id)
			}
			id = plumbing.NewHash(string(target[:2*len(id)]))
		default:
			return id, commit{}, fmt.Errorf("object %s is a %s, not a commit", id, kind)
		}
	}
	return id, commit{}, fmt.Errorf("object %s: too many tags of tags", id)
}

func parseCommit(data []byte) (commit, error) {
	var c commit
	head, message, _ := bytes.Cut(data, []byte("\n\n"))
	for line := range bytes.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		switch key {
		case "tree", "parent":
			raw, err := hex.DecodeString(value)
			if err != nil || len(raw) != len(c.tree) {
				return c, fmt.Errorf("%s is not an object id: %q", key, value)
			}
			if key == "tree" {
				c.tree = plumbing.Hash(raw)
			} else {
				c.parents = append(c.parents, plumbing.Hash(raw))
			}
		case "committer":
			c.when = committed(value)
		}
	}
	if c.tree.IsZero() {
		return c, errors.New("it has no tree")
	}
	subject, _, _ := bytes.Cut(bytes.TrimLeft(message, "\n"), []byte("\n"))
	c.subject = strings.ToValidUTF8(strings.TrimSpace(string(subject)), "?")
	if m := revertRE.FindSubmatch(message); m != nil {
		c.reverts = string(m[1])
	}
	return c, nil
}

// committed reads the time at the end of "name <mail> 1712345678 +0200"; zero
// where there is none.
func committed(value string) time.Time {
	var secs int64
	var zone string
	if _, err := fmt.Sscanf(value[strings.LastIndexByte(value, '>')+1:], "%d %s", &secs, &zone); err != nil {
		return time.Time{}
	}
	return time.Unix(secs, 0).UTC()
}

// errNotOnWay is a commit that first parents do not lead to.
var errNotOnWay = errors.New("it is not on the first-parent way")

// firstParents returns the commits from newest back to oldest along first
// parents, without oldest itself, newest first.
func (h *History) firstParents(ctx context.Context, objects *source.Objects, oldest,
	newest plumbing.Hash,
) ([]plumbing.Hash, error) {
	var out []plumbing.Hash
	for id := newest; id != oldest; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, c, err := readCommit(objects, id)
		if err != nil {
			return nil, err
		}
		if len(c.parents) == 0 {
			return nil, fmt.Errorf("%s: %s: %w to %s", h.Path, oldest, errNotOnWay, newest)
		}
		out = append(out, id)
		id = c.parents[0]
	}
	return out, nil
}
