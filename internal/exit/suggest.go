package exit

import (
	"slices"
	"strings"
)

// DidYouMean is a hint with the names, three at most, that are nearest to one that is none
// of them: two letters off, or with more between the same ones. "": none is near.
func DidYouMean(name string, names []string) string {
	near := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return edits(name, n) > min(2, len(name)/2) && (len(name) < 3 || !abbreviates(name, n))
	})
	if len(near) == 0 {
		return ""
	}
	slices.SortStableFunc(near, func(a, b string) int { return edits(name, a) - edits(name, b) })
	return "did you mean " + strings.Join(near[:min(3, len(near))], " or ") + "?"
}

// abbreviates says whether all of short stands in long, in order.
func abbreviates(short, long string) bool {
	for _, c := range []byte(short) {
		i := strings.IndexByte(long, c)
		if i < 0 {
			return false
		}
		long = long[i+1:]
	}
	return true
}

// edits is the Levenshtein distance of two names in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
