package patch

import (
	"bytes"
	"fmt"
	"slices"
)

// Causes of a conflict of a merge.
const (
	BothChanged Cause = "both changed" // the patch and the tree change the same or adjoining lines, differently
	// A line of the other side stands among equal lines, before or behind which
	// the change could as well be: git takes the last of them.
	AmongEqual Cause = "among equal lines"
)

// Span is a run of lines of a file.
type Span struct {
	Line  int `json:"line"`  // 1-based; of an empty run, the line that follows it
	Count int `json:"count"` // lines
}

// String returns "12", "12-15", or "before 12" for an empty run.
func (s Span) String() string {
	switch s.Count {
	case 0:
		return fmt.Sprintf("before %d", s.Line)
	case 1:
		return fmt.Sprintf("%d", s.Line)
	}
	return fmt.Sprintf("%d-%d", s.Line, s.Line+s.Count-1)
}

// Side says whose change a region is.
type Side string

// The sides of a merge.
const (
	Ours   Side = "ours"   // the patch's
	Theirs Side = "theirs" // the tree's
	Both   Side = "both"   // both made the same change, or it is a conflict
)

// Region is a part of the base that at least one side changed.
type Region struct {
	Base   Span  `json:"base"`
	Ours   Span  `json:"ours"`
	Theirs Span  `json:"theirs"`
	Merged Span  `json:"merged"` // zero in a conflict
	From   Side  `json:"from"`
	Cause  Cause `json:"cause,omitempty"` // why it is a conflict; empty if it is none
}

// merge3 is a merge being made.
type merge3 struct {
	base, ours, theirs *numbered
	regions            []Region
}

func newMerge(base, ours, theirs []byte) *merge3 {
	var t lineTable
	b, o, n := t.number(base), t.number(ours), t.number(theirs)
	return mergeScripts(b, o, n, diffLines(b.id, o.id), diffLines(b.id, n.id))
}

// mergeScripts merges by the edits that make either side of the base.
func mergeScripts(base, ours, theirs *numbered, toOurs, toTheirs []lineEdit) *merge3 {
	m := &merge3{base: base, ours: ours, theirs: theirs}
	left := script{m.base.id, m.ours.id, toOurs}
	right := script{m.base.id, m.theirs.id, toTheirs}
	grown := [3]int{} // lines by which each side, and the merge, got longer so far
	for i, j := 0, 0; i < len(left.edits) || j < len(right.edits); {
		// A cluster is every edit of either side that touches another of it.
		fromI, fromJ := i, j
		lo, hi := 0, 0
		switch {
		case j == len(right.edits) || i < len(left.edits) && left.edits[i].a0 <= right.edits[j].a0:
			lo, hi = left.edits[i].a0, left.edits[i].a1
			i++
		default:
			lo, hi = right.edits[j].a0, right.edits[j].a1
			j++
		}
		for {
			if i < len(left.edits) && left.edits[i].a0 <= hi && j > fromJ {
				hi = max(hi, left.edits[i].a1)
				i++
			} else if j < len(right.edits) && right.edits[j].a0 <= hi && i > fromI {
				hi = max(hi, right.edits[j].a1)
				j++
			} else {
				break
			}
		}
		m.cluster(left, right, [2]int{fromI, i}, [2]int{fromJ, j}, lo, hi, &grown)
	}
	return m
}

// script is what one side makes of the base.
type script struct {
	base, side []int32
	edits      []lineEdit
}

func (s script) growth(from, to int) int {
	n := 0
	for _, e := range s.edits[from:to] {
		n += (e.b1 - e.b0) - (e.a1 - e.a0)
	}
	return n
}

// crosses reports whether an edit of s[from:to] could be moved over an edit of
// other, and would then give other lines.
func (s script) crosses(from, to int, other script, near int) bool {
	for k := from; k < to; k++ {
		up, down := slack(s.base, s.side, s.edits, k)
		if up == 0 && down == 0 {
			continue
		}
		e := s.edits[k]
		for n := near - 1; n >= 0 && other.edits[n].a1 > e.a0-up; n-- {
			if other.edits[n].a0 < e.a0 {
				return true
			}
		}
		for n := near; n < len(other.edits) && other.edits[n].a0 < e.a1+down; n++ {
			if other.edits[n].a1 > e.a1 {
				return true
			}
		}
	}
	return false
}

// cluster makes one region of the edits i of the left and j of the right.
func (m *merge3) cluster(left, right script, i, j [2]int, lo, hi int, grown *[3]int) {
	r := Region{Base: span(lo, hi)}
	l, t := left.growth(i[0], i[1]), right.growth(j[0], j[1])
	r.Ours = span(lo+grown[0], hi+grown[0]+l)
	r.Theirs = span(lo+grown[1], hi+grown[1]+t)
	grown[0] += l
	grown[1] += t
	takes := r.Ours
	switch {
	case j[0] == j[1]:
		r.From = Ours
		if left.crosses(i[0], i[1], right, j[0]) {
			r.Cause = AmongEqual
		}
	case i[0] == i[1]:
		r.From, takes = Theirs, r.Theirs
		if right.crosses(j[0], j[1], left, i[0]) {
			r.Cause = AmongEqual
		}
	default:
		r.From = Both
		if !slices.Equal(r.Ours.of(m.ours.id), r.Theirs.of(m.theirs.id)) {
			r.Cause = BothChanged
		}
	}
	if r.Cause == "" {
		r.Merged = span(lo+grown[2], lo+grown[2]+takes.Count)
	}
	grown[2] += takes.Count - (hi - lo)
	m.regions = append(m.regions, r)
}

func span(from, to int) Span { return Span{Line: from + 1, Count: to - from} }

func (s Span) of(id []int32) []int32 { return id[s.Line-1 : s.Line-1+s.Count] }

func (s Span) bytes(f *numbered) []byte { return f.slice(s.Line-1, s.Line-1+s.Count) }

func (s Span) lines(f *numbered) []string { return f.lines(s.Line-1, s.Line-1+s.Count) }

// bytes returns the merge; of a conflict, ours.
func (m *merge3) bytes() []byte {
	var out bytes.Buffer
	out.Grow(max(len(m.ours.data), len(m.theirs.data)))
	at := 0
	for _, r := range m.regions {
		out.Write(m.base.slice(at, r.Base.Line-1))
		if r.From == Theirs {
			out.Write(r.Theirs.bytes(m.theirs))
		} else {
			out.Write(r.Ours.bytes(m.ours))
		}
		at = r.Base.Line - 1 + r.Base.Count
	}
	out.Write(m.base.slice(at, m.base.count()))
	return out.Bytes()
}
