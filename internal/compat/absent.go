package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// absence says why a tag does not have a file.
type absence struct {
	comes string // the first later tag that has it, where no earlier one has
	went  bool   // an earlier tag has it
	moved moved  // what its name was before it came, or is since it went
}

// why words an absence for a patch that wants the file; "" where nothing is known.
func (a absence) why(deletes bool) string {
	wants := "wants a file that "
	if deletes {
		wants = "deletes a file that "
	}
	switch {
	case a.comes != "" && a.moved.To != "":
		return wants + "comes with " + a.comes + ", and is " + a.moved.To + " before"
	case a.comes != "":
		return wants + "comes with " + a.comes
	case a.went:
		return wants + a.moved.what()
	}
	return ""
}

// absences finds out why files are absent. It reads the rows of all tags when it
// is first asked, and is for several goroutines.
type absences struct {
	mu    sync.Mutex
	rows  []row            // of the history's tags
	moves map[string]moved // by path and the commits with it and without
	fresh bool             // moves has what the cache folder lacks
}

// movesName is that of the file in the store.
const movesName = "moves"

// absent says why a build has nothing at a path.
func (j *judge) absent(ctx context.Context, path string, build int) (absence, error) {
	a := &j.absences
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := slices.BinarySearch(j.paths, path)
	if !ok {
		return absence{}, nil
	}
	tags := j.h.Tags
	if a.rows == nil {
		rows, err := j.rows(ctx, tags)
		if err != nil {
			return absence{}, err
		}
		a.rows, a.moves = rows, map[string]moved{}
		_, err = j.store.load(movesName, &a.moves)
		j.note(err)
	}
	last := len(tags) - 1
	for last >= 0 && (tags[last].Build > build || !a.rows[last][at].there()) {
		last--
	}
	out := absence{went: true}
	has, lacks := last, last+1
	if last < 0 {
		has = slices.IndexFunc(a.rows, func(r row) bool { return r[at].there() })
		if has < 0 {
			return absence{}, nil
		}
		out, lacks = absence{comes: tags[has].Name}, has-1
	}
	if lacks < 0 || lacks == len(tags) {
		out.went = false
		return out, nil
	}
	key := fmt.Sprintf("%s %s %q", tags[has].object, tags[lacks].object, path)
	if m, ok := a.moves[key]; ok {
		out.moved = m
		return out, nil
	}
	objects, err := j.h.repo.Objects()
	if err != nil {
		return absence{}, err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	c := &contents{sharedContents: j.files, objects: objects}
	m, err := c.moved(tags[has].object, tags[lacks].object, path, a.rows[has][at].ID)
	if missing := new(source.Missing); errors.As(err, &missing) {
		return out, nil // it may be there next time
	}
	if err != nil {
		return absence{}, err
	}
	a.moves[key], a.fresh = m, true
	out.moved = m
	return out, nil
}

// keepMoves writes what this run found.
func (j *judge) keepMoves() {
	if j.absences.fresh {
		j.note(j.store.save(movesName, j.absences.moves))
	}
}

// deletions corrects an outcome by which files have landed that the unit deletes: one
// that comes later, or has another name now, has not.
func (w *walker) deletions(ctx context.Context, u *unit, build int, out *outcome) (*outcome, error) {
	var later []string
	var findings []Finding
	kept := make([]int, 0, len(out.HeldAt))
	for _, line := range out.HeldAt {
		path := u.removes[line]
		if path == "" {
			kept = append(kept, line)
			continue
		}
		a, err := w.absent(ctx, path, build)
		if err != nil {
			return nil, err
		}
		if a.comes == "" && a.moved.To == "" {
			kept = append(kept, line)
			continue
		}
		if a.comes != "" && a.moved.To == "" {
			later = append(later, path+" comes with "+a.comes)
		}
		findings = append(findings, Finding{File: path, Cause: patch.MissingFile, Why: a.why(true), PatchLine: line})
	}
	if len(findings) == 0 {
		return out, nil
	}
	n := *out
	n.HeldAt, n.Held, n.After = kept, max(0, out.Held-len(findings)), nil
	n.Findings = append(findings, out.Findings...)
	switch {
	case len(later) == out.Changes:
		n.Verdict, n.Why, n.Findings = NotYet, "nothing to delete: "+strings.Join(later, ", "), nil
	case !out.Verdict.unplaced():
		n.Verdict = MissingFile
	default:
		n.Verdict = Conflict
	}
	return &n, nil
}

// explain says of the files that are missing on the first tag of a run where they are.
func (j *judge) explain(ctx context.Context, run *Run, build int) error {
	run.Findings = slices.Clone(run.Findings) // the outcome has others' too
	for i := range run.Findings {
		f := &run.Findings[i]
		if f.Cause != patch.MissingFile || f.Why != "" {
			continue
		}
		a, err := j.absent(ctx, f.File, build)
		if err != nil {
			return err
		}
		f.Why = a.why(false)
	}
	return nil
}
