package compat

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// Report says how every fix of a stack stands to every tag.
type Report struct {
	Stack  string   `json:"stack"`
	Source string   `json:"source"`
	Tags   []Tag    `json:"tags"`
	Left   []string `json:"left,omitempty"` // tags left out: their build number is not known
	Fixes  []Status `json:"fixes"`
	// Newest is the newest tag on which every fix fits or has landed, or the defect
	// is not there or the target's; "" where there is none.
	Newest string `json:"newest_where_all_fits,omitempty"`
	// NewestBut is Newest if those count of which only a hunk is ambiguous, and git
	// apply would place it; "" where it is Newest itself.
	NewestBut string `json:"newest_where_all_fits_but_for_ambiguity,omitempty"`
	// Most is the newest of the tags on which the most fixes do, and MostFit how many.
	Most    string `json:"newest_where_most_fit"`
	MostFit int    `json:"most_fit"`
	// ThreeWay says that patches were merged, and NewestMerged is Newest if those
	// count that merge.
	ThreeWay     bool   `json:"three_way,omitempty"`
	NewestMerged string `json:"newest_where_all_fits_or_merges,omitempty"`
	// Judged counts the cells, Applied how many patches were really applied for them.
	Judged  int `json:"cells"`
	Applied int `json:"applied"`
	// Security are lines about known security defects, which the caller fills in.
	Security []string `json:"security,omitempty"`
}

// Status is one fix over all tags.
type Status struct {
	Fix      string       `json:"fix"`
	Summary  string       `json:"summary,omitempty"`
	Defect   *spec.Defect `json:"defect,omitempty"` // nil: nothing is declared of it
	Runs     []Run        `json:"runs"`             // together they cover all tags, in order
	Variants []Proof      `json:"variants"`
	verdicts []Verdict    // by tag
}

// Proof compares the tags that a variant is declared for with those it fits.
type Proof struct {
	Patch    string `json:"patch"`
	Declared string `json:"declared,omitempty"` // "": every tag
	Fits     []Span `json:"fits"`               // where its patch really changes the tree, in its fix's place of the stack
	Fails    []Span `json:"fails,omitempty"`    // declared, and neither fits by itself nor has landed
	Merges   []Span `json:"merges,omitempty"`   // those of Fails where a merge is clean
	Beyond   []Span `json:"beyond,omitempty"`   // fits, and is not declared
}

// Span is a row of neighbouring tags.
type Span struct {
	From string `json:"from"`
	To   string `json:"to"`
	Tags int    `json:"tags"`
}

// String returns "b1..b9", or one name.
func (s Span) String() string {
	if s.From == s.To {
		return s.From
	}
	return s.From + ".." + s.To
}

// Status judges every fix of the stack on each of the tags. The error is
// *source.Mismatch where one of them is not the commit that the lock pins: it moved,
// or it is another upstream's.
func (h *History) Status(ctx context.Context, o Options, s Stack, tags []Tag) (*Report, error) {
	if err := h.trusted(tags); err != nil {
		return nil, err
	}
	s, err := h.backports(ctx, o, s)
	if err != nil {
		return nil, err
	}
	j := newJudge(h, o, s)
	if o.ThreeWay != nil {
		j.merging = newMerging(o.ThreeWay)
	}
	cells, err := j.run(ctx, tags)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Stack: patch.Printable(s.Name), Source: h.Path, Tags: tags, Left: h.Left,
		Judged: len(tags) * len(s.Fixes), ThreeWay: o.ThreeWay != nil,
	}
	for _, u := range j.all {
		r.Applied += len(u.known)
	}
	good, merged, but := make([]int, len(tags)), make([]int, len(tags)), make([]int, len(tags)) // fixes, by tag
	for i := range s.Fixes {
		st := status(&s.Fixes[i], tags, cells[i])
		for k, v := range st.verdicts {
			if v.good() {
				good[k]++
			}
			if v == Merged {
				merged[k]++
			}
			if v == Ambiguous {
				but[k]++
			}
		}
		for k := range st.Runs {
			if err := j.explain(ctx, &st.Runs[k], tags[st.Runs[k].first].Build); err != nil {
				return nil, err
			}
		}
		r.Fixes = append(r.Fixes, st)
	}
	j.keepMoves()
	for i, t := range tags {
		if good[i] == len(s.Fixes) {
			r.Newest, r.NewestBut = t.Name, ""
		} else if good[i]+but[i] == len(s.Fixes) {
			r.NewestBut = t.Name
		}
		if r.ThreeWay && good[i]+merged[i] == len(s.Fixes) {
			r.NewestMerged = t.Name
		}
		if good[i] >= r.MostFit {
			r.Most, r.MostFit = t.Name, good[i]
		}
	}
	return r, j.landed(ctx, r, tags, cells)
}

// run reads the tags' rows and judges them, with what earlier runs kept.
func (j *judge) run(ctx context.Context, tags []Tag) ([][]cell, error) {
	st, err := openStore(j.o.Cache)
	j.note(err)
	j.store = st
	for _, u := range j.all {
		j.note(u.restore(st))
	}
	rows, err := j.rows(ctx, tags)
	if err != nil {
		return nil, err
	}
	if j.merging != nil {
		j.files.add(rows)
		if err := j.findBases(ctx); err != nil {
			return nil, err
		}
		for _, u := range j.all {
			j.note(u.restoreMerges(st, j.merging))
		}
	}
	return j.judged(ctx, rows, tags)
}

// more judges tags after run, with what that knows.
func (j *judge) more(ctx context.Context, tags []Tag) ([][]cell, error) {
	rows, err := j.rows(ctx, tags)
	if err != nil {
		return nil, err
	}
	return j.judged(ctx, rows, tags)
}

// judged judges the rows of tags and keeps what was found.
func (j *judge) judged(ctx context.Context, rows []row, tags []Tag) ([][]cell, error) {
	cells, err := j.cells(ctx, rows, buildsOf(tags))
	if err != nil {
		return nil, err
	}
	for _, u := range j.all {
		j.note(u.keep(j.store))
		if j.merging != nil {
			j.note(u.keepMerges(j.store, j.merging))
		}
	}
	return cells, nil
}

// note tells of trouble with the cache, which only saves time: it must not stop
// the answer.
func (j *judge) note(err error) {
	if err != nil {
		j.o.log().Warn("verdicts of earlier runs are not used or not kept", "error", err)
	}
}

// rows returns the tags' rows, from the store or from the repository.
func (j *judge) rows(ctx context.Context, tags []Tag) ([]row, error) {
	name := rowsName(j.paths, j.made)
	var kept keptRows
	_, err := j.store.load(name, &kept)
	j.note(err)
	rows := make([]row, len(tags))
	var lack []plumbing.Hash
	var at []int
	for i, t := range tags {
		r, ok := kept.row(t.object, len(j.paths))
		if !ok {
			lack, at = append(lack, t.object), append(at, i)
			continue
		}
		rows[i] = r
	}
	if len(lack) == 0 {
		return rows, nil
	}
	fresh, err := j.h.readRows(ctx, j.o, j.asked, len(j.paths), lack)
	if err != nil {
		return nil, err
	}
	all := map[plumbing.Hash]row{}
	for id := range kept.Rows {
		if r, ok := kept.row(id, len(j.paths)); ok {
			all[id] = r
		}
	}
	for k, i := range at {
		rows[i], all[tags[i].object] = fresh[k], fresh[k]
	}
	j.note(j.store.save(name, keepRows(all)))
	return rows, nil
}

func status(f *Fix, tags []Tag, cells []cell) Status {
	st := Status{Fix: patch.Printable(f.ID), Summary: patch.Printable(f.Summary), verdicts: make([]Verdict, len(tags))}
	if f.Defect.Since > 0 {
		st.Defect = &f.Defect
	}
	for i := range cells {
		c := &cells[i]
		st.verdicts[i] = c.verdict
		if n := len(st.Runs); n > 0 && sameCell(&cells[i-1], c) {
			st.Runs[n-1].last, st.Runs[n-1].To = i, tags[i].Name
			st.Runs[n-1].Tags++
			continue
		}
		st.Runs = append(st.Runs, newRun(f, tags, i, c))
	}
	for k := range f.Variants {
		st.Variants = append(st.Variants, prove(&f.Variants[k], tags, func(i int) *outcome { return cells[i].each[k] },
			func(i int) bool { return cells[i].chosen == k }))
	}
	return st
}

// sameCell reports whether two tags need not be told apart.
func sameCell(a, b *cell) bool {
	if a.verdict != b.verdict || a.chosen != b.chosen || a.after != b.after || a.reason != b.reason || a.base != b.base {
		return false
	}
	x, y := a.outcome(), b.outcome()
	if x == nil || x == y {
		return x == y
	}
	if x.Offset != y.Offset || x.Held != y.Held || len(x.Findings) != len(y.Findings) ||
		!slices.Equal(x.HeldAt, y.HeldAt) || !sameMerge(x.Merge, y.Merge) {
		return false
	}
	for i := range x.Findings {
		f, g := &x.Findings[i], &y.Findings[i]
		if f.File != g.File || f.Hunk != g.Hunk || f.Line != g.Line || f.Cause != g.Cause || f.Why != g.Why ||
			!slices.Equal(f.Places, g.Places) {
			return false
		}
	}
	return true
}

func sameMerge(a, b *Merge) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Why == b.Why && slices.Equal(a.Files, b.Files)
}

func newRun(f *Fix, tags []Tag, i int, c *cell) Run {
	r := Run{
		From: tags[i].Name, To: tags[i].Name, Tags: 1, Verdict: c.verdict, After: c.after, Reason: c.reason,
		first: i, last: i,
	}
	out := c.outcome()
	if out == nil {
		return r
	}
	v := &f.Variants[c.chosen]
	r.fix, r.variant = f.ID, v
	r.Patch = patch.Printable(v.File)
	r.Offset, r.Changes, r.Held, r.Findings = out.Offset, out.Changes, out.Held, out.Findings
	if out.Merge != nil {
		m := *out.Merge
		m.Base = c.base
		r.Merge = &m
	}
	return r
}

// targeted reports whether the report is about one target.
func (r *Report) targeted() bool {
	return slices.ContainsFunc(r.Fixes, func(st Status) bool { return slices.Contains(st.verdicts, NotForTarget) })
}

// defect says from where on the fix's defect is there, and which parts of it upstream cured.
func (st *Status) defect() []string {
	if st.Defect == nil {
		return nil
	}
	lines := []string{"the defect came with " + st.Defect.String()}
	for _, c := range st.Defect.Partly {
		lines = append(lines, "a part was cured in "+c.String())
	}
	return lines
}

// prove finds where a variant fits, and how that differs from what is declared.
func prove(v *Variant, tags []Tag, at func(i int) *outcome, chosen func(i int) bool) Proof {
	p := Proof{Patch: patch.Printable(v.File), Declared: v.Range.String()}
	spans := func(in func(i int) bool) []Span {
		var out []Span
		open := false
		for i := range tags {
			switch {
			case !in(i):
				open = false
			case open:
				s := &out[len(out)-1]
				s.To = tags[i].Name
				s.Tags++
			default:
				out = append(out, Span{tags[i].Name, tags[i].Name, 1})
				open = true
			}
		}
		return out
	}
	fits := func(i int) bool { return at(i).Verdict.Fits() }
	p.Fits = spans(fits)
	p.Fails = spans(func(i int) bool { return chosen(i) && at(i).Verdict.broken() })
	p.Merges = spans(func(i int) bool { return chosen(i) && at(i).Verdict == Merged })
	p.Beyond = spans(func(i int) bool { return !v.declared(tags[i].Build) && fits(i) })
	return p
}
