package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// mainline numbers the commits of the way along first parents: upstream's build
// number is `git rev-list --count`, so a merge counts what it brought in, too.
type mainline struct {
	first, last int // build numbers of the ends
	newest      Tag // the tag that the numbers count back from
	ids         map[int]plumbing.Hash
	at          map[plumbing.Hash]int           // build number
	reverts     map[plumbing.Hash]plumbing.Hash // commit -> the last one that takes it back
}

// step is a commit of the first-parent way.
type step struct {
	id     plumbing.Hash
	merged []plumbing.Hash // its other parents
}

// mainline walks back from the newest build tag, to the first commit or to where
// a shallow clone ends. Numbers count from that tag, so that both are the same.
// Without releases it walks from the newest pinned commit, and counts from the
// first commit, since no name tells a number.
func (h *History) mainline(ctx context.Context, objects *source.Objects) (*mainline, error) {
	m := &mainline{ids: map[int]plumbing.Hash{}, at: map[plumbing.Hash]int{}, reverts: map[plumbing.Hash]plumbing.Hash{}}
	for _, t := range h.Tags {
		// A version tag's number is the lock's word, which is what is to be checked.
		if _, ok := tag.MustParse(t.Name).Build(); ok || h.pinned() {
			m.newest = t
		}
	}
	if m.newest.Name == "" {
		return nil, &NoHistory{Path: h.Path}
	}
	var way []step
	id, c, err := readCommit(objects, m.newest.object)
	for {
		if missing := new(source.Missing); len(way) > 0 && errors.As(err, &missing) {
			if h.pinned() {
				return nil, &NoHistory{Path: h.Path, Upstream: h.Upstream}
			}
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return nil, fmt.Errorf("history before %s: %w", m.newest.Name, err)
		}
		way = append(way, step{id: id})
		if of := plumbing.NewHash(c.reverts); c.reverts != "" && m.reverts[of].IsZero() {
			m.reverts[of] = id
		}
		if len(c.parents) == 0 {
			break
		}
		way[len(way)-1].merged = c.parents[1:]
		id, c, err = readCommit(objects, c.parents[0])
	}
	seen := map[plumbing.Hash]bool{}
	counts := make([]int, len(way)) // commits that are reachable
	for i, s := range slices.Backward(way) {
		seen[s.id] = true
		if err := reach(objects, s.merged, seen); err != nil {
			return nil, err
		}
		counts[i] = len(seen)
	}
	before := m.newest.Build - counts[0]
	if h.pinned() {
		before = 0
	}
	for i, s := range way {
		n := before + counts[i]
		m.ids[n], m.at[s.id] = s.id, n
		m.first = n
	}
	m.last = before + counts[0]
	return m, nil
}

// pinned reports whether the tags of h are pinned commits, whose numbers are the
// lock's word alone.
func (h *History) pinned() bool { return h.Upstream != spec.LlamaCpp }

// count returns how many commits can be reached from one, itself included: the
// build number of a commit that is not on the first-parent way, as one is that
// was on master before upstream rewrote that.
func count(objects *source.Objects, id plumbing.Hash) (int, error) {
	seen := map[plumbing.Hash]bool{}
	err := reach(objects, []plumbing.Hash{id}, seen)
	return len(seen), err
}

// reach adds to seen whatever can be reached from ids.
func reach(objects *source.Objects, ids []plumbing.Hash, seen map[plumbing.Hash]bool) error {
	todo := slices.Clone(ids)
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[id] {
			continue
		}
		_, c, err := readCommit(objects, id)
		if missing := new(source.Missing); errors.As(err, &missing) {
			continue // a shallow clone ends here
		}
		if err != nil {
			return err
		}
		seen[id] = true
		todo = append(todo, c.parents...)
	}
	return nil
}

// commit returns the commit of a build number. A number that a merge brought in
// is no build.
func (m *mainline) commit(build int) (plumbing.Hash, bool) {
	id, ok := m.ids[build]
	return id, ok
}

// up and down return the nearest build number that has a commit; the number must
// lie between first and last.
func (m *mainline) up(build int) int {
	for m.ids[build].IsZero() && build < m.last {
		build++
	}
	return build
}

func (m *mainline) down(build int) int {
	for m.ids[build].IsZero() && build > m.first {
		build--
	}
	return build
}

// PinCheck is what the history says about pinned tags.
type PinCheck struct {
	Checked int        `json:"checked"`
	Faults  []PinFault `json:"faults,omitempty"`
	Notes   []string   `json:"notes,omitempty"` // what the history cannot answer
}

// PinFault is a pin that the history contradicts.
type PinFault struct {
	Tag string `json:"tag"`
	Msg string `json:"msg"`
}

// CheckPins compares every pin of the lock that the history was opened with to
// the history: commit, tree, commit time and build number, as far as the pin has
// them. Where a tag is lacking, a build tag's commit is found by its number.
func (h *History) CheckPins(ctx context.Context) (*PinCheck, error) {
	objects, err := h.repo.Objects()
	if err != nil {
		return nil, err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	line, err := h.mainline(ctx, objects)
	if err != nil {
		return nil, err
	}
	tags := map[string]plumbing.Hash{}
	for _, t := range h.Tags {
		tags[t.Name] = t.object
	}
	out := &PinCheck{}
	for _, name := range sortedPins(h.lock) {
		pin := h.lock[name]
		fault := func(format string, args ...any) {
			out.Faults = append(out.Faults, PinFault{name, fmt.Sprintf(format, args...)})
		}
		object, tagged := tags[name]
		if !tagged {
			var known bool
			if object, known = line.commit(pin.Build); pin.Commit != "" {
				object, known = plumbing.NewHash(pin.Commit), true
			}
			if kind := tag.MustParse(name).Kind(); kind == tag.Version && pin.Commit == "" {
				known = false // its number may be a guess, and decides nothing
			}
			if !known {
				out.Notes = append(out.Notes, fmt.Sprintf("%s is not in %s, which ends at %s: its pin is not checked", name,
					h.Path, line.newest.Name))
				continue
			}
		}
		id, c, err := readCommit(objects, object)
		if missing := new(source.Missing); errors.As(err, &missing) {
			if err := out.absent(objects, name, h.Path, pin, line, fault); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tag %s: %w", name, err)
		}
		out.Checked++
		if pin.Commit != "" && pin.Commit != id.String() {
			fault("commit is %s, and in the history it is %s", pin.Commit, id)
		}
		if pin.Tree != "" && pin.Tree != c.tree.String() {
			fault("tree is %s, and that of commit %s is %s", pin.Tree, id, c.tree)
		}
		if pin.Tree != "" && !pin.Time.Equal(c.when) {
			fault("time is %s, and commit %s is of %s", pin.Time.UTC().Format(time.RFC3339), id, c.when.Format(time.RFC3339))
		}
		n, on := line.at[id]
		if !on && h.pinned() {
			on = true
			if n, err = count(objects, id); err != nil {
				return nil, fmt.Errorf("history before %s: %w", name, err)
			}
		}
		switch {
		case on && (n < pin.Build || n > max(pin.Build, pin.Max)):
			fault("build number is %s, and commit %s is build %d", pin.Number(), id, n)
		case !on && tagged && pin.Build >= line.first && pin.Build <= line.last:
			fault("commit %s is not on the first-parent way to %s, so it is not build %s", id, line.newest.Name, pin.Number())
		case !on:
			out.Notes = append(out.Notes, fmt.Sprintf("%s: build number %s is not checked: %s counts builds %d to %d", name,
				pin.Number(), h.Path, line.first, line.last))
		}
	}
	return out, nil
}

// absent judges a pin whose commit the repository does not have: inside of what
// it counts, that is a fault, unless upstream rewrote its history and the build
// has the pinned tree under another commit.
func (p *PinCheck) absent(objects *source.Objects, name, path string, pin spec.Pin, line *mainline,
	fault func(string, ...any),
) error {
	id, ok := line.commit(pin.Build)
	if !ok {
		p.Notes = append(p.Notes, fmt.Sprintf("%s is not in %s, which ends at %s: its pin is not checked", name, path,
			line.newest.Name))
		return nil
	}
	_, c, err := readCommit(objects, id)
	if err != nil {
		return fmt.Errorf("build %d of %s: %w", pin.Build, path, err)
	}
	p.Checked++
	if c.tree.String() == pin.Tree && tag.MustParse(name).Kind() == tag.Commit {
		p.Notes = append(p.Notes, fmt.Sprintf("%s is not in %s, where build %d is commit %s with the same tree", name, path,
			pin.Build, id))
		return nil
	}
	fault("its commit is not in %s, where build %d is commit %s", path, pin.Build, id)
	return nil
}
