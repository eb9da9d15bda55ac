package patch

import (
	"bytes"
	"slices"
)

// lineEdit says that the lines [a0,a1) of one file stand as [b0,b1) in the other.
// Lines are 0-based; one of the two runs may be empty.
type lineEdit struct{ a0, a1, b0, b1 int }

// lineTable gives equal lines equal numbers, over all files that it has seen.
type lineTable struct {
	ids map[string]int32
}

// numbered is a file as the numbers of its lines. A last line without a newline
// is another line than the same text with one.
type numbered struct {
	data []byte
	ends []int // offset behind each line
	id   []int32
}

func (t *lineTable) number(data []byte) *numbered {
	if t.ids == nil {
		t.ids = make(map[string]int32, bytes.Count(data, []byte("\n"))+1)
	}
	n := bytes.Count(data, []byte("\n")) + 1
	f := &numbered{data: data, ends: make([]int, 0, n), id: make([]int32, 0, n)}
	for pos := 0; pos < len(data); {
		end := lineEnd(data, pos)
		id, ok := t.ids[string(data[pos:end])]
		if !ok {
			id = int32(len(t.ids))
			t.ids[string(data[pos:end])] = id
		}
		f.ends = append(f.ends, end)
		f.id = append(f.id, id)
		pos = end
	}
	return f
}

func (f *numbered) count() int { return len(f.id) }

// slice returns the bytes of the lines [from,to).
func (f *numbered) slice(from, to int) []byte {
	start, end := 0, 0
	if from > 0 {
		start = f.ends[from-1]
	}
	if to > 0 {
		end = f.ends[to-1]
	}
	return f.data[start:end]
}

// lines returns a copy of the lines [from,to).
func (f *numbered) lines(from, to int) []string {
	out := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, string(f.slice(i, i+1)))
	}
	return out
}

// diffLines returns the edits that make b of a, in order and with at least one
// common line between two of them. It is the algorithm of E. Myers, "An O(ND)
// Difference Algorithm and Its Variations" (1986), section 4b, in linear space;
// ties, the lines left out of it and the place of an edit among equal lines
// follow git, so that a merge over these edits meets the conflicts that git
// meets. Where the files differ much it gives up on the shortest edits, so its
// time stays near (lines × splitCost).
func diffLines(a, b []int32) []lineEdit {
	d := differ{goneA: make([]bool, len(a)), goneB: make([]bool, len(b))}
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	endA, endB := len(a)-tail, len(b)-tail
	if head < endA && head < endB {
		d.lineA, d.a = worthwhile(a, b, head, endA, d.goneA)
		d.lineB, d.b = worthwhile(b, a, head, endB, d.goneB)
		d.compare()
	} else {
		fill(d.goneA[head:endA])
		fill(d.goneB[head:endB])
	}
	settle(a, d.goneA, gaps(d.goneB))
	settle(b, d.goneB, gaps(d.goneA))
	return edits(d.goneA, d.goneB)
}

func fill(b []bool) {
	for i := range b {
		b[i] = true
	}
}

// edits lists the runs of changed lines.
func edits(goneA, goneB []bool) []lineEdit {
	var out []lineEdit
	i, j := 0, 0
	for i < len(goneA) || j < len(goneB) {
		e := lineEdit{a0: i, b0: j}
		for i < len(goneA) && goneA[i] {
			i++
		}
		for j < len(goneB) && goneB[j] {
			j++
		}
		if i > e.a0 || j > e.b0 {
			e.a1, e.b1 = i, j
			out = append(out, e)
			continue
		}
		i, j = i+1, j+1
	}
	return out
}

// worthwhile returns the lines of a[from:to] that are worth comparing, by place
// and number, and marks the others as changed: a line that the other file does
// not have, and one that stands there so often that among changed lines its
// match would say nothing (as GNU diff and git do).
func worthwhile(a, b []int32, from, to int, gone []bool) (line []int, id []int32) {
	times := make([]int32, 1+max(slices.Max(a), slices.Max(b))) // in b, by number
	for _, x := range b {
		times[x]++
	}
	const none, some, many = 0, 1, 2
	const mostOften = 1024
	often := min(roughRoot(len(a)), mostOften)
	kind := make([]byte, to-from)
	for i, x := range a[from:to] {
		switch n := int(times[x]); {
		case n >= often:
			kind[i] = many
		case n > 0:
			kind[i] = some
		}
	}
	// stray reports whether a frequent line stands inside a run of lines
	// without a match, and less than a quarter of the run is frequent ones.
	stray := func(i int) bool {
		const window = 100
		unmatched, frequent := 0, 2
		for _, step := range []int{-1, 1} {
			before := unmatched
			for n, k := 0, i+step; n < window && k >= 0 && k < len(kind) && kind[k] != some; n, k = n+1, k+step {
				if kind[k] == none {
					unmatched++
				} else {
					frequent++
				}
			}
			if unmatched == before {
				return false
			}
		}
		return 4*frequent < frequent+unmatched
	}
	line, id = make([]int, 0, to-from), make([]int32, 0, to-from)
	for i, k := range kind {
		if k == some || k == many && !stray(i) {
			line = append(line, from+i)
			id = append(id, a[from+i])
		} else {
			gone[from+i] = true
		}
	}
	return line, id
}

// roughRoot returns a power of two near the square root.
func roughRoot(n int) int {
	root := 1
	for ; n > 0; n >>= 2 {
		root <<= 1
	}
	return root
}

// gaps returns, for each place between two unchanged lines, the first before
// all and the last behind all, whether changed lines stand there.
func gaps(gone []bool) []bool {
	out := []bool{false}
	for _, g := range gone {
		if g {
			out[len(out)-1] = true
		} else {
			out = append(out, false)
		}
	}
	return out
}

// settle moves every run of changed lines that could as well stand elsewhere (a
// function inserted between functions may begin or end with either's brace):
// down as far as it goes, but beside changed lines of the other file if it
// passes any. Runs that meet become one. other is gaps of the other file.
func settle(id []int32, gone, other []bool) {
	gap := 0 // unchanged lines so far
	for i := 0; i < len(id); {
		if !gone[i] {
			gap++
			i++
			continue
		}
		start, end := i, i
		for end < len(id) && gone[end] {
			end++
		}
		up := func() {
			start, end = start-1, end-1
			gone[start], gone[end] = true, false
			for start > 0 && gone[start-1] {
				start--
			}
			gap--
		}
		down := func() {
			gone[start], gone[end] = false, true
			start, end = start+1, end+1
			for end < len(id) && gone[end] {
				end++
			}
			gap++
		}
		top, beside := 0, false
		for size := -1; size != end-start; {
			size = end - start
			for start > 0 && id[start-1] == id[end-1] {
				up()
			}
			top, beside = end, other[gap]
			for end < len(id) && id[start] == id[end] {
				down()
				beside = beside || other[gap]
			}
		}
		for end != top && beside && !other[gap] {
			up()
		}
		i = end
	}
}

// slack returns how many lines up and down an edit could be moved and say the
// same. Only an edit that adds or only removes can; neighbours stop it.
func slack(a, b []int32, es []lineEdit, k int) (up, down int) {
	e := es[k]
	line, start, end, low, high := a, e.a0, e.a1, 0, len(a)
	if e.a0 == e.a1 {
		line, start, end, high = b, e.b0, e.b1, len(b)
	} else if e.b0 != e.b1 {
		return 0, 0
	}
	if k > 0 {
		low = es[k-1].a1
		if e.a0 == e.a1 {
			low = es[k-1].b1
		}
	}
	if k+1 < len(es) {
		high = es[k+1].a0
		if e.a0 == e.a1 {
			high = es[k+1].b0
		}
	}
	for start-up > low && line[start-up-1] == line[end-up-1] {
		up++
	}
	for end+down < high && line[start+down] == line[end+down] {
		down++
	}
	return up, down
}

// similarity returns how much of two files is the same, in percent of the
// larger: the bytes of the lines that both have, in any order.
func similarity(a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	have := map[string]int{}
	for pos := 0; pos < len(a); {
		end := lineEnd(a, pos)
		have[string(a[pos:end])]++
		pos = end
	}
	common := 0
	for pos := 0; pos < len(b); {
		end := lineEnd(b, pos)
		if have[string(b[pos:end])] > 0 {
			have[string(b[pos:end])]--
			common += end - pos
		}
		pos = end
	}
	return int(int64(common) * 100 / int64(max(len(a), len(b))))
}
