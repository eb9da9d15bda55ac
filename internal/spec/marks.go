package spec

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/tag"
)

// Upstream is what recipes/sources.toml says of an upstream itself.
type Upstream struct {
	Name string `toml:"name" json:"name"`
	// files or folders: each of its trees has one of them, and no other upstream's has any; may be
	// empty
	Marks []string `toml:"marks" json:"marks"`

	// What all its recipes have beside their own.
	Exclude  []string   `toml:"exclude" json:"exclude,omitempty"`
	CMakeFor []CMakeFor `toml:"cmake-for" json:"cmake_for,omitempty"`

	Pages []PagePlace `toml:"page" json:"pages,omitempty"` // where its trees have the page of llama-server
}

// shared gives the recipes what their upstream has for all of them. A recipe's own options stand behind, so that they
// count.
func (r *Repo) shared(list []Upstream) {
	for name, rec := range r.Recipes {
		for _, u := range list {
			if u.Name == rec.Upstream {
				rec.Exclude, rec.Shared = slices.Concat(u.Exclude, rec.Exclude), u.CMakeFor
				r.Recipes[name] = rec
			}
		}
	}
}

// upstreams checks the [[upstream]] tables, and returns their marks by name.
func (f *file) upstreams(list []Upstream) map[string][]string {
	marks := map[string][]string{}
	of := map[string]string{} // whose mark a path is
	for i, u := range list {
		key := func(k string) string { return fmt.Sprintf("upstream[%d].%s", i, k) }
		f.oneOf(key("name"), u.Name, LlamaCpp, IkLlamaCpp)
		if _, twice := marks[u.Name]; twice {
			f.fail(key("name"), "upstream %s is declared twice", u.Name)
		}
		f.globs(key("exclude"), u.Exclude)
		f.cmakeFor(key("cmake-for"), u.CMakeFor)
		f.refuse(len(u.Marks) == 0 && u.Exclude == nil && u.CMakeFor == nil, key("marks"),
			"marks is missing or empty: name a file or a folder that every tree of %s has and no tree of another upstream",
			u.Name)
		for _, m := range u.Marks {
			f.refuse(!fs.ValidPath(m) || m == "." || strings.ContainsAny(m, `\*?[`), key("marks"),
				"%q is not a plain path from the top of the tree, such as ggml/src/iqk", m)
			for _, o := range slices.Sorted(maps.Keys(of)) {
				if m == o || strings.HasPrefix(m, o+"/") || strings.HasPrefix(o, m+"/") {
					f.fail(key("marks"), "%s and %s, of %s, cannot both be marks: one is in the other", m, o, of[o])
				}
			}
			of[m] = u.Name
		}
		marks[u.Name] = u.Marks
	}
	return marks
}

// CheckTree refuses a tree that is another upstream's than the one asked for, by
// the marks that recipes/sources.toml declares; has says whether the tree holds
// a file or a folder. The error is *WrongUpstream. Without marks declared, every
// tree passes.
//
// Commits do not tell: an upstream may rewrite its history, as ik_llama.cpp did
// with all it has of llama.cpp's, and a tarball has none.
func (r *Repo) CheckTree(upstream string, t tag.Tag, has func(path string) bool) error {
	if slices.ContainsFunc(r.Marks[upstream], has) {
		return nil
	}
	e := &WrongUpstream{Upstream: upstream, Tag: t, Lacks: r.Marks[upstream]}
	for _, other := range sortedKeys(r.Marks) {
		if i := slices.IndexFunc(r.Marks[other], has); i >= 0 && other != upstream {
			e.Is, e.Mark = other, r.Marks[other][i]
			e.Targets = r.targets(other)
			return e
		}
	}
	if len(e.Lacks) == 0 {
		return nil
	}
	if upstream != LlamaCpp {
		e.Targets = r.targets(LlamaCpp)
	}
	return e
}
