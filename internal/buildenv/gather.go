package buildenv

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// gathering is what the packages have in the folders that the declaration gathers from.
type gathering struct {
	gather map[string]string
	alone  bool                       // the package at hand is one that is unpacked alone
	own    map[string]map[string]bool // folder -> names in it that such packages have files at or below
	other  map[string]map[string]bool // the same of the other packages
}

// note records a file, given by its path in the root without the slash before it.
func (g *gathering) note(name string) {
	for _, from := range g.gather {
		rest, ok := strings.CutPrefix("/"+name, from+"/")
		if !ok {
			continue
		}
		top, _, _ := strings.Cut(rest, "/")
		in := &g.other
		if g.alone {
			in = &g.own
		}
		if *in == nil {
			*in = map[string]map[string]bool{}
		}
		if (*in)[from] == nil {
			(*in)[from] = map[string]bool{}
		}
		(*in)[from][top] = true
	}
}

// links returns the links that are asked for, path in the root -> where it points.
func (g *gathering) links() (map[string]string, error) {
	all := map[string]string{}
	for _, dir := range slices.Sorted(maps.Keys(g.gather)) {
		from := g.gather[dir]
		if len(g.own[from]) == 0 {
			return nil, fmt.Errorf("gather %s: no package of unpack has a file in %s", dir, from)
		}
		for _, name := range slices.Sorted(maps.Keys(g.own[from])) {
			if g.other[from][name] {
				return nil, fmt.Errorf("gather %s: %s has files of packages of base too, and a link would show them", dir,
					path.Join(from, name))
			}
			to, err := upward(dir, path.Join(from, name))
			if err != nil {
				return nil, err
			}
			all[path.Join(dir, name)] = to
		}
	}
	return all, nil
}

// upward writes a path as it is from a folder, so that a link holds outside of the root too.
func upward(dir, to string) (string, error) {
	rel, err := filepath.Rel(dir, to)
	return filepath.ToSlash(rel), err
}
