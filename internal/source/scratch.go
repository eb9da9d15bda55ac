package source

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// scratch is a folder beside the cache's repository in which a pack becomes
// whole and is judged before anything can see it.
type scratch struct {
	dir   string
	packs []string // pack-<checksum>, each with its index
}

func newScratch(c cacheDir) (*scratch, error) {
	if err := os.MkdirAll(c.path(".scratch"), 0o755); err != nil {
		return nil, cacheError(err)
	}
	dir, err := os.MkdirTemp(c.path(".scratch"), "fetch-")
	if err != nil {
		return nil, cacheError(err)
	}
	s := &scratch{dir: dir}
	return s, cacheError(os.MkdirAll(s.packDir(), 0o755))
}

func (s *scratch) packDir() string { return filepath.Join(s.dir, "objects", "pack") }

func (s *scratch) store() *store {
	return &store{where: s.dir, open: func() ([]*filesystem.Storage, error) {
		return []*filesystem.Storage{newStorage(gitDir{dir: s.dir})}, nil
	}}
}

// create makes a new file among the packs, which whoever may read the cache can read:
// os.CreateTemp's are its maker's alone.
func (s *scratch) create(prefix string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(s.packDir(), prefix+rand.Text()), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	return file, cacheError(err)
}

// addPack reads a whole pack, proves every object in it and indexes it.
func (s *scratch) addPack(ctx context.Context, r io.Reader) error {
	file, err := s.create("tmp_pack_")
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // after Sync there is nothing left to fail
	_, err = io.Copy(file, regular.Until(ctx, io.LimitReader(r, maxDownload)))
	if disk := new(fs.PathError); errors.As(err, &disk) {
		return cacheError(err)
	}
	if err != nil {
		return fmt.Errorf("cut: %w", err)
	}
	return s.indexed(ctx, file)
}

// indexed writes the index of the pack in file, closes it, and gives both their names.
func (s *scratch) indexed(ctx context.Context, file *os.File) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return cacheError(err)
	}
	idx, err := s.create("tmp_idx_")
	if err != nil {
		return err
	}
	defer func() { _ = idx.Close() }() // after Sync there is nothing left to fail
	id, err := indexPack(ctx, file, size, idx)
	if err != nil {
		return err
	}
	// Closed, for Windows renames no open file.
	if err := errors.Join(file.Sync(), idx.Sync(), file.Close(), idx.Close()); err != nil {
		return cacheError(err)
	}
	name := "pack-" + id.String()
	s.packs = append(s.packs, name)
	return cacheError(errors.Join(
		os.Rename(idx.Name(), filepath.Join(s.packDir(), name+".idx")),
		os.Rename(file.Name(), filepath.Join(s.packDir(), name+".pack"))))
}

// errNoFile says that a tree is empty: nothing can be built from it.
var errNoFile = errors.New("it holds no file")

// found is what a transport put into a scratch folder. The tree is not judged yet.
type found struct {
	pin   spec.Pin
	tells tag.Tag // the release that it says it is; zero where it says none
}

// intoCache lets a transport fill a scratch folder, judges the tree, and takes
// it into the cache.
func (f *fetcher) intoCache(ctx context.Context, t tag.Tag, want want,
	fill func(context.Context, *scratch) (found, error),
) (_ *Tree, err error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// Whoever held the lock before may have fetched it.
	if tree, err := f.fromCache(ctx, t, want); tree != nil || err != nil {
		return tree, err
	}
	s, err := newScratch(f.cache)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cacheError(os.RemoveAll(s.dir))) }()
	got, err := fill(ctx, s)
	if err != nil {
		return nil, err
	}
	want.number(t, &got.pin)
	if err := f.identify(t, want, got); err != nil {
		return nil, err
	}
	if err := f.complete(ctx, s, got.pin.Tree); err != nil {
		return nil, err
	}
	if want.known {
		got.pin = want.pin
	} else if err := f.cache.remember(t, got.pin); err != nil {
		return nil, err
	}
	if err := f.cache.came(got.pin.Tree, f.origin()); err != nil {
		return nil, err
	}
	if err := f.cache.install(s, got.pin.Tree); err != nil {
		return nil, err
	}
	return f.openCached(ctx, t, got.pin)
}

// identify decides whether what came is the tag. A pin proves that, and nothing
// else can where there is one; without, it must say so itself.
func (f *fetcher) identify(t tag.Tag, want want, got found) error {
	err := f.judge(t, f.label, want, got.pin)
	if want.known && err == nil {
		return nil
	}
	if got.tells != (tag.Tag{}) && got.tells != t {
		f.offer(got.tells)
		return otherTag(got.tells, t)
	}
	if err != nil {
		return err
	}
	if err := checkPin(t, got.pin); err != nil {
		return err
	}
	if got.tells == (tag.Tag{}) {
		return unproven(f.upstream, t, got.pin)
	}
	return nil
}

// complete makes sure that every file of the tree is in the scratch folder.
// Their contents were hashed when the pack was indexed.
func (f *fetcher) complete(ctx context.Context, s *scratch, tree string) error {
	st := s.store()
	defer func() { _ = st.close() }() // only read from
	entries, err := loadTree(ctx, st, tree)
	if err != nil {
		return err
	}
	r, err := st.acquire()
	if err != nil {
		return err
	}
	defer st.release(r)
	if len(entries) == 0 {
		return errNoFile
	}
	for _, e := range entries {
		if e.Mode != Submodule && !r.has(e.Blob) {
			return fmt.Errorf("it lacks %s (blob %s)", e.Path, e.Blob)
		}
	}
	return nil
}
