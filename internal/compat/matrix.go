package compat

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/llpatch/llpatch/internal/patch"
)

// cell is one fix on one tag.
type cell struct {
	verdict Verdict
	chosen  int        // index of the variant that is declared for the tag, -1: none
	each    []*outcome // of every variant, in this fix's place of the stack
	after   string     // an earlier patch of the same files that did not fit either
	reason  string     // why no variant is chosen, or it is not known
	base    string     // what was merged over, where a merge was tried
}

// outcome is the chosen variant's, nil where there is none.
func (c *cell) outcome() *outcome {
	if c.chosen < 0 {
		return nil
	}
	return c.each[c.chosen]
}

// judge is a stack made ready for judging on rows.
type judge struct {
	h        *History
	o        Options
	stack    Stack
	units    [][]*unit // by fix and variant; nil for a variant that is not judged
	all      []*unit
	asked    *asked
	paths    []string
	made     map[string]bool // paths that a patch may create
	parts    [][]int         // fixes that share paths, each in the order of the stack
	files    *sharedContents
	merging  *merging // nil: nothing is merged
	absences absences
	store    *store // nil: nothing is kept
	plain    bool   // only whether it fits counts, and not whether it has landed below another
}

func newJudge(h *History, o Options, s Stack) *judge {
	j := &judge{h: h, o: o, stack: s, files: newSharedContents()}
	for i := range s.Fixes {
		var units []*unit
		for k := range s.Fixes[i].Variants {
			v := &s.Fixes[i].Variants[k]
			var u *unit
			if len(v.Patches) > 0 {
				u = newUnit(v)
				j.all = append(j.all, u)
			}
			units = append(units, u)
		}
		j.units = append(j.units, units)
	}
	j.paths, j.made = pathsOf(j.all)
	j.asked = newAsked(j.paths, j.made)
	j.parts = j.split()
	return j
}

// split groups the fixes that touch a common path, or paths of which one could
// be in the other's way: only those can influence each other.
func (j *judge) split() [][]int {
	lead := make([]int, len(j.units)) // union-find
	for i := range lead {
		lead[i] = i
	}
	find := func(i int) int {
		for lead[i] != i {
			i = lead[i]
		}
		return i
	}
	first := map[string]int{} // by lower-case path, the fix that touches it
	for i, units := range j.units {
		for _, u := range units {
			if u == nil {
				continue
			}
			for _, p := range u.paths {
				p = strings.ToLower(p)
				if k, ok := first[p]; ok {
					lead[find(i)] = find(k)
				} else {
					first[p] = i
				}
			}
		}
	}
	for p, i := range first {
		for k := range p {
			if p[k] != '/' {
				continue
			}
			if other, ok := first[p[:k]]; ok {
				lead[find(i)] = find(other)
			}
		}
	}
	groups := map[int][]int{}
	for i := range j.units {
		groups[find(i)] = append(groups[find(i)], i)
	}
	var out [][]int
	for i := range j.units {
		if find(i) == i {
			out = append(out, groups[i])
		}
	}
	return out
}

// cells judges the stack on every row: out[fix][row].
func (j *judge) cells(ctx context.Context, rows []row, builds []int) ([][]cell, error) {
	j.files.add(rows)
	out := make([][]cell, len(j.units))
	for i := range out {
		out[i] = make([]cell, len(rows))
	}
	type task struct {
		part     []int
		from, to int
	}
	var tasks []task
	for _, part := range j.parts {
		for from, to := range blocks(len(rows), min(2*j.o.workers(), len(rows)/16+1)) {
			tasks = append(tasks, task{part, from, to})
		}
	}
	// The longest first, so that no worker is left with one at the end.
	slices.SortStableFunc(tasks, func(a, b task) int { return cmp.Compare(len(b.part), len(a.part)) })
	var next, done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range j.o.workers() {
		g.Go(func() error {
			objects, err := j.h.repo.Objects()
			if err != nil {
				return err
			}
			defer func() { _ = objects.Release() }() // it was only read from
			w := walker{judge: j, files: &contents{sharedContents: j.files, objects: objects}, memo: patch.NewMemo()}
			for {
				n := int(next.Add(1)) - 1
				if n >= len(tasks) {
					return nil
				}
				t := tasks[n]
				// Newest first: packs hold newer objects whole and older ones as differences.
				for i := t.to - 1; i >= t.from; i-- {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := w.systems(ctx, t.part, rows[i], builds[i], func(fix int) *cell { return &out[fix][i] }); err != nil {
						return err
					}
				}
				j.o.progress("judge patches", int(done.Add(int64((t.to-t.from)*len(t.part)))), len(rows)*len(j.units))
			}
		})
	}
	return out, g.Wait()
}

// walker judges row by row, for one goroutine.
type walker struct {
	*judge
	files *contents
	memo  *patch.Memo // of merges
	state row
	buf   []byte
}

// systems judges the fixes of one part on one row for each system by itself that some of them are
// for: what is for one alone is never in a tree with what is for another. A fix for any system
// has the verdict of the first where it does not fit.
func (w *walker) systems(ctx context.Context, part []int, base row, build int, at func(fix int) *cell) error {
	var names []string
	for _, i := range part {
		names = append(names, w.stack.Fixes[i].OS...)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 2 {
		return w.row(ctx, part, base, build, at)
	}
	seen := map[int]*cell{}
	for _, name := range names {
		mine := slices.DeleteFunc(slices.Clone(part), func(i int) bool {
			systems := w.stack.Fixes[i].OS
			return len(systems) > 0 && !slices.Contains(systems, name)
		})
		cells := map[int]*cell{}
		if err := w.row(ctx, mine, base, build, func(fix int) *cell {
			if cells[fix] == nil {
				cells[fix] = &cell{}
			}
			return cells[fix]
		}); err != nil {
			return err
		}
		for _, i := range mine {
			if seen[i] == nil || !seen[i].verdict.broken() && cells[i].verdict.broken() {
				seen[i] = cells[i]
				*at(i) = *cells[i]
			}
		}
	}
	return nil
}

// row judges the fixes of one part on one row, each on the tree as those before
// it left it.
func (w *walker) row(ctx context.Context, part []int, base row, build int, at func(fix int) *cell) error {
	if err := w.walk(ctx, part, base, build, at, false, nil); err != nil || w.plain {
		return err
	}
	// What does not fit may lie under a later fix that has landed, too.
	conflict, hidden := false, false
	for _, i := range part {
		v := at(i).verdict
		hidden = hidden || conflict && v == Landed
		conflict = conflict || v.unplaced()
	}
	if hidden || conflict && w.merging != nil {
		return w.walk(ctx, part, base, build, at, hidden, w.merging)
	}
	return nil
}

// walk is row; under looks below later fixes for one that does not fit, and m
// merges, where they are set.
func (w *walker) walk(ctx context.Context, part []int, base row, build int, at func(fix int) *cell, under bool,
	m *merging,
) error {
	w.state = append(w.state[:0], base...)
	var failed []int // fixes that did not fit
	for n, i := range part {
		f := &w.stack.Fixes[i]
		c := at(i)
		*c = cell{}
		c.each = make([]*outcome, len(f.Variants))
		c.chosen, c.verdict, c.reason = f.chosen(build)
		var chosen *unit
		for k, u := range w.units[i] {
			if u == nil {
				c.each[k] = &outcome{Verdict: Unknown, Why: "it is an upstream commit that this history does not hold as a patch"}
				continue
			}
			var err error
			if c.each[k], w.buf, err = u.judge(w.state, w.buf, w.files); err != nil {
				return err
			}
			if k == c.chosen {
				chosen = u
			}
		}
		if c.chosen < 0 {
			continue
		}
		got := c.each[c.chosen]
		if under && got.Verdict.unplaced() {
			var err error
			if got, err = w.under(chosen, part[n+1:], build, got); err != nil {
				return err
			}
			c.each[c.chosen] = got
		}
		if m != nil && got.Verdict.unplaced() {
			var err error
			if got, c.base, err = w.merge(ctx, chosen, build, got); err != nil {
				return err
			}
			c.each[c.chosen] = got
		}
		if chosen != nil && len(chosen.removes) > 0 {
			var err error
			if got, err = w.deletions(ctx, chosen, build, got); err != nil {
				return err
			}
			c.each[c.chosen] = got
		}
		c.verdict = got.Verdict
		switch {
		case got.Verdict == Unknown || got.Verdict == NotYet:
			c.reason = got.Why
		case got.Verdict.changes():
			for k, e := range got.After {
				w.state[chosen.at[k]] = e
			}
		case got.Verdict.broken():
			c.after = w.blockedBy(failed, i)
			failed = append(failed, i)
		}
	}
	return nil
}

// blockedBy names the last failed fix that has a variant of the same files.
func (w *walker) blockedBy(failed []int, fix int) string {
	for _, i := range slices.Backward(failed) {
		for _, u := range w.units[i] {
			for _, mine := range w.units[fix] {
				if u != nil && mine != nil && slices.ContainsFunc(mine.paths, func(p string) bool {
					_, ok := slices.BinarySearch(u.paths, p)
					return ok
				}) {
					return w.stack.Fixes[i].ID
				}
			}
		}
	}
	return ""
}

func buildsOf(tags []Tag) []int {
	builds := make([]int, len(tags))
	for i, t := range tags {
		builds[i] = t.Build
	}
	return builds
}
