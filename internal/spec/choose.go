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

	"github.com/llpatch/llpatch/internal/exit"
)

// Series is what was chosen for one tag and one target: the variants in
// order, and every fix left out, each with its reason.
type Series struct {
	Upstream string     `json:"upstream"`
	Tag      string     `json:"tag"`
	Build    int        `json:"build"`
	BuildMax int        `json:"build_max,omitempty"` // as Pin.Max
	Unpinned string     `json:"unpinned,omitempty"`  // as Pin.Unpinned
	Target   string     `json:"target"`
	Groups   []string   `json:"without,omitempty"` // groups of fixes that were left out, as Recipe.Groups
	In       []Chosen   `json:"in"`
	Landed   []Excluded `json:"landed,omitempty"` // chosen, and upstream has all of it; known once the patches were placed
	Out      []Excluded `json:"out"`
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
	Except   []string `json:"except,omitempty"` // as Variant.Except
	Group    string   `json:"group,omitempty"`  // as Fix.Group
	Made     []byte   `json:"-"`                // the patch file made from Commit, once its history was read
	Credit   string   `json:"credit,omitempty"` // what Commit is and whose, likewise
	Case     Case     `json:"case"`
	Reason   string   `json:"reason"`
	Partly   []Cure   `json:"partly_cured,omitempty"` // what of the defect upstream cured in this build or before
	Compiled bool     `json:"compiled"`               // whether the target compiles any of its files
}

// Excluded is a fix that the tree does not get.
type Excluded struct {
	Fix     string `json:"fix"`
	Summary string `json:"summary"`
	Case    Case   `json:"case"`
	Reason  string `json:"reason"`
	Partly  []Cure `json:"partly_cured,omitempty"` // as Chosen.Partly, where it is not covered
}

// OutOfRange is a tag that a target does not build.
type OutOfRange struct {
	Recipe  Recipe
	Tag     string
	Number  string // as Pin.Number has it
	Nearest string // the nearest tag of recipes/tags.lock that it builds; may be empty
}

// OutOfRange returns the error for a tag, called name, that rec does not build.
func (r *Repo) OutOfRange(rec Recipe, name string, p Pin) *OutOfRange {
	e, nearest := &OutOfRange{Recipe: rec, Tag: name, Number: p.Number()}, 0
	for _, t := range slices.Sorted(maps.Keys(r.Lock[rec.Upstream])) {
		n := r.Lock[rec.Upstream][t].Build
		if away := max(n-p.Build, p.Build-n); rec.Range.Contains(n) && (e.Nearest == "" || away < nearest) {
			e.Nearest, nearest = t, away
		}
	}
	return e
}

// Error names the builds that the target is for.
func (e *OutOfRange) Error() string {
	return fmt.Sprintf("target %s builds %s for build numbers %s; %s is build %s", e.Recipe.Name, e.Recipe.Upstream,
		e.Recipe.Range, e.Tag, e.Number)
}

// ExitCode is exit.Usage.
func (e *OutOfRange) ExitCode() int { return exit.Usage }

// Hint says what to do.
func (e *OutOfRange) Hint() string {
	if e.Nearest != "" {
		return "the nearest tag that it builds is " + e.Nearest + "; llpatch targets tells the builds of all"
	}
	return "llpatch targets tells which tags each target builds"
}

// Ask makes rec take fixes that it takes only on request. It fails on any other.
func (r *Repo) Ask(rec *Recipe, ids []string) error {
	var known []string
	for _, f := range r.Fixes {
		if f.OptIn {
			known = append(known, f.ID)
		}
	}
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return &Unknown{What: "opt-in fix", Name: id, Known: known}
		}
	}
	rec.With = slices.Compact(slices.Sorted(slices.Values(ids)))
	return nil
}

// LeaveOut makes rec leave out whole groups of fixes. It fails on what is no group.
func (r *Repo) LeaveOut(rec *Recipe, groups []string) error {
	for _, g := range groups {
		if g != Security {
			return &Unknown{What: "group of fixes", Name: g, Known: []string{Security}}
		}
	}
	rec.Groups = slices.Compact(slices.Sorted(slices.Values(groups)))
	return nil
}

// Asked returns an error for a fix that was asked for and is left out.
func (s *Series) Asked(rec Recipe) error {
	for _, o := range s.Out {
		if slices.Contains(rec.With, o.Fix) {
			return fmt.Errorf("%s is %s on %s: %s", o.Fix, o.Case, s.Tag, o.Reason)
		}
	}
	return nil
}

// Choose picks the series for a target at the tag called name, of which p knows the
// number, or bounds within which no limit falls. It fails only where the target does not build that
// tag (*OutOfRange) or
// a chosen file cannot be read.
func (r *Repo) Choose(rec Recipe, name string, p Pin) (*Series, error) {
	return r.choose(rec, name, p, false)
}

// ChooseNearest is Choose, and takes of a fix that has no variant for the tag the
// one with the nearest range: to be merged, because it was made for other tags.
func (r *Repo) ChooseNearest(rec Recipe, name string, p Pin) (*Series, error) {
	return r.choose(rec, name, p, true)
}

func (r *Repo) choose(rec Recipe, name string, p Pin, nearest bool) (*Series, error) {
	if !rec.Range.Contains(p.Build) {
		return nil, r.OutOfRange(rec, name, p)
	}
	s := &Series{
		Upstream: rec.Upstream, Tag: name, Build: p.Build, BuildMax: p.Max, Unpinned: p.Unpinned(),
		Target: rec.Name, Groups: rec.Groups, In: []Chosen{}, Out: []Excluded{},
	}
	cases := map[string]Case{}
	for _, f := range r.Fixes {
		c := choose(f, rec, p, cases, nearest)
		cases[f.ID] = c.Case
		if c.Case != Covered {
			s.Out = append(s.Out, Excluded{Fix: f.ID, Summary: f.Summary, Case: c.Case, Reason: c.Reason, Partly: c.Partly})
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
		s.In = append(s.In, c)
	}
	return s, nil
}

// choose returns f's variant for a tag, or the case and the reason why f is left
// out; cases are those of the fixes before it.
func choose(f Fix, rec Recipe, p Pin, cases map[string]Case, nearest bool) Chosen {
	c := Chosen{
		Fix: f.ID, Group: f.Group, Summary: f.Summary, Why: f.Why, Reports: f.Reports,
		Compiled: rec.compiles(f) && !rec.Contents().lack(f.components),
	}
	if c.Reason = rec.Leaves(f); c.Reason != "" {
		c.Case = NotForTarget
		return c
	}
	n, number := p.Build, p.Number()
	d := f.Defect(rec.Upstream)
	f = f.For(rec.Upstream)
	if c.Case, c.Reason = d.Absent(n); c.Case != "" {
		return c
	}
	c.Partly = d.CuredAt(n)
	v, fits := f.VariantFor(rec.Upstream, n)
	c.Case, c.Reason = Covered, fmt.Sprintf("build %s is in %s", number, v.Range)
	switch {
	case !fits && nearest:
		v = f.nearest(n)
		c.Reason = fmt.Sprintf("no variant is for build %s, and the one for %s is the nearest", number, v.Range)
	case !fits:
		ranges, list := f.ranges()
		c.Case, c.Reason = NotCovered, fmt.Sprintf("no variant is for build %s; there are variants for %s%s", number, list,
			Beyond(n, ranges))
		return c
	}
	for _, need := range f.Requires {
		// Upstream's commits that follow one another need no more than what upstream has already.
		if is := cases[need]; is != Covered && (f.Group != Security || is != Cured) {
			c.Case, c.Reason = NotCovered, fmt.Sprintf("it requires %s, which is left out", need)
			if is == NotForTarget || is == NotAtHand {
				c.Case = is
			}
			return c
		}
	}
	if slices.Contains(rec.Groups, f.Group) {
		c.Case, c.Reason = LeftOut, fmt.Sprintf("%s, and --without %s leaves it out", c.Reason, f.Group)
		return c
	}
	if f.OptIn && !slices.Contains(rec.With, f.ID) {
		c.Case, c.Reason = OnRequest, fmt.Sprintf("%s, and --with %s takes it", c.Reason, f.ID)
		return c
	}
	if why := rec.Lacks[f.ID]; why != "" {
		c.Case, c.Reason = NotAtHand, why
		return c
	}
	c.Range, c.Commit, c.Except = v.Range.String(), v.Commit, v.Except
	if v.Patch != "" {
		c.Patch = path.Join("patches", f.ID, v.Patch)
	}
	if !c.Compiled {
		c.Reason += fmt.Sprintf("; it is in the tree, but %s compiles none of its files", rec.Name)
	}
	return c
}

// compiles reports whether a backend of the target compiles f.
func (rec Recipe) compiles(f Fix) bool {
	return len(f.Backends) == 0 || slices.ContainsFunc(f.Backends, func(b string) bool {
		return slices.Contains(rec.Backends, b)
	})
}

// Leaves returns the reason why the target takes f for no tag, "" where it does.
func (rec Recipe) Leaves(f Fix) string {
	switch {
	case !slices.Contains(f.Upstreams(), rec.Upstream):
		return fmt.Sprintf("it is for %s, and the target builds %s", strings.Join(f.Upstreams(), ", "), rec.Upstream)
	case rec.Without[f.ID] != "":
		return rec.Without[f.ID]
	case !rec.Fixes.All && !f.OptIn && f.Group == "" && !slices.Contains(rec.Fixes.IDs, f.ID):
		return fmt.Sprintf("recipes/%s.toml does not name it", rec.Name)
	case !rec.Fixes.All && !rec.compiles(f):
		return fmt.Sprintf("it is for %s, and the target has %s", strings.Join(f.Backends, ", "),
			strings.Join(rec.Backends, ", "))
	case len(f.OS) > 0 && !slices.Contains(f.OS, rec.OS):
		return fmt.Sprintf("it is for %s, and the target for %s", strings.Join(f.OS, ", "), rec.OS)
	}
	return ""
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
