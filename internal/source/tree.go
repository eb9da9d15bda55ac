package source

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Mode is a git file mode, as tree objects hold it.
type Mode uint32

// The modes that git writes.
const (
	Regular    Mode = 0o100644
	Executable Mode = 0o100755
	Symlink    Mode = 0o120000
	Submodule  Mode = 0o160000 // listed, never written: its commit is another repository's

	modeFolder Mode = 0o040000
)

func (m Mode) valid() bool {
	return m == Regular || m == Executable || m == Symlink || m == Submodule
}

// String returns the mode in octal, as git prints it.
func (m Mode) String() string { return fmt.Sprintf("%06o", uint32(m)) }

// Entry is a file of a tree.
type Entry struct {
	Path string // slash-separated, from the top of the tree
	Mode Mode
	Blob string // git object id of the content; a commit id for a submodule
}

// File is the mode and the content of a file; a symlink's content is its target.
type File struct {
	Mode Mode
	Data []byte
}

// Tree is a verified, immutable git tree. Contents are read when they are asked
// for, so listing, ID and With need none of them. Its methods may be used by
// several goroutines at once.
type Tree struct {
	Tag      tag.Tag // what the tree is
	Upstream string
	Pin      spec.Pin
	Source   string // the transport that gave it; "cache" where none was needed
	// the source that first gave it: a declared one's name, GivenSource, or "cache" where that is
	// forgotten
	Origin  string
	Asked   tag.Tag // what was asked for, where Tag is only the nearest; else zero
	InPlace bool    // it is read from a repository of this machine where that is, and the cache holds nothing of it
	Unread  bool    // it was in the cache already, and Options.Override was not looked into

	id      string
	entries []Entry
	store   *store            // nil: every content is in memory
	memory  map[string][]byte // by blob id: contents that the store need not have
	shared  bool              // contents in memory are the callers' as well, and nobody changes them
}

// New returns a tree of the given files, by path, held in memory.
func New(files map[string]File) (*Tree, error) {
	changes := make(map[string]*File, len(files))
	for p, f := range files {
		changes[p] = &f
	}
	return new(Tree).With(changes)
}

// Known is New for files whose blob ids the caller has worked out, by path, or read
// from a repository that proves its contents. Nothing is hashed but the tree itself,
// and nothing copied: neither the caller nor who reads the tree, or one made of it by
// With, may change a content.
func Known(files map[string]File, blobs map[string]string) (*Tree, error) {
	t := &Tree{memory: map[string][]byte{}, shared: true}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		f, id := files[p], blobs[p]
		if err := checkPath(p); err != nil {
			return nil, err
		}
		t.memory[id] = f.Data
		t.entries = append(t.entries, Entry{Path: p, Mode: f.Mode, Blob: id})
	}
	id, err := treeID(t.entries, nil)
	if err != nil {
		return nil, err
	}
	t.id = id
	return t, nil
}

// ID returns the git tree id of the whole tree, 40 hex digits.
func (t *Tree) ID() string { return t.id }

// Files returns every file, sorted by path. The slice is the caller's.
func (t *Tree) Files() []Entry { return slices.Clone(t.entries) }

// Stat returns the entry of a file, and whether there is one.
func (t *Tree) Stat(path string) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(t.entries, path, func(e Entry, p string) int { return strings.Compare(e.Path, p) })
	if !ok {
		return Entry{}, false
	}
	return t.entries[i], true
}

// Has reports whether the tree holds a file or a folder at path.
func (t *Tree) Has(path string) bool {
	if _, ok := t.Stat(path); ok {
		return true
	}
	under := path + "/" // not beside the file path in the order: path-x comes before path/x
	i, _ := slices.BinarySearchFunc(t.entries, under, func(e Entry, p string) int { return strings.Compare(e.Path, p) })
	return i < len(t.entries) && strings.HasPrefix(t.entries[i].Path, under)
}

// Read returns a file. The error is fs.ErrNotExist where the tree has no such
// file, *Missing where the repository lacks its content, *Corrupt where the
// content is not what the tree says.
func (t *Tree) Read(path string) (File, error) {
	e, ok := t.Stat(path)
	if !ok {
		return File{}, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	if e.Mode == Submodule {
		return File{}, fmt.Errorf("read %s: it is a submodule at %s", path, e.Blob)
	}
	if data, ok := t.memory[e.Blob]; ok {
		if !t.shared {
			data = slices.Clone(data)
		}
		return File{Mode: e.Mode, Data: data}, nil
	}
	r, err := t.store.acquire()
	if err != nil {
		return File{}, err
	}
	defer t.store.release(r)
	data, err := t.store.blob(r, e)
	if err != nil {
		return File{}, err
	}
	return File{Mode: e.Mode, Data: data}, nil
}

// With returns the tree with some files changed; a nil file is deleted, and
// deleting one that is not there is an error. The receiver stays as it is.
func (t *Tree) With(changes map[string]*File) (*Tree, error) {
	n := *t
	n.memory = maps.Clone(t.memory)
	if n.memory == nil {
		n.memory = map[string][]byte{}
	}
	byPath := make(map[string]Entry, len(t.entries)+len(changes))
	for _, e := range t.entries {
		byPath[e.Path] = e
	}
	for p, f := range changes {
		if err := checkPath(p); err != nil {
			return nil, err
		}
		if f == nil {
			if _, ok := byPath[p]; !ok {
				return nil, &fs.PathError{Op: "delete", Path: p, Err: fs.ErrNotExist}
			}
			delete(byPath, p)
			continue
		}
		if !f.Mode.valid() || f.Mode == Submodule {
			return nil, fmt.Errorf("%s: mode %s is not one of a file or a link", p, f.Mode)
		}
		id := blobID(f.Data)
		n.memory[id] = f.Data
		if !t.shared {
			n.memory[id] = slices.Clone(f.Data)
		}
		byPath[p] = Entry{Path: p, Mode: f.Mode, Blob: id}
	}
	n.entries = slices.SortedFunc(maps.Values(byPath), func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	id, err := treeID(n.entries, nil)
	if err != nil {
		return nil, err
	}
	n.id = id
	return &n, nil
}

// Sub returns a folder of the tree as a tree of its own, whose ID is the one that git has for
// the folder. Both share what reading opened. The error is fs.ErrNotExist where there is none.
func (t *Tree) Sub(dir string) (*Tree, error) {
	n := *t
	n.entries = nil
	for _, e := range t.entries {
		if below, ok := strings.CutPrefix(e.Path, dir+"/"); ok {
			e.Path = below
			n.entries = append(n.entries, e)
		}
	}
	if n.entries == nil {
		return nil, &fs.PathError{Op: "read", Path: dir, Err: fs.ErrNotExist}
	}
	var err error
	n.id, err = treeID(n.entries, nil)
	return &n, err
}

// Close lets go of the files that reading opened; trees made by With share
// them. A tree that is read again opens them again.
func (t *Tree) Close() error {
	if t.store == nil {
		return nil
	}
	return t.store.close()
}

// loadTree lists the tree with the given id, with every tree object hashed.
func loadTree(ctx context.Context, st *store, id string) ([]Entry, error) {
	r, err := st.acquire()
	if err != nil {
		return nil, err
	}
	defer st.release(r)
	var entries []Entry
	folders := 0
	var walk func(id, prefix string, depth int) error
	walk = func(id, prefix string, depth int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Deeper than any real tree; a crafted one must not exhaust the stack.
		if depth > 128 {
			return fmt.Errorf("%s: more than 128 folders deep", prefix)
		}
		// Folders count too: ten that name the next one twice are a thousand.
		if folders++; folders > maxEntries {
			return fmt.Errorf("tree %s has more than %d folders", id, maxEntries)
		}
		content, err := r.object(plumbing.TreeObject, id)
		if err != nil {
			return err
		}
		raw, err := parseTree(content)
		if err != nil {
			return fmt.Errorf("tree %s (%q): %w", id, prefix, err)
		}
		for _, e := range raw {
			if e.mode == modeFolder {
				if err := walk(e.id.String(), prefix+e.name+"/", depth+1); err != nil {
					return err
				}
				continue
			}
			if len(entries) >= maxEntries {
				return fmt.Errorf("tree %s has more than %d files", id, maxEntries)
			}
			entries = append(entries, Entry{Path: prefix + e.name, Mode: e.mode, Blob: e.id.String()})
		}
		return nil
	}
	if err := walk(id, "", 0); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	// What With will compute from the list must be the tree's own id; it is not
	// for a tree with an empty folder or with names out of git's order.
	got, err := treeID(entries, nil)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", id, err)
	}
	if got != id {
		return nil, fmt.Errorf("tree %s is not in git's normal form (an empty folder, or names out of order): its "+
			"files give %s", id, got)
	}
	return entries, nil
}

// Lacks returns the sorted paths of the files whose content the source does
// not have, as in a clone that left out its largest blobs. No content is read.
func (t *Tree) Lacks() ([]string, error) {
	if t.store == nil {
		return nil, nil
	}
	r, err := t.store.acquire()
	if err != nil {
		return nil, err
	}
	defer t.store.release(r)
	var paths []string
	for _, e := range t.entries {
		if _, ok := t.memory[e.Blob]; !ok && e.Mode != Submodule && !r.has(e.Blob) {
			paths = append(paths, e.Path)
		}
	}
	return paths, nil
}
