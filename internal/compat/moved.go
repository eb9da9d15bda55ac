package compat

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// moved is where a file went that one commit has and another has not.
type moved struct {
	To   string // a new file of the same content, or of its name and half alike; "": there is none
	Same bool   // of the same content
	Name string // else a new file of its name, however different
}

// what completes "a file that …".
func (m moved) what() string {
	switch {
	case m.Same:
		return "is now " + m.To + ", unchanged"
	case m.Name != "":
		return "was removed; " + m.Name + " is new and has its name"
	}
	return "was removed"
}

// moved finds what a file of one commit is in another that does not have it.
func (c *contents) moved(before, after plumbing.Hash, file string, blob plumbing.Hash) (moved, error) {
	var m moved
	_, old, err := readCommit(c.objects, before)
	if err != nil {
		return m, err
	}
	_, now, err := readCommit(c.objects, after)
	if err != nil {
		return m, err
	}
	added := map[string]plumbing.Hash{}
	if err := newFiles(c.objects, old.tree, now.tree, "", added); err != nil {
		return m, err
	}
	for _, p := range slices.Sorted(maps.Keys(added)) {
		switch {
		case added[p] == blob:
			if !m.Same {
				m.To, m.Same = p, true
			}
		case path.Base(p) == path.Base(file) && m.Name == "":
			m.Name = p
		}
	}
	if m.Name == "" || m.Same {
		return m, nil
	}
	was, err := c.get(blob)
	if err == nil {
		var is []byte
		if is, err = c.get(added[m.Name]); err == nil && patch.Alike(was, is) {
			m.To = m.Name
		}
	}
	if lacks := new(source.Missing); errors.As(err, &lacks) {
		err = nil
	}
	return m, err
}

// newFiles collects the files of a tree that another one lacks, by path. Folders
// that are the same in both are not read.
func newFiles(objects *source.Objects, old, now plumbing.Hash, prefix string, added map[string]plumbing.Hash) error {
	was, err := readTree(objects, old)
	if err != nil {
		return err
	}
	is, err := readTree(objects, now)
	if err != nil {
		return err
	}
	for name, e := range is {
		o, there := was[name]
		switch {
		case there && o == e:
		case e.Mode == modeFolder:
			from := plumbing.ZeroHash
			if there && o.Mode == modeFolder {
				from = o.ID
			}
			if err := newFiles(objects, from, e.ID, prefix+name+"/", added); err != nil {
				return err
			}
		case !there || o.Mode == modeFolder:
			added[prefix+name] = e.ID
		}
	}
	return nil
}

// readTree reads a tree object; the zero id is one without files.
func readTree(objects *source.Objects, id plumbing.Hash) (map[string]entry, error) {
	out := map[string]entry{}
	if id.IsZero() {
		return out, nil
	}
	kind, data, err := objects.Read(id.String())
	if err != nil {
		return nil, err
	}
	if kind != "tree" {
		return nil, fmt.Errorf("object %s is a %s, not a tree", id, kind)
	}
	for len(data) > 0 {
		mode, name, sub, rest, err := treeEntry(data)
		if err != nil {
			return nil, fmt.Errorf("tree %s: %w", id, err)
		}
		out[string(name)] = entry{Mode: mode, ID: sub}
		data = rest
	}
	return out, nil
}
