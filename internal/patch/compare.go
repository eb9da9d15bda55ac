package patch

import (
	"slices"
	"strings"
)

// maxCompare bounds the runs of lines that are compared for a message.
const maxCompare = 80

// step is one line of a comparison: common (' '), only wanted ('-') or only got ('+').
type step struct {
	mark byte
	line string
}

// compare lines up two short runs of lines by their longest common subsequence.
// In each block of differences the wanted lines come first.
func compare(want, got []string) []step {
	want, got = want[:min(len(want), maxCompare)], got[:min(len(got), maxCompare)]
	// common[i][j] is the length of that subsequence for want[i:] and got[j:].
	common := make([][]int, len(want)+1)
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var steps, added []step
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			steps = append(append(steps, added...), step{' ', want[i]})
			added = nil
			i, j = i+1, j+1
		case i < len(want) && (j == len(got) || common[i+1][j] >= common[i][j+1]):
			steps = append(steps, step{'-', want[i]})
			i++
		default:
			added = append(added, step{'+', got[j]})
			j++
		}
	}
	return append(steps, added...)
}

// window returns the part of got that belongs to want: beside lines that are
// changed before the first or behind the last common one it takes as many lines
// of got, and no more. Where nothing is common, it is the lines from guess on.
func window(want, got []string, guess int) (from, to int) {
	steps := compare(want, got)
	edge := func(steps []step) (drop int) {
		missing, extra := 0, 0
		for _, s := range steps {
			switch s.mark {
			case '-':
				missing++
			case '+':
				extra++
			default:
				return max(0, extra-missing)
			}
		}
		return max(0, extra-missing)
	}
	from = edge(steps)
	if !slices.ContainsFunc(steps, func(s step) bool { return s.mark == ' ' }) {
		return guess, min(guess+len(want), len(got))
	}
	slices.Reverse(steps)
	return from, len(got) - edge(steps)
}

// shortDiff shows a comparison, without the equal lines far from a difference.
func shortDiff(want, got []string) []string {
	const around = 2
	steps := compare(want, got)
	var out []string
	for k, s := range steps {
		near := steps[max(0, k-around):min(len(steps), k+around+1)]
		switch {
		case slices.ContainsFunc(near, func(s step) bool { return s.mark != ' ' }):
			out = append(out, string(s.mark)+visible(s.line))
		case len(out) > 0 && out[len(out)-1] != "…":
			out = append(out, "…")
		}
	}
	return out
}

// sameButSpace reports whether the lines of got are those of want but for white
// space, the ends of lines included.
func sameButSpace(want, got []string) bool {
	return len(want) > 0 && len(want) == len(got) && slices.EqualFunc(want, got, func(a, b string) bool {
		return slices.Equal(strings.Fields(a), strings.Fields(b))
	})
}
