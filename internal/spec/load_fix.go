package spec

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/tag"
)

// backends are ggml's own names; a fix and a recipe may name no other.
var backends = []string{"cpu", "cuda", "hip", "musa", "vulkan", "metal", "sycl", "opencl", "rpc", "blas"}

var (
	idRE     = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	commitRE = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func (l *loader) fixes() []Fix {
	ids, at, data := l.series()
	l.ids = ids
	folders, err := fs.ReadDir(l.fsys, "patches")
	if err != nil {
		return nil // series was not readable either, and that is reported
	}
	for _, d := range folders {
		if !d.IsDir() || slices.Contains(ids, d.Name()) {
			continue
		}
		l.fail(&Error{File: path.Join("patches", d.Name()), Msg: "is not listed in " + SeriesFile +
			"; add its name there, or remove the folder"})
	}
	var fixes []Fix
	for _, id := range ids {
		name := path.Join("patches", id, "fix.toml")
		if _, err := fs.Stat(l.fsys, name); err != nil {
			l.fail(errorAt(SeriesFile, data, at[id], "%q has no %s", id, name))
			continue
		}
		if f, ok := l.fix(id, name); ok {
			fixes = append(fixes, f)
		}
	}
	return fixes
}

// series reads the order of the fixes: one id a line, # starts a comment, as quilt has it.
func (l *loader) series() (ids []string, at map[string]position, data []byte) {
	data, ok := l.read(SeriesFile)
	if !ok {
		return nil, nil, nil
	}
	at = map[string]position{}
	for i, line := range strings.Split(string(data), "\n") {
		id, _, _ := strings.Cut(line, "#")
		id = strings.TrimSpace(id)
		p := position{i + 1, strings.Index(line, id) + 1}
		switch {
		case id == "":
		case !idRE.MatchString(id):
			l.fail(errorAt(SeriesFile, data, p, "%q is not the name of a fix: lower-case words joined by hyphens, one a line",
				id))
		case at[id] != position{}:
			l.fail(errorAt(SeriesFile, data, p, "%q is listed twice, first in line %d", id, at[id].line))
		default:
			at[id] = p
			ids = append(ids, id)
		}
	}
	return ids, at, data
}

func (l *loader) fix(id, name string) (Fix, bool) {
	var fix Fix
	f := l.decode(name, &fix)
	if f == nil {
		return fix, false
	}
	fix.ID = id
	fix.Upstream = upstreamOrDefault(fix.Upstream)
	f.required(map[string]string{"proof": fix.Proof})
	if len(fix.Cures) == 0 { // else the advisory says it
		f.required(map[string]string{"summary": fix.Summary, "why": fix.Why})
	} else if fix.Group != Security {
		f.fail("cures", "cures is for fixes with group = %q", Security)
	}
	if fix.Group != "" {
		f.oneOf("group", fix.Group, Security)
	}
	f.oneOf("status", fix.Status, "ours", "submitted", "upstream")
	f.oneOf("upstream", fix.Upstream, LlamaCpp, IkLlamaCpp)
	for _, b := range fix.Backends {
		f.oneOf("backends", b, backends...)
	}
	for _, name := range fix.OS {
		f.oneOf("os", name, Linux, Win7)
	}
	for _, r := range fix.Requires {
		switch at := slices.Index(l.ids, r); {
		case at < 0:
			f.fail("requires", "requires %q, which is not in %s", r, SeriesFile)
		case at >= slices.Index(l.ids, id):
			f.fail("requires", "requires %q, which %s lists after it", r, SeriesFile)
		}
	}
	f.refuse(len(fix.Variants) == 0, "", "has no [[variant]]: a fix needs a patch file and the tags it is for")
	for i := range fix.Variants {
		v := &fix.Variants[i]
		v.Upstream = cmp.Or(v.Upstream, fix.Upstream)
	}
	f.defects(&fix)
	for i, v := range fix.Variants {
		f.variant(fix, i, v)
	}
	return fix, !f.bad
}

func (f *file) variant(fix Fix, i int, v Variant) {
	key := func(k string) string { return fmt.Sprintf("variant[%d].%s", i, k) }
	f.refuse(v.Range.IsZero(), key("range"), "variant has no range")
	f.oneOf(key("upstream"), v.Upstream, LlamaCpp, IkLlamaCpp)
	switch {
	case v.Patch == "" && v.Commit == "":
		f.fail(key("patch"), "variant needs patch = \"FILE\" or commit = \"ID\"")
	case v.Patch != "" && v.Commit != "":
		f.fail(key("commit"), "variant has both patch and commit; keep one")
	case v.Commit != "":
		f.commit(key("commit"), v.Commit)
	case len(v.Except) > 0:
		f.fail(key("except"), "except is for a variant with a commit")
	default:
		file := path.Join("patches", fix.ID, v.Patch)
		if v.Patch != path.Base(v.Patch) {
			f.fail(key("patch"), "patch %q must be a file beside fix.toml", v.Patch)
		} else if _, err := fs.Stat(f.l.fsys, file); err != nil {
			f.fail(key("patch"), "patch file %s: %s", file, cause(err))
		}
	}
	for j, o := range fix.Variants[:i] {
		f.refuse(v.Upstream == o.Upstream && v.Range.Overlaps(o.Range), key("range"),
			"range %q overlaps %q of variant %d: at most one variant may fit a tag", v.Range, o.Range, j+1)
	}
	d := fix.Defect(v.Upstream)
	lo, hi := v.Range.Bounds()
	switch {
	case v.Range.IsZero():
	case d.FixedIn > 0 && hi >= d.FixedIn:
		f.fail(key("range"), "range %q reaches past fixed-in = %d, where upstream has cured the defect; end it with < %d",
			v.Range, d.FixedIn, d.FixedIn)
	case lo < d.Since:
		f.fail(key("range"), "range %q begins before since = %d, which brought the defect; begin it with >= %d", v.Range,
			d.Since, d.Since)
	}
}

// For returns f as it is for an upstream: with the variants of that one only.
// Without a variant for the upstream, f is no fix of it.
func (f Fix) For(upstream string) Fix {
	f.Variants = slices.DeleteFunc(slices.Clone(f.Variants), func(v Variant) bool { return v.Upstream != upstream })
	return f
}

// Upstreams lists the upstreams that f has variants for, sorted.
func (f Fix) Upstreams() []string {
	var names []string
	for _, v := range f.Variants {
		names = append(names, v.Upstream)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// VariantFor returns the variant of f whose range holds build number n of an
// upstream.
func (f Fix) VariantFor(upstream string, n int) (Variant, bool) {
	for _, v := range f.Variants {
		if v.Upstream == upstream && v.Range.Contains(n) {
			return v, true
		}
	}
	return Variant{}, false
}

// ranges returns the ranges of f's variants, and as a list for a message.
func (f Fix) ranges() (ranges []tag.Range, list string) {
	var s []string
	for _, v := range f.Variants {
		ranges = append(ranges, v.Range)
		s = append(s, v.Range.String())
	}
	return ranges, strings.Join(s, "; ")
}
