package source

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// blobID returns the git id of a file's content. go-git's SHA-1 is the
// collision-detecting one that git itself uses.
func blobID(data []byte) string {
	return plumbing.ComputeHash(plumbing.BlobObject, data).String()
}

// treeID returns the git tree id of entries, which are sorted by path. Where
// sink is not nil, it is given the content of every tree object, children first.
//
// Sorting whole paths by byte is git's order inside each folder as well: a
// folder sorts there as if its name ended in a slash, and here it does.
func treeID(entries []Entry, sink func(content []byte) error) (string, error) {
	b := treeBuilder{entries: entries, sink: sink}
	id, err := b.folder("")
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(id[:]), nil
}

type treeBuilder struct {
	entries []Entry // what is left to place
	sink    func([]byte) error
}

// folder consumes the entries below prefix and returns the id of that tree.
func (b *treeBuilder) folder(prefix string) (plumbing.Hash, error) {
	var content []byte
	files := map[string]bool{}
	add := func(mode Mode, name string, id []byte) {
		content = fmt.Appendf(content, "%o %s\x00", uint32(mode), name)
		content = append(content, id...)
	}
	for len(b.entries) > 0 && strings.HasPrefix(b.entries[0].Path, prefix) {
		e := b.entries[0]
		rest := e.Path[len(prefix):]
		name, _, deeper := strings.Cut(rest, "/")
		if files[name] {
			return plumbing.ZeroHash, fmt.Errorf("%s is there twice, or as a file and as a folder", prefix+name)
		}
		if deeper {
			// A folder's entries are contiguous, so its name needs no note.
			id, err := b.folder(prefix + name + "/")
			if err != nil {
				return plumbing.ZeroHash, err
			}
			add(modeFolder, name, id[:])
			continue
		}
		b.entries = b.entries[1:]
		files[name] = true
		id, err := hex.DecodeString(e.Blob)
		if err != nil || len(id) != len(plumbing.ZeroHash) {
			return plumbing.ZeroHash, fmt.Errorf("%s: %q is not an object id", e.Path, e.Blob)
		}
		add(e.Mode, name, id)
	}
	if b.sink != nil {
		if err := b.sink(content); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return plumbing.ComputeHash(plumbing.TreeObject, content), nil
}

// rawEntry is an entry of one tree object.
type rawEntry struct {
	mode Mode
	name string
	id   plumbing.Hash
}

// parseTree reads a tree object. It refuses names that would leave the folder
// or reach into a repository's own data when written out.
func parseTree(b []byte) ([]rawEntry, error) {
	var out []rawEntry
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, ok2 := bytes.Cut(head, []byte{' '})
		if !ok || !ok2 || len(rest) < len(plumbing.ZeroHash) {
			return nil, fmt.Errorf("tree entry %d is cut off", len(out))
		}
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if err != nil {
			return nil, fmt.Errorf("tree entry %d: mode %q", len(out), mode)
		}
		e := rawEntry{mode: Mode(m), name: string(name), id: plumbing.Hash(rest[:len(plumbing.ZeroHash)])}
		if err := checkName(e.name); err != nil {
			return nil, err
		}
		if !e.mode.valid() && e.mode != modeFolder {
			return nil, fmt.Errorf("%q has mode %s, which is no file, link, folder or submodule", e.name, e.mode)
		}
		b = rest[len(e.id):]
		out = append(out, e)
	}
	return out, nil
}

// maxName is how many bytes a name may have on the file systems of all systems.
const maxName = 255

// checkName refuses a name that is not a plain name inside a folder. ".git" is
// refused in every spelling that some file system takes for it, as git does.
func checkName(name string) error {
	switch {
	case name == "", name == ".", name == "..":
		return fmt.Errorf("name %q in a tree", name)
	case len(name) > maxName:
		return fmt.Errorf("name %q… in a tree has %d bytes, and file systems take %d", clip(name), len(name), maxName)
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("name %q in a tree holds a slash or a zero byte", name)
	case strings.EqualFold(name, ".git"), strings.EqualFold(name, "git~1"):
		return fmt.Errorf("name %q in a tree would be a repository's own folder", name)
	}
	return nil
}

// checkPath is checkName for every part of a path.
func checkPath(p string) error {
	for name := range strings.SplitSeq(p, "/") {
		if err := checkName(name); err != nil {
			return fmt.Errorf("path %q: %w", clip(p), err)
		}
	}
	return nil
}
