package patch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// trial is one random case: a file, what a patch was made from, and the patch.
type trial struct {
	base, want, target []string
	context            int
}

// randomTrial makes a file, edits it to get a patch, and lets the file drift.
// Few different lines make places that look alike.
func randomTrial(r *rand.Rand, context int) trial {
	vocabulary := []int{2, 3, 5, 12, 100000}[r.IntN(5)]
	ending := "\n"
	if r.IntN(8) == 0 {
		ending = "\r\n"
	}
	line := func() string {
		v := r.IntN(vocabulary)
		if v == 1 {
			return ending
		}
		return strings.Repeat(" ", v%3) + "w" + strconv.Itoa(v) + ending
	}
	edit := func(lines []string, n int) []string {
		lines = append([]string(nil), lines...)
		for range n {
			at := r.IntN(len(lines) + 1)
			if r.IntN(5) == 0 {
				at = []int{0, len(lines)}[r.IntN(2)]
			}
			gone := min(r.IntN(3), len(lines)-at)
			var added []string
			for range r.IntN(3) {
				added = append(added, line())
			}
			lines = append(append(append([]string(nil), lines[:at]...), added...), lines[at+gone:]...)
		}
		return lines
	}
	openEnd := func(lines []string) []string {
		if n := len(lines); n > 0 && r.IntN(8) == 0 && len(lines[n-1]) > 2 {
			lines = append([]string(nil), lines...)
			lines[n-1] = strings.TrimRight(lines[n-1], "\r\n")
		}
		return lines
	}
	var base []string
	for range 1 + r.IntN(40) {
		base = append(base, line())
	}
	base = openEnd(base)
	closed := append([]string(nil), base...)
	if last := &closed[len(closed)-1]; !strings.HasSuffix(*last, "\n") {
		*last += ending
	}
	want := openEnd(edit(closed, 1+r.IntN(4)))
	target := base
	if drift := r.IntN(4); drift > 0 {
		target = openEnd(edit(closed, drift))
	}
	return trial{base: base, want: want, target: target, context: context}
}

// repeatedTrial is randomTrial for a file of functions whose bodies are the same,
// edited in several of them, most times in the same way, that drifts between them.
func repeatedTrial(r *rand.Rand, context int) trial {
	body := func() []string {
		var lines []string
		for range 4 + r.IntN(9) {
			lines = append(lines, fmt.Sprintf("    w%d\n", r.IntN(6)))
		}
		return lines
	}
	bodies := [][]string{body(), body()}
	type function struct {
		name        int
		lines, want []string
	}
	var file []function
	edit := func(lines []string, at, word int) []string {
		return slices.Concat(lines[:at], []string{fmt.Sprintf("    new%d\n", word)}, lines[at+r.IntN(2):])
	}
	at := r.IntN(4)
	for i := range 2 + r.IntN(4) {
		f := function{name: i, lines: bodies[r.IntN(8)/7]}
		f.want = f.lines
		if r.IntN(3) > 0 {
			f.want = edit(f.lines, at, r.IntN(6)/5)
		}
		file = append(file, f)
	}
	text := func(name int, lines []string) []string {
		head := "void f() {\n"
		if name%2 == 0 {
			head = fmt.Sprintf("void f%d() {\n", name)
		}
		return slices.Concat([]string{head}, lines, []string{"}\n", "\n"})
	}
	var tr trial
	tr.context = context
	for _, f := range file {
		tr.base = append(tr.base, text(f.name, f.lines)...)
		tr.want = append(tr.want, text(f.name, f.want)...)
		for range max(0, r.IntN(4)-1) * r.IntN(7) {
			tr.target = append(tr.target, fmt.Sprintf("upstream %d\n", r.IntN(99)))
		}
		switch r.IntN(12) {
		case 0: // gone
		case 1: // twice
			tr.target = append(tr.target, text(f.name, f.lines)...)
			tr.target = append(tr.target, text(9, f.lines)...)
		default:
			tr.target = append(tr.target, text(f.name, f.lines)...)
		}
	}
	if len(tr.target) == 0 {
		tr.target = tr.base
	}
	return tr
}

// unified writes the diff of two files with so many lines of context.
func unified(path string, a, b []string, context int) string {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	type op struct {
		mark byte
		text string
		a, b int // lines before it
	}
	var ops []op
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			ops = append(ops, op{' ', a[i], i, j})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			ops = append(ops, op{'-', a[i], i, j})
			i++
		default:
			ops = append(ops, op{'+', b[j], i, j})
			j++
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n", path)
	for k := 0; k < len(ops); {
		if ops[k].mark == ' ' {
			k++
			continue
		}
		start, end, last := max(0, k-context), k, k
		for end < len(ops) && end-last-1 <= 2*context {
			if ops[end].mark != ' ' {
				last = end
			}
			end++
		}
		end = min(len(ops), last+context+1)
		oldN, newN := 0, 0
		var body strings.Builder
		for _, o := range ops[start:end] {
			if o.mark != '+' {
				oldN++
			}
			if o.mark != '-' {
				newN++
			}
			body.WriteByte(o.mark)
			body.WriteString(o.text)
			if !strings.HasSuffix(o.text, "\n") {
				body.WriteString("\n\\ No newline at end of file\n")
			}
		}
		oldAt, newAt := ops[start].a, ops[start].b
		if oldN > 0 {
			oldAt++
		}
		if newN > 0 {
			newAt++
		}
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n%s", oldAt, oldN, newAt, newN, body.String())
		k = end
	}
	return out.String()
}
