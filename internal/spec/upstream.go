package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/tag"
)

// Names reports whether a release of an upstream can have the name of t.
// ik_llama.cpp has no releases: a bN tag in a clone of it is llama.cpp's, from
// before it was forked or of a remote that was fetched, and N counts other
// commits than its own builds.
func Names(upstream string, t tag.Tag) bool {
	return upstream != IkLlamaCpp || t.Kind() == tag.Commit
}

// WrongUpstream is a release asked of an upstream that is not, or cannot be, its own.
type WrongUpstream struct {
	Upstream string // of which it was asked
	Tag      tag.Tag
	Is       string   // the upstream whose it is; "": not known, only that it is not Upstream's
	Build    int      // there; 0: not known
	Targets  []string // that build Is
	Pinned   []string // commits of Upstream that can be asked for, where Tag is no name of its releases
	Mark     string   // what the tree has that only trees of Is have; "": the tree was not looked at, or has no mark
	Lacks    []string // marks of Upstream, none of which the tree has
	Record   string   // file:line of the entry of tags.lock that says otherwise, or that alone says so; "": there is none
}

// Error says whose it is and what to ask for.
func (e *WrongUpstream) Error() string {
	var b strings.Builder
	switch {
	case len(e.Pinned) > 0:
		fmt.Fprintf(&b, "%s is a name of %s's: %s has no releases, and its builds count other commits", e.Tag, e.Is,
			e.Upstream)
	case e.Is == "":
		fmt.Fprintf(&b, "%s is not %s's: its tree has no %s, which marks one (recipes/sources.toml)", e.Tag, e.Upstream,
			strings.Join(e.Lacks, " and no "))
	case e.Mark != "":
		fmt.Fprintf(&b, "%s is of %s, whose mark %s its tree has, and %s was asked for", e.Tag, e.Is, e.Mark, e.Upstream)
	default:
		fmt.Fprintf(&b, "%s is a commit of %s (build %d there), and %s was asked for", e.Tag, e.Is, e.Build, e.Upstream)
	}
	if e.Is == "" && e.Upstream != LlamaCpp { // which all the others were forked from
		fmt.Fprintf(&b, "; if it is %s's, llpatch fetch %s --upstream %s fetches it; targets that build %s: %s", LlamaCpp,
			e.Tag, LlamaCpp, LlamaCpp, strings.Join(e.Targets, ", "))
	}
	if e.Is != "" {
		fmt.Fprintf(&b, "; llpatch fetch %s --upstream %s fetches it; targets that build %s: %s", e.Tag, e.Is, e.Is,
			strings.Join(e.Targets, ", "))
	}
	if len(e.Pinned) > 0 {
		fmt.Fprintf(&b, "; of %s give a full commit id; recipes/tags.lock has\n  %s", e.Upstream,
			strings.Join(e.Pinned, "\n  "))
	}
	switch {
	case e.Record == "":
	case e.Mark != "" || len(e.Lacks) > 0:
		fmt.Fprintf(&b, "\n%s files it under %s, as an older llpatch did unasked: remove that line", e.Record, e.Upstream)
	default:
		fmt.Fprintf(&b, "\n%s says so; if that is wrong, as an older llpatch could write it, remove that line", e.Record)
	}
	return b.String()
}

// ExitCode is exit.Usage.
func (e *WrongUpstream) ExitCode() int { return exit.Usage }

// Hint says what to do.
func (e *WrongUpstream) Hint() string {
	return "llpatch targets tells which upstream each target builds"
}

// CheckTag refuses a release that is another upstream's than the one asked for,
// by its name or because the lock pins it there. The error is *WrongUpstream.
func (r *Repo) CheckTag(upstream string, t tag.Tag) error {
	if !Names(upstream, t) {
		e := &WrongUpstream{Upstream: upstream, Tag: t, Is: LlamaCpp, Targets: r.targets(LlamaCpp)}
		pins := r.Lock[upstream]
		names := sortedKeys(pins)
		slices.SortStableFunc(names, func(x, y string) int { return pins[x].Build - pins[y].Build })
		for _, name := range names {
			e.Pinned = append(e.Pinned, fmt.Sprintf("%s (build %d)", name, pins[name].Build))
		}
		if len(e.Pinned) == 0 {
			e.Pinned = []string{"none yet"}
		}
		return e
	}
	if t.Kind() != tag.Commit {
		return nil
	}
	for _, other := range sortedKeys(r.Lock) {
		if _, own := r.Lock[upstream][t.String()]; own || other == upstream {
			continue
		}
		for _, name := range sortedKeys(r.Lock[other]) {
			if pin := r.Lock[other][name]; pin.Commit == t.String() {
				return &WrongUpstream{Upstream: upstream, Tag: t, Is: other, Build: pin.Build, Targets: r.targets(other)}
			}
		}
	}
	return nil
}

// targets lists those that build an upstream.
func (r *Repo) targets(upstream string) []string {
	var names []string
	for _, name := range sortedKeys(r.Recipes) {
		if r.Recipes[name].Upstream == upstream {
			names = append(names, name)
		}
	}
	return names
}
