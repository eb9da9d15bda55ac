package compat

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/errgroup"

	"github.com/llpatch/llpatch/internal/source"
)

// entry is what a tree has at a path. The zero value: nothing.
type entry struct {
	Mode source.Mode
	ID   plumbing.Hash
	// Other is set where something else decides about the path: a file where a
	// folder of the path is meant, a file in the folder that the path is, or a
	// name that differs in case only. Mode and ID are then those of that file.
	Other string
}

func (e entry) there() bool { return e.Mode != 0 && e.Other == "" }

// row is what a tree has at each of the paths that are asked for, in their order.
type row []entry

// modeFolder is git's mode of a tree in a tree.
const modeFolder source.Mode = 0o040000

// asked is a folder or a file on the way to the paths that are asked for.
type asked struct {
	path  string
	index int               // of the path; -1 for a folder
	below map[string]*asked // by name
	under []int             // indexes of all the paths below
	made  bool              // a patch may create something here or below
}

// newAsked makes the tree of the paths asked for. made tells which of them a
// patch may create.
func newAsked(paths []string, made map[string]bool) *asked {
	root := &asked{index: -1, below: map[string]*asked{}}
	for i, p := range paths {
		at := root
		parts := strings.Split(p, "/")
		for k, name := range parts {
			at.under = append(at.under, i)
			at.made = at.made || made[p]
			next := at.below[name]
			if next == nil {
				next = &asked{path: strings.Join(parts[:k+1], "/"), index: -1, below: map[string]*asked{}}
				at.below[name] = next
			}
			at = next
		}
		at.index = i
		at.made = at.made || made[p]
	}
	return root
}

// treeKey is a tree object at a place of the asked tree.
type treeKey struct {
	at *asked
	id plumbing.Hash
}

// rowReader reads rows; it is for one goroutine. A tree object is parsed once
// for each place that it is at.
type rowReader struct {
	objects *source.Objects
	root    *asked
	width   int
	known   map[treeKey][]entry // in the order of at.under
}

func newRowReader(objects *source.Objects, root *asked, width int) *rowReader {
	return &rowReader{objects: objects, root: root, width: width, known: map[treeKey][]entry{}}
}

// row returns the row of a commit or of a tag object.
func (r *rowReader) row(id plumbing.Hash) (row, error) {
	_, c, err := readCommit(r.objects, id)
	if err != nil {
		return nil, err
	}
	out := make(row, r.width)
	found, err := r.tree(r.root, c.tree)
	if err != nil {
		return nil, err
	}
	for k, i := range r.root.under {
		out[i] = found[k]
	}
	// Roots differ with every commit: keeping them costs memory and saves nothing.
	delete(r.known, treeKey{r.root, c.tree})
	return out, nil
}

func (r *rowReader) tree(at *asked, id plumbing.Hash) ([]entry, error) {
	key := treeKey{at, id}
	if got, ok := r.known[key]; ok {
		return got, nil
	}
	kind, data, err := r.objects.Read(id.String())
	if err != nil {
		return nil, err
	}
	if kind != "tree" {
		return nil, fmt.Errorf("object %s is a %s, not a tree", id, kind)
	}
	found := make([]entry, len(at.under))
	set := func(index int, e entry) {
		k, _ := slices.BinarySearch(at.under, index)
		found[k] = e
	}
	seen := 0
	var twins map[string]*asked // by lower-case name, of what a patch may create
	if at.made {
		twins = map[string]*asked{}
		for name, n := range at.below {
			if n.made {
				twins[strings.ToLower(name)] = n
			}
		}
	}
	for len(data) > 0 {
		mode, name, sub, rest, err := treeEntry(data)
		if err != nil {
			return nil, fmt.Errorf("tree %s: %w", id, err)
		}
		data = rest
		n := at.below[string(name)]
		if n == nil {
			if twins != nil {
				if n = twins[strings.ToLower(string(name))]; n != nil {
					r.twin(at, n, string(name), mode, sub, found)
				}
			}
			continue
		}
		seen++
		if mode != modeFolder {
			if n.index >= 0 {
				set(n.index, entry{Mode: mode, ID: sub})
			}
			for _, i := range n.under {
				set(i, entry{Mode: mode, ID: sub, Other: n.path})
			}
		} else {
			if n.index >= 0 && n.made {
				set(n.index, entry{Mode: source.Regular, Other: n.path + "/" + inFolder})
			}
			if len(n.under) > 0 {
				below, err := r.tree(n, sub)
				if err != nil {
					return nil, err
				}
				for k, i := range n.under {
					set(i, below[k])
				}
			}
		}
		if seen == len(at.below) && twins == nil {
			break
		}
	}
	r.known[key] = found
	return found, nil
}

// inFolder names a file that stands for the content of a folder: that there is
// one is all that matters to a patch that would create a file in its place.
const inFolder = "content"

// twin notes that a path which a patch may create differs in case only from a
// name that is there. What is really there at the path counts more.
func (r *rowReader) twin(at, n *asked, name string, mode source.Mode, id plumbing.Hash, found []entry) {
	path := strings.TrimPrefix(at.path+"/"+name, "/")
	e := entry{Mode: mode, ID: id, Other: path}
	if mode == modeFolder {
		e = entry{Mode: source.Regular, Other: path + "/" + inFolder}
	}
	for k, i := range at.under {
		if (i == n.index || slices.Contains(n.under, i)) && found[k] == (entry{}) {
			found[k] = e
		}
	}
}

// treeEntry reads the first entry of a tree object: "<octal mode> <name>\0<id>".
func treeEntry(data []byte) (mode source.Mode, name []byte, id plumbing.Hash, rest []byte, err error) {
	end := bytes.IndexByte(data, 0)
	if end < 0 || len(data) < end+1+len(id) {
		return 0, nil, id, nil, fmt.Errorf("it ends in the middle of an entry")
	}
	octal, name, ok := bytes.Cut(data[:end], []byte(" "))
	if !ok || len(octal) > 6 {
		return 0, nil, id, nil, fmt.Errorf("entry without a mode")
	}
	for _, c := range octal {
		if c < '0' || c > '7' {
			return 0, nil, id, nil, fmt.Errorf("entry without a mode")
		}
		mode = mode<<3 | source.Mode(c-'0')
	}
	copy(id[:], data[end+1:])
	return mode, name, id, data[end+1+len(id):], nil
}

// readRows reads the rows of all objects, several at once. Their order should
// be that of the history: neighbours share most of their trees.
func (h *History) readRows(ctx context.Context, o Options, root *asked, width int, ids []plumbing.Hash) ([]row, error) {
	rows := make([]row, len(ids))
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for from, to := range blocks(len(ids), o.workers()) {
		g.Go(func() error {
			objects, err := h.repo.Objects()
			if err != nil {
				return err
			}
			defer func() { _ = objects.Release() }() // it was only read from
			r := newRowReader(objects, root, width)
			// Packs hold newer objects whole and older ones as differences from them.
			for i := to - 1; i >= from; i-- {
				if err := ctx.Err(); err != nil {
					return err
				}
				if rows[i], err = r.row(ids[i]); err != nil {
					return err
				}
				o.progress("read tags", int(done.Add(1)), len(ids))
			}
			return nil
		})
	}
	return rows, g.Wait()
}

// blocks yields the ends of n parts of about the same length.
func blocks(length, n int) func(func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for k := range n {
			from, to := length*k/n, length*(k+1)/n
			if from < to && !yield(from, to) {
				return
			}
		}
	}
}
