package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// store reads the objects of one repository. go-git's storage is not for
// several goroutines, so each takes a reader of its own.
type store struct {
	where string // for messages
	open  func() ([]*filesystem.Storage, error)
	heal  func(cause error) (*store, error) // fetches everything again; nil: not ours to repair

	mu     sync.Mutex
	idle   []*reader
	age    int // how often it was healed: readers from before know old packs
	healMu sync.Mutex
}

// reader is one goroutine's way into a store.
type reader struct {
	where string
	age   int
	dirs  []*filesystem.Storage // the repository, and those it borrows objects from
}

// newStorage opens the object database in a git folder. KeepDescriptors saves
// an open for each object. LargeObjectThreshold stays unset: with it go-git
// returned wrong bytes of the right length.
func newStorage(dir gitDir) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(dir.fs(), cache.NewObjectLRU(objectCache),
		filesystem.Options{KeepDescriptors: true})
}

// objectCache is what a reader keeps of delta bases. Upstream's chains are short:
// more than this gained nothing, and there are two readers in a checkout.
const objectCache = 48 * cache.MiByte

func (s *store) acquire() (*reader, error) {
	if s == nil {
		return nil, errors.New("the tree is in memory and lacks this content")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		r := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return r, nil
	}
	dirs, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.where, err)
	}
	return &reader{where: s.where, age: s.age, dirs: dirs}, nil
}

func (s *store) release(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.age == s.age {
		s.idle = append(s.idle, r)
		return
	}
	_ = r.close() // it was only read from
}

// close closes the idle readers.
func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, r := range s.idle {
		errs = append(errs, r.close())
	}
	s.idle = nil
	return errors.Join(errs...)
}

// blob returns the content of a file, proven by its hash. Where the store can
// be healed, damage is repaired once and the file read again.
func (s *store) blob(r *reader, e Entry) ([]byte, error) {
	data, err := r.object(plumbing.BlobObject, e.Blob)
	if err == nil {
		return data, nil
	}
	if damaged(err) && s.heal != nil {
		if herr := s.healFrom(r, err); herr != nil {
			return nil, errors.Join(named(err, e.Path), herr)
		}
		fresh, aerr := s.acquire()
		if aerr != nil {
			return nil, aerr
		}
		defer s.release(fresh)
		data, err = fresh.object(plumbing.BlobObject, e.Blob)
	}
	return data, named(err, e.Path)
}

// healFrom heals the store, unless that was done since r was opened.
func (s *store) healFrom(r *reader, cause error) error {
	s.healMu.Lock()
	defer s.healMu.Unlock()
	s.mu.Lock()
	done := r.age != s.age
	s.mu.Unlock()
	if done {
		return nil
	}
	fresh, err := s.heal(cause)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.where, s.open = fresh.where, fresh.open
	s.age++
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, r := range idle {
		_ = r.close()
	}
	return nil
}

// has reports whether the repository holds an object, without reading it.
func (r *reader) has(id string) bool {
	h := plumbing.NewHash(id)
	for _, d := range r.dirs {
		if d.HasEncodedObject(h) == nil {
			return true
		}
	}
	return false
}

// object returns the content of an object of the type wanted, proven by its hash.
func (r *reader) object(want plumbing.ObjectType, id string) ([]byte, error) {
	typ, content, err := r.any(id)
	if err == nil && typ != want {
		return nil, fmt.Errorf("object %s in %s is a %s, not a %s", id, r.where, typ, want)
	}
	return content, err
}

// any returns the type and the content of an object, proven by its hash.
func (r *reader) any(id string) (typ plumbing.ObjectType, content []byte, err error) {
	// A damaged pack or index can send go-git out of a slice's bounds.
	defer func() {
		if p := recover(); p != nil {
			typ, content, err = 0, nil, &Corrupt{Where: r.where, ID: id, Err: fmt.Errorf("reading it: %v", p)}
		}
	}()
	h := plumbing.NewHash(id)
	for _, d := range r.dirs {
		o, err := d.EncodedObject(plumbing.AnyObject, h)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			// go-git says this of a pack that is too short as well.
			if d.HasEncodedObject(h) == nil {
				return 0, nil, &Corrupt{Where: r.where, ID: id, Err: errors.New("it is listed and cannot be read")}
			}
			continue
		}
		if err == nil {
			content, err = readObject(o)
		}
		if errors.Is(err, fs.ErrPermission) {
			return 0, nil, fmt.Errorf("object %s in %s: %w", id, r.where, err)
		}
		if err != nil {
			return 0, nil, &Corrupt{Where: r.where, ID: id, Err: err}
		}
		if plumbing.ComputeHash(o.Type(), content) != h {
			return 0, nil, &Corrupt{Where: r.where, ID: id}
		}
		return o.Type(), content, nil
	}
	return 0, nil, &Missing{Where: r.where, Blob: id}
}

func readObject(o plumbing.EncodedObject) ([]byte, error) {
	rd, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = rd.Close() }()
	// The size is the repository's claim: it saves growing the slice, and a
	// wrong one shows in the hash.
	b := make([]byte, max(0, o.Size()))
	n, err := io.ReadFull(rd, b)
	if err != nil {
		return nil, fmt.Errorf("%d of %d bytes: %w", n, len(b), err)
	}
	return b, nil
}

func (r *reader) close() error {
	var errs []error
	for _, d := range r.dirs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// damaged reports whether err says that an object cannot be had as it must be.
func damaged(err error) bool {
	var c *Corrupt
	var m *Missing
	return errors.As(err, &c) || errors.As(err, &m)
}

// named puts the path of the file into an error about its object.
func named(err error, path string) error {
	switch e := err.(type) { //nolint:errorlint // exactly what object returned, not something around it
	case *Corrupt:
		c := *e
		c.Path = path
		return &c
	case *Missing:
		m := *e
		m.Path = path
		return &m
	}
	return err
}
