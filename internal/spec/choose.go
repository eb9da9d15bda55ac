package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Series is what was chosen for one tag and one target: the variants in
// order, and every fix left out, each with its reason.
type Series struct {
	Upstream string   `json:"upstream"`
	Tag      string   `json:"tag"`
	Build    int      `json:"build"`
	Target   string   `json:"target"`
	In       []Chosen `json:"in"`
	Landed   []Left   `json:"landed,omitempty"` // chosen, and upstream has all of it; known once the patches were placed
	Out      []Left   `json:"out"`
}

// Chosen is a variant that the tree gets.
type Chosen struct {
	Fix      string   `json:"fix"`
	Summary  string   `json:"summary"`
	Why      string   `json:"why"`
	Reports  []string `json:"reports,omitempty"`
	Range    string   `json:"range"`
	Patch    string   `json:"patch,omitempty"`  // file below the declarations' root
	SHA256   string   `json:"sha256,omitempty"` // of that file, or of what was made from Commit
	Commit   string   `json:"commit,omitempty"` // instead of Patch
	Made     []byte   `json:"-"`                // the patch file made from Commit, once its history was read
	Reason   string   `json:"reason"`
	Compiled bool     `json:"compiled"` // whether a backend of the target compiles it
}

// Left is a fix that the tree does not get.
type Left struct {
	Fix     string `json:"fix"`
	Summary string `json:"summary"`
	Reason  string `json:"reason"`
}

// OutOfRange is a tag that a target does not build.
type OutOfRange struct {
	Recipe Recipe
	Tag    string
	Build  int
}

// Error names the builds that the target is for.
func (e *OutOfRange) Error() string {
	return fmt.Sprintf("target %s builds %s for build numbers %s; %s is build %d", e.Recipe.Name, e.Recipe.Upstream, e.Recipe.Range, e.Tag, e.Build)
}

// Choose picks the series for a target at build number n of the tag called
// name. It fails only where the target does not build that tag (*OutOfRange) or
// a chosen file cannot be read.
func (r *Repo) Choose(rec Recipe, name string, n int) (*Series, error) {
	return r.choose(rec, name, n, false)
}

// ChooseNearest is Choose, and takes of a fix that has no variant for the tag the
// one with the nearest range: to be merged, because it was made for other tags.
func (r *Repo) ChooseNearest(rec Recipe, name string, n int) (*Series, error) {
	return r.choose(rec, name, n, true)
}

func (r *Repo) choose(rec Recipe, name string, n int, nearest bool) (*Series, error) {
	if !rec.Range.Contains(n) {
		return nil, &OutOfRange{Recipe: rec, Tag: name, Build: n}
	}
	s := &Series{Upstream: rec.Upstream, Tag: name, Build: n, Target: rec.Name, In: []Chosen{}, Out: []Left{}}
	in := map[string]bool{}
	for _, f := range r.Fixes {
		c, reason := choose(f, rec, name, n, in, nearest)
		if reason != "" {
			s.Out = append(s.Out, Left{Fix: f.ID, Summary: f.Summary, Reason: reason})
			continue
		}
		if c.Patch != "" {
			data, err := readFile(r.FS, c.Patch)
			if err != nil {
				return nil, &Error{File: c.Patch, Msg: "cannot be read: " + cause(err)}
			}
			sum := sha256.Sum256(data)
			c.SHA256 = hex.EncodeToString(sum[:])
		}
		in[f.ID] = true
		s.In = append(s.In, c)
	}
	return s, nil
}

// choose returns f's variant for the tag, or the reason why f is left out.
func choose(f Fix, rec Recipe, name string, n int, in map[string]bool, nearest bool) (Chosen, string) {
	shared := slices.ContainsFunc(f.Backends, func(b string) bool { return slices.Contains(rec.Backends, b) })
	compiled := len(f.Backends) == 0 || shared
	is := f.Upstreams()
	f = f.For(rec.Upstream)
	v, fits := f.VariantFor(rec.Upstream, n)
	why := fmt.Sprintf("build %d is in %s", n, v.Range)
	if !fits && nearest && len(f.Variants) > 0 {
		v, fits = f.nearest(n), true
		why = fmt.Sprintf("no variant is for build %d, and the one for %s is the nearest", n, v.Range)
	}
	switch {
	case len(f.Variants) == 0:
		return Chosen{}, fmt.Sprintf("it is for %s, and the target builds %s", strings.Join(is, ", "), rec.Upstream)
	case rec.Without[f.ID] != "":
		return Chosen{}, rec.Without[f.ID]
	case !rec.Fixes.All && !slices.Contains(rec.Fixes.IDs, f.ID):
		return Chosen{}, fmt.Sprintf("recipes/%s.toml does not name it", rec.Name)
	case !rec.Fixes.All && !compiled:
		return Chosen{}, fmt.Sprintf("it is for %s, and the target has %s", strings.Join(f.Backends, ", "), strings.Join(rec.Backends, ", "))
	case len(f.OS) > 0 && !slices.Contains(f.OS, rec.OS):
		return Chosen{}, fmt.Sprintf("it is for %s, and the target for %s", strings.Join(f.OS, ", "), rec.OS)
	case f.FixedIn > 0 && n >= f.FixedIn:
		return Chosen{}, fmt.Sprintf("upstream cured the defect in build %d; %s is build %d", f.FixedIn, name, n)
	case !fits:
		return Chosen{}, fmt.Sprintf("no variant is for build %d; there are variants for %s", n, f.ranges())
	}
	for _, need := range f.Requires {
		if !in[need] {
			return Chosen{}, fmt.Sprintf("it requires %s, which is left out", need)
		}
	}
	c := Chosen{Fix: f.ID, Summary: f.Summary, Why: f.Why, Reports: f.Reports, Range: v.Range.String(), Commit: v.Commit, Compiled: compiled}
	if v.Patch != "" {
		c.Patch = path.Join("patches", f.ID, v.Patch)
	}
	c.Reason = why
	if !compiled {
		c.Reason += fmt.Sprintf("; it is in the tree, but %s compiles none of its files", rec.Name)
	}
	return c, ""
}

// nearest returns the variant whose range is the fewest builds away from n; of
// two the older one.
func (f Fix) nearest(n int) Variant {
	away := func(v Variant) int {
		lo, hi := v.Range.Bounds()
		return max(lo-n, n-hi, 0)
	}
	return slices.MinFunc(f.Variants, func(a, b Variant) int {
		lo, _ := a.Range.Bounds()
		other, _ := b.Range.Bounds()
		return cmp.Or(cmp.Compare(away(a), away(b)), cmp.Compare(lo, other))
	})
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
