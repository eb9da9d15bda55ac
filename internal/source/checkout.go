package source

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Stats is what a checkout did.
type Stats struct {
	Written int      // files written, or whose mode was changed
	Kept    int      // files that were right already; their mtime stays
	Removed int      // files and links that were not in the tree
	Unknown []string // of those, what no earlier checkout wrote
	Bytes   int64    // written
}

// readers is how many goroutines read and write files. Two are faster than one
// (0.5 s against 0.7 s for b8390); each holds delta bases of its own.
const readers = 2

// Checkout makes dir hold the tree's files, without those that exclude names
// (see excluder for the patterns) and without submodules, and nothing else: what
// is there and not in the tree is removed, since an unknown source file can
// change a build. Files that are right already are not touched.
//
// What it wrote stands in <dir>.index.json. It refuses a folder with files in it
// that has no such index, because it would remove them. Each file is replaced at
// once, and no symlink in dir is followed; what a stopped checkout left is put
// right by the next.
func (t *Tree) Checkout(ctx context.Context, dir string, exclude []string) (Stats, error) {
	x, err := newExcluder(exclude)
	if err != nil {
		return Stats{}, err
	}
	dir = filepath.Clean(dir)
	c := &checkout{tree: t, want: map[string]Entry{}, folders: map[string]bool{".": true}}
	for _, e := range t.entries {
		if e.Mode == Submodule || x.skips(e.Path) {
			continue
		}
		c.want[e.Path] = e
		for d := path.Dir(e.Path); !c.folders[d]; d = path.Dir(d) {
			c.folders[d] = true
		}
	}
	if err := c.open(dir); err != nil {
		return Stats{}, fmt.Errorf("check out to %s: %w", dir, err)
	}
	defer func() { _ = c.root.Close() }() // a folder that was only looked up
	err = c.run(ctx)
	if err == nil {
		err = c.next.write(dir)
	}
	if err != nil {
		return c.stats, fmt.Errorf("check out to %s: %w", dir, err)
	}
	return c.stats, nil
}

type checkout struct {
	tree    *Tree
	want    map[string]Entry
	folders map[string]bool // that the wanted files need
	root    *os.Root
	old     checkoutIndex

	todo  []Entry  // to be written
	gone  []string // to be removed
	empty []string // folders to be removed, parents first
	stats Stats

	mu      sync.Mutex
	next    checkoutIndex
	changed atomic.Int64
	bytes   atomic.Int64
	temps   atomic.Int64 // temporary files so far
}

// open claims the folder before anything is written, so that a killed checkout
// can go on.
func (c *checkout) open(dir string) error {
	var claimed bool
	var err error
	if c.old, claimed, err = readIndex(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !claimed {
		names, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return fmt.Errorf("it is not empty and no checkout of llpatch (%s is missing): its files would be removed; give an empty folder", indexPath(dir))
		}
		if err := c.old.write(dir); err != nil {
			return err
		}
	}
	c.next = checkoutIndex{Version: indexVersion, Files: make(map[string]indexFile, len(c.want))}
	c.root, err = os.OpenRoot(dir)
	return err
}

func (c *checkout) run(ctx context.Context) error {
	// What cannot be had must show before anything is changed.
	if err := c.survey(ctx); err != nil {
		return err
	}
	if err := c.available(); err != nil {
		return err
	}
	if err := c.clean(); err != nil {
		return err
	}
	if err := c.write(ctx); err != nil {
		return err
	}
	c.stats.Written, c.stats.Bytes = int(c.changed.Load()), c.bytes.Load()
	return nil
}

// survey compares the folder with the tree and decides what is to be done.
func (c *checkout) survey(ctx context.Context) error {
	right := map[string]bool{}
	err := fs.WalkDir(c.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e, wanted := c.want[p]
		switch {
		case d.IsDir() && (wanted || !c.folders[p]):
			c.empty = append(c.empty, p)
		case d.IsDir():
		case !wanted: // also what stands in the place of a folder
			c.gone = append(c.gone, p)
		default:
			right[p], err = c.isRight(p, e, d)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range c.tree.entries {
		if _, wanted := c.want[e.Path]; wanted && !right[e.Path] {
			c.todo = append(c.todo, e)
		}
	}
	c.stats.Kept = len(c.want) - len(c.todo)
	return nil
}

// isRight reports whether what stands at p is the entry, and notes it if so.
func (c *checkout) isRight(p string, e Entry, d fs.DirEntry) (bool, error) {
	fi, err := d.Info()
	if err != nil {
		return false, err
	}
	if m := diskMode(fi); m != e.Mode && !(runtime.GOOS == "windows" && m == Regular && e.Mode == Executable) {
		return false, nil
	}
	if e.Mode == Symlink {
		target, err := c.root.Readlink(p)
		return err == nil && blobID([]byte(filepath.ToSlash(target))) == e.Blob, nil
	}
	blob, ok := c.old.trusts(p, fi)
	if !ok {
		data, err := c.root.ReadFile(p)
		if err != nil {
			return false, err
		}
		blob = blobID(data)
	}
	if blob != e.Blob {
		return false, nil
	}
	c.next.Files[p] = indexFile{Size: fi.Size(), MTime: fi.ModTime().UnixNano(), Mode: e.Mode, Blob: blob}
	return true, nil
}

// diskMode is the git mode of something on the disk, 0 for what git cannot hold.
func diskMode(fi fs.FileInfo) Mode {
	switch m := fi.Mode(); {
	case m&fs.ModeSymlink != 0:
		return Symlink
	case !m.IsRegular():
		return 0
	case m&0o100 != 0:
		return Executable
	}
	return Regular
}

// available makes sure that every content to be written is there.
func (c *checkout) available() error {
	var r *reader
	for _, e := range c.todo {
		if _, ok := c.tree.memory[e.Blob]; ok {
			continue
		}
		if r == nil {
			var err error
			if r, err = c.tree.store.acquire(); err != nil {
				return err
			}
			defer c.tree.store.release(r)
		}
		if !r.has(e.Blob) && c.tree.store.heal == nil {
			return &Missing{Where: r.where, Path: e.Path, Blob: e.Blob}
		}
	}
	return nil
}

// clean removes what is not wanted, and what stands in the way of a folder.
func (c *checkout) clean() error {
	for _, p := range c.gone {
		if err := c.root.Remove(p); err != nil {
			return err
		}
		if _, ours := c.old.Files[p]; !ours && !strings.HasPrefix(path.Base(p), tempPrefix) {
			c.stats.Unknown = append(c.stats.Unknown, p)
		}
	}
	c.stats.Removed = len(c.gone)
	for _, p := range slices.Backward(c.empty) {
		if err := c.root.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// write writes what is to be written, one folder at a time for each goroutine:
// files that are deltas of one another mostly stand side by side.
func (c *checkout) write(ctx context.Context) error {
	var groups [][]Entry
	for _, e := range c.todo {
		if n := len(groups); n > 0 && path.Dir(groups[n-1][0].Path) == path.Dir(e.Path) {
			groups[n-1] = append(groups[n-1], e)
			continue
		}
		groups = append(groups, []Entry{e})
	}
	var at atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(readers, len(groups)) {
		g.Go(func() error {
			w := writer{checkout: c}
			defer w.close()
			for i := at.Add(1) - 1; i < int64(len(groups)); i = at.Add(1) - 1 {
				if err := w.folder(ctx, groups[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
