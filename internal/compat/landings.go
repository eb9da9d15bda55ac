package compat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// Landing is where a hunk, or a change of a whole file, came into upstream.
type Landing struct {
	File      string `json:"file"`
	Hunk      int    `json:"hunk,omitempty"` // 1-based, 0: the whole file
	PatchLine int    `json:"patch_line"`     // where it begins in the patch file
	// Since is the first tag from which on upstream is seen to have it without a
	// break: below changes that are not of the stack, it is not seen. The
	// rest is about the commit that brought it, and empty where the history does
	// not tell: it begins later, or its tags are not on one line.
	Since   string `json:"since"`
	Commit  string `json:"commit,omitempty"`
	Subject string `json:"subject,omitempty"`
	Build   int    `json:"build,omitempty"`        // of the commit
	Pull    int    `json:"pull_request,omitempty"` // 0: the subject names none
}

// origin names tag and commit: "since b8, by 0123456789ab take it (#7)".
func (l *Landing) origin() string {
	s := "since " + l.Since
	if l.Commit != "" {
		s += fmt.Sprintf(", by %.12s %s", l.Commit, l.Subject)
	}
	return patch.Printable(s)
}

// Landings writes where the changes came from, a line each; in one line if they
// are the whole patch and came together.
func Landings(all []Landing, whole bool) []string {
	if len(all) == 0 {
		return nil
	}
	if whole && !slices.ContainsFunc(all, func(l Landing) bool {
		return l.Since != all[0].Since || l.Commit != all[0].Commit
	}) {
		return []string{all[0].origin()}
	}
	var out []string
	for i := range all {
		l := &all[i]
		what := l.File
		if l.Hunk > 0 {
			what += fmt.Sprintf(": hunk %d", l.Hunk)
		}
		out = append(out, patch.Printable(what)+": "+l.origin())
	}
	return out
}

// landings finds where changes of the judge's variants came into upstream.
type landings struct {
	*judge
	tags    []Tag // all of the history
	cells   [][]cell
	objects *source.Objects // nil until a commit is looked for
	reader  *rowReader
	w       walker
	at      map[plumbing.Hash]map[int]*cell // by commit and fix
	kept    map[string]keptLanding
	fresh   bool
}

// keptLanding is the commit that brought a change.
type keptLanding struct {
	Commit, Subject string
	Build           int
}

// newLandings makes one from the cells of all tags of the history. Close it.
func (j *judge) newLandings(cells [][]cell) *landings {
	l := &landings{
		judge: j, tags: j.h.Tags, cells: cells,
		at: map[plumbing.Hash]map[int]*cell{}, kept: map[string]keptLanding{},
	}
	_, err := j.store.load(l.name(), &l.kept)
	j.note(err)
	return l
}

// open opens the repository's objects, which a run that finds all in the store
// does not need.
func (l *landings) open() error {
	if l.objects != nil {
		return nil
	}
	objects, err := l.h.repo.Objects()
	if err != nil {
		return err
	}
	l.objects = objects
	l.reader = newRowReader(objects, l.asked, len(l.paths))
	l.w = walker{judge: l.judge, files: &contents{sharedContents: l.files, objects: objects}, memo: patch.NewMemo()}
	return nil
}

func (l *landings) close() {
	if l.fresh {
		l.note(l.store.save(l.name(), l.kept))
	}
	if l.objects != nil {
		_ = l.objects.Release() // it was only read from
	}
}

// name is that of the file in the store: what is found depends on the whole stack.
func (l *landings) name() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "merging %v\n", l.merging != nil) // a hash takes everything
	for i := range l.stack.Fixes {
		f := &l.stack.Fixes[i]
		_, _ = fmt.Fprintf(h, "fix %q %d %d %q\n", f.ID, f.Defect.Since, f.Defect.FixedIn, f.Not)
		for k := range f.Variants {
			digest := ""
			if u := l.units[i][k]; u != nil {
				digest = u.digest
			}
			_, _ = fmt.Fprintf(h, "variant %q %s\n", f.Variants[k].Range, digest)
		}
	}
	return "landed-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// held reports whether a variant's change at a line of its patch file is in
// upstream at a tag, and whether that is known.
func (l *landings) held(fix, variant, tag, line int) (held, known bool) {
	out := l.cells[fix][tag].each[variant]
	return slices.Contains(out.HeldAt, line), out.Verdict != Unknown
}

// of returns where the changes of a variant that upstream has at a tag came from.
func (l *landings) of(ctx context.Context, fix, variant, tag int) ([]Landing, error) {
	v := &l.stack.Fixes[fix].Variants[variant]
	var out []Landing
	for _, line := range l.cells[fix][tag].each[variant].HeldAt {
		first, before := tag, -1
		for n := tag - 1; n >= 0; n-- {
			held, known := l.held(fix, variant, n, line)
			if held {
				first = n
			} else if known {
				before = n
				break
			}
		}
		one := Landing{PatchLine: line, Since: l.tags[first].Name}
		one.File, one.Hunk = patch.At(v.Patches, line)
		if before >= 0 {
			c, err := l.commit(ctx, fix, variant, line, l.tags[before], l.tags[first])
			if err != nil {
				return nil, fmt.Errorf("where %s landed between %s and %s: %w", v.File, l.tags[before].Name, one.Since, err)
			}
			one.Commit, one.Subject, one.Build, one.Pull = c.Commit, c.Subject, c.Build, pull(c.Subject)
		}
		out = append(out, one)
	}
	return out, nil
}

// commit halves the way between a tag that lacks a change and one that has it.
func (l *landings) commit(ctx context.Context, fix, variant, line int, lacks, has Tag) (keptLanding, error) {
	key := fmt.Sprintf("%d %d %d %s %s", fix, variant, line, lacks.object, has.object)
	if c, ok := l.kept[key]; ok {
		return c, nil
	}
	if err := l.open(); err != nil {
		return keptLanding{}, err
	}
	way, err := l.way(ctx, lacks, has)
	// A history that does not tell may do so next time.
	if missing := new(source.Missing); errors.Is(err, errNotOnWay) || errors.As(err, &missing) {
		return keptLanding{}, nil
	}
	if err != nil {
		return keptLanding{}, err
	}
	var judging error
	// Neighbouring tags are one commit apart, mostly: then there is nothing to judge.
	n, _ := slices.BinarySearchFunc(way[:len(way)-1], true, func(id plumbing.Hash, _ bool) int {
		c, err := l.cell(ctx, fix, id, has.Build)
		if err != nil || slices.Contains(c.each[variant].HeldAt, line) {
			judging = cmp.Or(judging, err)
			return 1
		}
		return -1
	})
	if judging != nil {
		if missing := new(source.Missing); errors.As(judging, &missing) {
			return keptLanding{}, nil
		}
		return keptLanding{}, judging
	}
	_, c, err := readCommit(l.objects, way[n])
	if err != nil {
		return keptLanding{}, err
	}
	found := keptLanding{Commit: way[n].String(), Subject: c.subject, Build: has.Build - len(way) + n + 1}
	l.kept[key], l.fresh = found, true
	return found, nil
}

// way returns the commits from one tag to a later one, without the first, the
// oldest first.
func (l *landings) way(ctx context.Context, from, to Tag) ([]plumbing.Hash, error) {
	a, _, err := readCommit(l.objects, from.object)
	if err != nil {
		return nil, err
	}
	b, _, err := readCommit(l.objects, to.object)
	if err != nil {
		return nil, err
	}
	way, err := l.h.firstParents(ctx, l.objects, a, b)
	if err == nil && len(way) == 0 {
		return nil, errNotOnWay // two tags of one commit
	}
	slices.Reverse(way)
	return way, err
}

// cell judges a fix on a commit, in its place of the stack.
func (l *landings) cell(ctx context.Context, fix int, id plumbing.Hash, build int) (*cell, error) {
	if c := l.at[id][fix]; c != nil {
		return c, nil
	}
	r, err := l.reader.row(id)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(l.parts, func(part []int) bool { return slices.Contains(part, fix) })
	if l.at[id] == nil {
		l.at[id] = map[int]*cell{}
	}
	for _, i := range l.parts[at] {
		l.at[id][i] = &cell{}
	}
	if err := l.w.row(ctx, l.parts[at], r, build, func(fix int) *cell { return l.at[id][fix] }); err != nil {
		delete(l.at, id)
		return nil, err
	}
	return l.at[id][fix], nil
}

// landed adds to the runs of a report where upstream's part of them came from.
func (j *judge) landed(ctx context.Context, r *Report, tags []Tag, cells [][]cell) error {
	has := func(run *Run) bool { return (run.Verdict == Landed || run.Verdict == Partly) && run.variant != nil }
	if !slices.ContainsFunc(r.Fixes, func(st Status) bool {
		return slices.ContainsFunc(st.Runs, func(run Run) bool { return has(&run) })
	}) {
		return nil
	}
	all, err := j.allCells(ctx, tags, cells)
	if err != nil {
		return err
	}
	l := j.newLandings(all)
	defer l.close()
	for i := range r.Fixes {
		for k := range r.Fixes[i].Runs {
			run := &r.Fixes[i].Runs[k]
			if !has(run) {
				continue
			}
			// The requested tags are neighbours in the history.
			at := slices.IndexFunc(l.tags, func(t Tag) bool { return t.Name == run.From })
			if run.Landed, err = l.of(ctx, i, cells[i][run.first].chosen, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// allCells returns the cells of all tags of the history, given those of some.
func (j *judge) allCells(ctx context.Context, tags []Tag, cells [][]cell) ([][]cell, error) {
	if len(tags) == len(j.h.Tags) {
		return cells, nil
	}
	return j.more(ctx, j.h.Tags)
}
