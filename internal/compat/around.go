package compat

import (
	"context"
	"path"
	"slices"
	"strings"
)

// Around returns, for each fix of a stack, the first and the last of the history's tags around the one at an index of
// Tags that it fits with those before it, as indexes; both are -1 where it does not fit there. No more tags are judged
// than that needs, and no more fixes on them: those that can decide it.
func (h *History) Around(ctx context.Context, o Options, s Stack, at int) ([][2]int, error) {
	out := make([][2]int, len(s.Fixes))
	all := make([]int, len(s.Fixes))
	for i := range all {
		out[i], all[i] = [2]int{-1, -1}, i
	}
	here, err := h.fits(ctx, o, s, all, at, at+1)
	if err != nil {
		return nil, err
	}
	var fit []int
	for i, is := range here {
		if is[0] {
			out[i], fit = [2]int{at, at}, append(fit, i)
		}
	}
	for side, step := range []int{-1, 1} {
		open := slices.Clone(fit)
		for from, n := at+step, 8; len(open) > 0 && from >= 0 && from < len(h.Tags); n *= 2 {
			lo, hi := from, min(from+n, len(h.Tags))
			if step < 0 {
				lo, hi = max(0, from-n+1), from+1
			}
			judged, err := h.fits(ctx, o, s, open, lo, hi)
			if err != nil {
				return nil, err
			}
			for ; lo <= from && from < hi; from += step {
				open = slices.DeleteFunc(open, func(i int) bool { return !judged[i][from-lo] })
				for _, i := range open {
					out[i][side] = from
				}
			}
		}
	}
	return out, nil
}

// fits reports which of the asked fixes fit the tags from lo to hi: by fix and tag.
func (h *History) fits(ctx context.Context, o Options, s Stack, asked []int, lo, hi int) (map[int][]bool, error) {
	tags := h.Tags[lo:hi]
	if err := h.trusted(tags); err != nil {
		return nil, err
	}
	needed := needed(newJudge(h, o, s), asked)
	part := s
	part.Fixes = nil
	for _, i := range needed {
		part.Fixes = append(part.Fixes, s.Fixes[i])
	}
	j := newJudge(h, o, part)
	j.plain = true
	cells, err := j.run(ctx, tags)
	if err != nil {
		return nil, err
	}
	out := map[int][]bool{}
	for k, i := range needed {
		for n := range cells[k] {
			out[i] = append(out[i], cells[k][n].verdict.Fits())
		}
	}
	return out, nil
}

// needed are the asked fixes and those before them that touch a file of theirs, or of one that does.
func needed(j *judge, asked []int) []int {
	files, folders := map[string]bool{}, map[string]bool{}
	touches := func(p string) bool {
		is := folders[p]
		for ; p != "."; p = path.Dir(p) { // a file may be in the way of a folder
			is = is || files[p]
		}
		return is
	}
	var out []int
	for i, units := range slices.Backward(j.units) {
		var paths []string
		for _, u := range units {
			if u != nil {
				paths = append(paths, u.paths...)
			}
		}
		for k, p := range paths {
			paths[k] = strings.ToLower(p)
		}
		if !slices.Contains(asked, i) && !slices.ContainsFunc(paths, touches) {
			continue
		}
		out = append(out, i)
		for _, p := range paths {
			for files[p] = true; p != "."; p = path.Dir(p) {
				folders[path.Dir(p)] = true
			}
		}
	}
	slices.Reverse(out)
	return out
}
