package fork

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
)

// NotAlone is a commit that does not fit a tag, with the commits that it builds on.
type NotAlone struct {
	Commit    Commit
	Tag       string
	Conflicts []*patch.Conflict
	Needs     []Cause
	next      string // what to do
}

// Error shows what does not fit, and which commits made what is missing.
func (e *NotAlone) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s does not fit %s, and nothing was changed", e.Commit.short(), e.Tag)
	for _, c := range e.Conflicts {
		fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(c.Error(), "\n", "\n  "))
	}
	for _, n := range e.Needs {
		fmt.Fprintf(&b, "\n  it builds on %.12s %s (%s), which %s does not have", n.Commit, n.Subject, n.File, e.Tag)
	}
	return b.String()
}

// ExitCode is exit.Conflict.
func (e *NotAlone) ExitCode() int { return exit.Conflict }

// Hint names what to take before it.
func (e *NotAlone) Hint() string { return e.next }

// notAlone is the error of a commit, with what it needs and what to do.
func (r *Repo) notAlone(e *NotAlone) *NotAlone {
	if len(e.Needs) == 0 {
		e.next = r.command("cherry-pick", "-x", e.Commit.ID[:12]) + " on the branch, and solve it by hand"
		return e
	}
	argv := []string{"fork", "backport"}
	for _, n := range e.Needs {
		if id := n.Commit[:12]; !slices.Contains(argv, id) {
			argv = append(argv, id)
		}
	}
	e.next = r.llpatch(append(argv, e.Commit.ID[:12], "--to", e.Tag)...) + " takes those before it"
	return e
}

var hunkHead = regexp.MustCompile(`^@@ -([0-9]+)(?:,([0-9]+))? `)

// needs finds the commits that made the lines which a commit changes or stands beside, and that
// a release does not have. Where the history is not here there are none.
func (r *Repo) needs(ctx context.Context, c Commit, release string, conflicts []*patch.Conflict) []Cause {
	later, err := r.git(ctx, "rev-list", "--reverse", release+".."+c.Parents[0])
	if err != nil {
		return nil
	}
	order := strings.Fields(later)
	var found []Cause
	add := func(id, file string) {
		if slices.Contains(order, id) && !slices.ContainsFunc(found, func(k Cause) bool { return k.Commit == id }) {
			found = append(found, Cause{File: file, Commit: id})
		}
	}
	diff, err := r.diff(ctx, c.Parents[0], c.ID)
	if err != nil {
		return nil
	}
	file, hunk := "", 0
	for line := range strings.Lines(string(diff)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "--- a/"); ok {
			file, hunk = name, 0
		}
		m := hunkHead.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		hunk++
		for _, k := range conflicts {
			if k.File != file || k.Hunk > 0 && k.Hunk != hunk {
				continue
			}
			if k.Kind == patch.MissingFile {
				if id, err := r.git(ctx, "log", "-n1", "--diff-filter=A", "--format=%H", c.Parents[0], "--", file); err == nil {
					add(id, file)
				}
			}
			first, _ := strconv.Atoi(m[1]) // digits, as the expression says
			n := 1
			if m[2] != "" {
				n, _ = strconv.Atoi(m[2])
			}
			out, err := r.git(ctx, "blame", "-l", "-s", fmt.Sprintf("-L%d,+%d", max(first, 1), max(n, 1)), c.Parents[0], "--",
				file)
			if err != nil {
				break
			}
			for l := range strings.Lines(out) {
				id, _, _ := strings.Cut(l, " ")
				add(id, file)
			}
			break
		}
	}
	slices.SortFunc(found, func(a, b Cause) int { return slices.Index(order, a.Commit) - slices.Index(order, b.Commit) })
	for i, k := range found {
		subject, err := r.git(ctx, "show", "-s", "--format=%s", k.Commit)
		if err != nil {
			return nil
		}
		found[i] = newCause(k.File, k.Commit, subject)
	}
	return found
}
