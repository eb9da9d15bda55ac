package compat

import (
	"fmt"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/source"
)

// moved says where a file went that a commit took away: to a new path with the
// same content, or with the same name, or nowhere.
func (s *search) moved(before, after plumbing.Hash, file string, blob plumbing.Hash) (string, error) {
	_, old, err := readCommit(s.objects, before)
	if err != nil {
		return "", err
	}
	_, now, err := readCommit(s.objects, after)
	if err != nil {
		return "", err
	}
	added := map[string]plumbing.Hash{}
	if err := newFiles(s.objects, old.tree, now.tree, "", added); err != nil {
		return "", err
	}
	var same, named []string
	for p, id := range added {
		switch {
		case id == blob:
			same = append(same, p)
		case path.Base(p) == path.Base(file):
			named = append(named, p)
		}
	}
	slices.Sort(same)
	slices.Sort(named)
	switch {
	case len(same) > 0:
		return fmt.Sprintf("%s is now %s, unchanged", file, same[0]), nil
	case len(named) > 0:
		return fmt.Sprintf("%s was removed; %s is new and has its name", file, named[0]), nil
	}
	return file + " was removed", nil
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
