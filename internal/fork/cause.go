package fork

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
)

// Cause is a commit of upstream's that changed what a patch wants.
type Cause struct {
	File    string `json:"file"`
	Commit  string `json:"commit"`
	Subject string `json:"subject"`
	Pull    int    `json:"pull_request,omitempty"`
}

func newCause(file, id, subject string) Cause {
	k := Cause{File: file, Commit: id, Subject: subject}
	if m := pullRequest.FindStringSubmatch(subject); m != nil {
		k.Pull, _ = strconv.Atoi(m[1]) // digits, as the expression says
	}
	return k
}

// most is how many commits are named for one conflict.
const most = 3

var pullRequest = regexp.MustCompile(`\(#([0-9]{1,9})\)\s*$`)

// causes finds the commits between two of upstream's that changed the lines that conflicts are
// about. Where the history is not here there are none.
func (r *Repo) causes(ctx context.Context, from, to string, conflicts []*patch.Conflict) []Cause {
	var out []Cause
	for _, c := range conflicts {
		lines, err := r.changedLines(ctx, from, to, c)
		if err != nil {
			r.Log.Debug("what upstream changed is not known", "file", c.File, "error", said(err))
			continue
		}
		for line := range strings.Lines(lines) {
			id, subject, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if !ok || slices.ContainsFunc(out, func(k Cause) bool { return k.Commit == id && k.File == c.File }) {
				continue
			}
			out = append(out, newCause(c.File, id, subject))
		}
	}
	return out
}

// changedLines lists the commits that changed the place of a conflict, the last first.
func (r *Repo) changedLines(ctx context.Context, from, to string, c *patch.Conflict) (string, error) {
	log := []string{"log", "--no-color", fmt.Sprintf("--max-count=%d", most), "--format=%H%x09%s"}
	text, err := r.feed(ctx, nil, "cat-file", "blob", to+":"+c.File)
	if failed(err) { // upstream moved or deleted it
		return r.git(ctx, append(log, "--diff-filter=DR", from+".."+to, "--", c.File)...)
	}
	if err != nil {
		return "", err
	}
	first, last := placeOf(strings.Split(string(text), "\n"), c)
	return r.git(ctx, append(log, "-s", fmt.Sprintf("-L%d,%d:%s", first, last, c.File), from+".."+to)...)
}

// placeOf finds the lines of upstream's file that a conflict is about: its own are counted in
// a file that has earlier fixes in it, too.
func placeOf(lines []string, c *patch.Conflict) (first, last int) {
	n := max(len(c.Got), len(c.Want), 1)
	first = max(c.Line, 1)
	best := -1
	for _, got := range c.Got {
		got = strings.TrimSuffix(got, "\n")
		if len(strings.TrimSpace(got)) < 4 {
			continue
		}
		for i, l := range lines {
			if l == got && (best < 0 || abs(i+1-first) < abs(best-first)) {
				best = i + 1
			}
		}
		break
	}
	if best > 0 {
		first = best
	}
	first = min(first, len(lines))
	return max(1, first-1), max(1, min(first+n, len(lines)-1))
}

func abs(n int) int { return max(n, -n) }
