package spec

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/llpatch/llpatch/internal/tag"
)

// Number is the build number for a message: "11146", or "11670 to 12100" where it
// is known within bounds only.
func (p Pin) Number() string { return Number(p.Build, p.Max) }

// Under is p, which was found of a tag, where declared says what else is known of that
// tag: the number is as close as either has it. It reports false where the two contradict
// each other.
func (p Pin) Under(declared Pin) (Pin, bool) {
	if declared.Commit != "" && p.Commit != "" && declared.Commit != p.Commit {
		return Pin{}, false
	}
	if declared.Build == 0 {
		return p, true
	}
	lo, hi := max(p.Build, declared.Build), min(max(p.Build, p.Max), max(declared.Build, declared.Max))
	if p.Build, p.Max = lo, hi; lo == hi {
		p.Max = 0
	}
	return p, lo <= hi
}

// Unpinned says what is known of a tag whose tree is not, "" of every other.
func (p Pin) Unpinned() string {
	if p.Tree != "" || p.Note == "" {
		return ""
	}
	return p.Note
}

// Number writes a build number, or the bounds of one where hi is not 0.
func Number(lo, hi int) string {
	if hi == 0 {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

// CheckBounds refuses every declared limit that falls between the bounds of a tag's
// number: nobody knows on which side of it the tag is. Where none does, the lowest
// number that the tag can have stands for it in every range.
// The error joins one *Error for each.
func (r *Repo) CheckBounds() error {
	var errs []error
	for _, upstream := range sortedKeys(r.Lock) {
		for _, name := range sortedKeys(r.Lock[upstream]) {
			if p := r.Lock[upstream][name]; p.Max > 0 {
				errs = append(errs, r.limits(upstream, name, p)...)
			}
		}
	}
	return errors.Join(errs...)
}

// limits returns an error for each limit within the bounds of one tag.
func (r *Repo) limits(upstream, name string, p Pin) (errs []error) {
	// A limit is the first build on its far side.
	limit := func(file, key, what string, n int) {
		if n > p.Build && n <= p.Max {
			errs = append(errs, ErrorAt(r.FS, file, key,
				"%s falls between the bounds of %s (build %s in %s): on which side that is, is not known; "+
					"write the number there (the release's nightly-tag.txt names it), narrow the bounds, or move this limit", what,
				name, p.Number(), LockFile))
		}
	}
	within := func(file, key string, t tag.Range) {
		if t.IsZero() {
			return
		}
		lo, hi := t.Bounds()
		limit(file, key, fmt.Sprintf("range %q: its begin", t), lo)
		if !t.Open() {
			limit(file, key, fmt.Sprintf("range %q: its end", t), hi+1)
		}
	}
	for _, f := range r.Fixes {
		file := path.Join("patches", f.ID, "fix.toml")
		for i, v := range f.Variants {
			if v.Upstream == upstream {
				within(file, fmt.Sprintf("variant[%d].range", i), v.Range)
			}
		}
		i := slices.IndexFunc(f.Defects, func(d Defect) bool { return d.Upstream == upstream })
		if i < 0 {
			continue
		}
		d, key := f.Defects[i], fmt.Sprintf("defect[%d].", i)
		limit(file, key+"since", fmt.Sprintf("since = %d", d.Since), d.Since)
		limit(file, key+"fixed-in", fmt.Sprintf("fixed-in = %d", d.FixedIn), d.FixedIn)
		for k, c := range d.Partly {
			limit(file, fmt.Sprintf("%spartly[%d].build", key, k), fmt.Sprintf("build = %d", c.Build), c.Build)
		}
	}
	var shared []CMakeFor
	for _, target := range sortedKeys(r.Recipes) {
		rec, file := r.Recipes[target], path.Join("recipes", target+".toml")
		if rec.Upstream != upstream {
			continue
		}
		within(file, "range", rec.Range)
		shared = rec.Shared
		for i, c := range rec.CMakeFor {
			within(file, fmt.Sprintf("cmake-for[%d].range", i), c.Range)
		}
		for i, o := range rec.Optional {
			within(file, fmt.Sprintf("optional[%d].range", i), o.Range)
		}
	}
	for i, c := range shared {
		within(SourcesFile, fmt.Sprintf("upstream.cmake-for[%d].range", i), c.Range)
	}
	return errs
}
