package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// Repository is a git repository on this machine, opened where it is, whose
// objects and tags are read one by one. It may lack objects, as a partial clone
// does. Its methods may be used by several goroutines at once.
type Repository struct {
	st    *store
	g     gitDir
	packs []*sharedPack
	bases cache.Object // what differences are applied to, shared by all readers
}

// basesCache bounds what is kept of delta bases, in bytes. Judging 36 patches on
// 2,365 tags takes 0.5 s of CPU more with half of it, and no less with twice.
const basesCache = 32 * cache.MiByte

// OpenRepository opens the repository at path: a work tree, a linked work tree
// or a bare repository. Nothing is written to it.
func OpenRepository(path string) (*Repository, error) {
	g, err := findGitDir(path)
	if err != nil {
		return nil, err
	}
	r := &Repository{
		st: &store{where: path, open: g.storages}, g: g,
		bases: cache.NewObjectLRU(basesCache),
	}
	dir := dotgit.New(g.fs())
	ids, err := dir.ObjectPacks()
	if err != nil {
		return nil, fmt.Errorf("packs of %s: %w", path, err)
	}
	for _, id := range ids {
		r.packs = append(r.packs, &sharedPack{dir: dir, id: id})
	}
	return r, nil
}

// sharedPack is a pack whose index is read once, when it is first needed.
type sharedPack struct {
	dir  *dotgit.DotGit
	id   plumbing.Hash
	once sync.Once
	idx  *idxfile.MemoryIndex
	err  error
}

func (p *sharedPack) index() (*idxfile.MemoryIndex, error) {
	p.once.Do(func() {
		f, err := p.dir.ObjectPackIdx(p.id)
		if err != nil {
			p.err = err
			return
		}
		p.idx = idxfile.NewMemoryIndex()
		p.err = errors.Join(idxfile.NewDecoder(f).Decode(p.idx), f.Close())
	})
	return p.idx, p.err
}

// Tags returns what each ref below refs/tags/ points to, by the name behind
// that: the id of a commit, or of an annotated tag. Names are never resolved in
// any other way, because b2034 is also the beginning of commit ids.
func (r *Repository) Tags() (tags map[string]string, err error) {
	st := newStorage(r.g)
	defer func() { err = errors.Join(err, st.Close()) }()
	refs, err := st.IterReferences()
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", r.st.where, err)
	}
	tags = map[string]string{}
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		if name, ok := strings.CutPrefix(ref.Name().String(), "refs/tags/"); ok && ref.Type() == plumbing.HashReference {
			tags[name] = ref.Hash().String()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", r.st.where, err)
	}
	return tags, nil
}

// Objects reads the objects of a repository. It is for one goroutine.
//
// It asks the packs directly: go-git's storage unpacks every file of more than
// 16 KiB twice, and hashes it once more for the answer.
type Objects struct {
	st    *store
	r     *reader // for what is in no pack, and for what is borrowed
	packs []*packfile.Packfile
}

// Objects returns a reader of the repository's objects for one goroutine.
// Release gives it back.
func (r *Repository) Objects() (*Objects, error) {
	rd, err := r.st.acquire()
	if err != nil {
		return nil, err
	}
	o := &Objects{st: r.st, r: rd}
	for _, p := range r.packs {
		idx, err := p.index()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pack %s of %s: %w", p.id, r.st.where, err), o.Release())
		}
		f, err := p.dir.ObjectPack(p.id)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pack %s of %s: %w", p.id, r.st.where, err), o.Release())
		}
		// Without a file system it gives back objects in memory.
		o.packs = append(o.packs, packfile.NewPackfileWithCache(idx, nil, f, r.bases, 0))
	}
	return o, nil
}

// Tree returns the tree of a commit, by its full id. It is read from the repository as
// long as that is open.
func (r *Repository) Tree(ctx context.Context, commit string) (*Tree, error) {
	rd, err := r.st.acquire()
	if err != nil {
		return nil, err
	}
	defer r.st.release(rd)
	c, err := rd.peel(commit)
	if err != nil {
		return nil, err
	}
	t := &Tree{Source: r.st.where, InPlace: true, id: c.TreeHash.String(), store: r.st}
	t.entries, err = loadTree(ctx, r.st, t.id)
	return t, err
}

// Close lets go of the files that reading opened.
func (r *Repository) Close() error { return r.st.close() }

// Read returns the kind (commit, tree, blob or tag) and the content of the
// object with the given id, proven by its hash. The error is *Missing where the
// repository lacks it, *Corrupt where it is not what its id says.
func (o *Objects) Read(id string) (kind string, content []byte, err error) {
	// A damaged pack or index can send go-git out of a slice's bounds.
	defer func() {
		if p := recover(); p != nil {
			kind, content, err = "", nil, &Corrupt{Where: o.r.where, ID: id, Err: fmt.Errorf("reading it: %v", p)}
		}
	}()
	h := plumbing.NewHash(id)
	for _, p := range o.packs {
		obj, err := p.Get(h)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		if err == nil {
			// The pack's cache has computed the hash of the content for its key.
			if obj.Hash() != h {
				return "", nil, &Corrupt{Where: o.r.where, ID: id}
			}
			content, err = readObject(obj)
		}
		if err != nil {
			return "", nil, &Corrupt{Where: o.r.where, ID: id, Err: err}
		}
		return obj.Type().String(), content, nil
	}
	typ, content, err := o.r.any(id)
	if err != nil {
		return "", nil, err
	}
	return typ.String(), content, nil
}

// Release closes the reader's packs and gives the rest back to its repository.
func (o *Objects) Release() error {
	var errs []error
	for _, p := range o.packs {
		errs = append(errs, p.Close())
	}
	o.st.release(o.r)
	return errors.Join(errs...)
}
