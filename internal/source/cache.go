package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// cacheDir is one upstream's part of the cache:
//
//	<upstream>.git        a bare repository, one pack for each tree fetched
//	<upstream>.scratch/   what is being fetched; renamed into the repository when whole
//	<upstream>.downloads/ files on their way, *.part until they are whole
//	<upstream>.pins.json  what was fetched without a pin, for --offline
//	<upstream>.sources.json which source each tree came from
//	<upstream>.lock       held by the one process that changes any of these
//
// A tree is in the cache when refs/llpatch/trees/<tree id> is there, which is
// written last: whatever a killed process leaves behind is not used.
type cacheDir struct {
	root     string
	upstream string
}

func (c cacheDir) path(suffix string) string { return filepath.Join(c.root, c.upstream+suffix) }

func (c cacheDir) repo() gitDir { return gitDir{dir: c.path(".git")} }

// treeRef is the name of the ref that says that a tree is whole.
func treeRef(id string) plumbing.ReferenceName {
	return plumbing.ReferenceName("refs/llpatch/trees/" + id)
}

// lock waits for the cache, and sweeps what a killed process left. It says so
// when it has to wait.
func (f *fetcher) lock(ctx context.Context) (unlock func() error, err error) {
	if f.locked { // by this fetch already
		return func() error { return nil }, nil
	}
	l, err := lock.Wait(ctx, f.cache.path(".lock"), false, func() {
		f.Log.Warn("another llpatch is using the cache, waiting for it", "cache", f.cache.root, "upstream", f.upstream)
	})
	if err != nil {
		if ctx.Err() == nil {
			err = cacheError(err)
		}
		return nil, err
	}
	f.locked = true
	unlock = func() error { f.locked = false; return l.Close() }
	// Only the holder of the lock makes scratch folders: these are nobody's.
	if err := os.RemoveAll(f.cache.path(".scratch")); err != nil {
		return nil, errors.Join(cacheError(err), unlock())
	}
	return unlock, f.cache.init()
}

// init makes the bare repository. Each step may be repeated, so a kill between
// two of them does no harm.
func (c cacheDir) init() error {
	dir := c.path(".git")
	for _, sub := range []string{"objects/pack", "refs/llpatch/trees"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(sub)), 0o755); err != nil {
			return cacheError(err)
		}
	}
	for name, text := range map[string]string{
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n",
		"HEAD":   "ref: refs/heads/master\n",
	} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := atomicfile.WriteFile(path, []byte(text), 0o644); err != nil {
			return cacheError(err)
		}
	}
	return nil
}

// holds reports whether a tree was fetched whole.
func (c cacheDir) holds(id string) bool {
	if _, err := os.Stat(c.path(".git")); err != nil {
		return false
	}
	st := newStorage(c.repo())
	defer func() { _ = st.Close() }()
	_, err := st.Reference(treeRef(id))
	return err == nil
}

// install moves a pack from scratch into the repository and marks the tree as
// whole. The index goes first, because go-git looks for packs.
func (c cacheDir) install(s *scratch, tree string) error {
	for _, ext := range []string{".idx", ".pack"} {
		for _, name := range s.packs {
			err := os.Rename(filepath.Join(s.packDir(), name+ext), filepath.Join(c.path(".git"), "objects", "pack", name+ext))
			if err != nil {
				return cacheError(err)
			}
		}
	}
	// Not written beside its place: what a kill leaves there git takes for a ref.
	ref := filepath.Join(s.dir, "ref")
	if err := atomicfile.WriteFile(ref, []byte(tree+"\n"), 0o644); err != nil {
		return cacheError(err)
	}
	return cacheError(os.Rename(ref, filepath.Join(c.path(".git"), filepath.FromSlash(treeRef(tree).String()))))
}

// drop removes a tree that turned out damaged, with every pack that cannot be
// read or that holds the damaged object, so that it can be fetched again.
func (c cacheDir) drop(tree, object string) error {
	errs := []error{removeIfThere(filepath.Join(c.path(".git"), filepath.FromSlash(treeRef(tree).String())))}
	dir := filepath.Join(c.path(".git"), "objects", "pack")
	packs, err := fs.Glob(os.DirFS(dir), "*.pack")
	if err != nil {
		return err
	}
	for _, name := range packs {
		pack := filepath.Join(dir, name)
		idx := strings.TrimSuffix(pack, ".pack") + ".idx"
		if indexLacks(idx, plumbing.NewHash(object)) {
			continue
		}
		errs = append(errs, os.Remove(pack), removeIfThere(idx))
	}
	return cacheError(errors.Join(errs...))
}

// indexLacks reports whether a pack's index is sound and does not list the object.
func indexLacks(path string, object plumbing.Hash) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	idx := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(file).Decode(idx); err != nil {
		return false
	}
	has, err := idx.Contains(object)
	return err == nil && !has
}

// remember keeps the pin of a tag that is in no lock.
func (c cacheDir) remember(t tag.Tag, p spec.Pin) error { return keep(c, ".pins.json", t.String(), p) }

// pins are those that were remembered.
func (c cacheDir) pins() map[string]spec.Pin { return kept[spec.Pin](c, ".pins.json") }

// came keeps the source that a tree came from.
func (c cacheDir) came(tree, origin string) error { return keep(c, ".sources.json", tree, origin) }

// origins are the sources of the trees, by tree id.
func (c cacheDir) origins() map[string]string { return kept[string](c, ".sources.json") }

// keep adds an entry to one of the cache's records.
func keep[V any](c cacheDir, record, key string, v V) error {
	all := kept[V](c, record)
	all[key] = v
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return cacheError(atomicfile.WriteFile(c.path(record), append(b, '\n'), 0o644))
}

// kept returns a record; one that cannot be read holds nothing.
func kept[V any](c cacheDir, record string) map[string]V {
	all := map[string]V{}
	b, err := os.ReadFile(c.path(record))
	if err != nil || json.Unmarshal(b, &all) != nil || all == nil {
		return map[string]V{}
	}
	return all
}

// cacheError marks an error as one of the cache folder, which no other source
// can cure. The cause names the file.
func cacheError(err error) error {
	if err == nil || errors.Is(err, errCache) {
		return err
	}
	return fmt.Errorf("%w: %w", errCache, err)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
