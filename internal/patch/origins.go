package patch

import "github.com/llpatch/llpatch/internal/source"

// Origin is a file as a patch was made for it, by its index line.
type Origin struct {
	Path string
	Blob string      // maybe shortened; "": there is no file
	Mode source.Mode // 0 where there is no file
}

// Origins returns the files that the patches of one file start from, each path
// once, as it is before the first of them. It reports false where an index line
// is missing: what the patch was made for is not known then.
func Origins(unit []Patch) ([]Origin, bool) {
	var out []Origin
	seen := map[string]bool{}
	put := func(p Origin) {
		if !seen[p.Path] {
			seen[p.Path] = true
			out = append(out, p)
		}
	}
	for i := range unit {
		for k := range unit[i].changes {
			c := &unit[i].changes[k]
			if c.kind != create {
				if c.maybeNew || c.oldID == "" && !seen[c.old] {
					return nil, false
				}
				put(Origin{Path: c.old, Blob: c.oldID, Mode: orMode(c.oldMode)})
			}
			if c.kind == create || c.kind == rename || c.kind == copied {
				put(Origin{Path: c.new})
			}
		}
	}
	return out, len(out) > 0
}

func orMode(m source.Mode) source.Mode {
	if m == 0 {
		return source.Regular
	}
	return m
}

// Conflicts returns the conflicts that an error of Apply, ThreeWay or
// ApplyThreeWay joins; false where it is an error of another kind.
func Conflicts(err error) ([]*Conflict, bool) {
	out, err := conflictsOf(err)
	return out, err == nil
}
