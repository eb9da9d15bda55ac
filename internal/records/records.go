// Package records keeps the files that llpatch itself writes: the JSON record of a stage,
// the lock files beside the declarations, and the lock that keeps two processes apart.
package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Lock takes the lock file name, and says so where it has to wait. The
// caller closes what it gets. The file is real and open, so that a program
// that inherits it holds the lock too.
func Lock(ctx context.Context, log *slog.Logger, name, what string) (*os.File, error) {
	return lock.Wait(ctx, name, false, func() {
		log.Info("another llpatch is at work here; waiting for it", "on", what, "lock", name)
	})
}

// Read reads a stage's record into v. It reports false where there is none
// or where it cannot be read: the stage is then done again.
func Read(name string, v any) bool {
	data, err := os.ReadFile(name)
	return err == nil && json.Unmarshal(data, v) == nil
}

// Write writes a stage's record, whole or not at all.
func Write(name string, v any) error {
	data, err := spec.JSON(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := atomicfile.WriteFile(name, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Store is where the files are kept that llpatch itself keeps beside the declarations:
// recipes/tags.lock, recipes/pages.lock and patches/llpatch.lock. Where the declarations are
// those inside the binary, they live in the cache.
type Store struct {
	Dir   string // folder that holds recipes/ and patches/
	Cache string // folder for the lock that keeps two processes apart
	Log   *slog.Logger
}

// Overlay reads the records of dir into repo: what was learned on this machine
// counts as if it were declared, unless what is declared contradicts it. Files that are
// not there count as empty.
func (r Store) Overlay(repo *spec.Repo) error {
	lock, err := r.tags()
	if err != nil {
		return err
	}
	for upstream, pins := range lock {
		for name, pin := range pins {
			declared := repo.Lock[upstream][name]
			if pin, fits := pin.Under(declared); fits && declared.Tree == "" {
				setPin(repo.Lock, upstream, name, pin)
			}
		}
	}
	if err := repo.CheckBounds(); err != nil {
		return err
	}
	pages, err := r.pages()
	if err != nil {
		return err
	}
	for upstream, pins := range pages {
		for name, pin := range pins {
			if _, declared := repo.PageLock[upstream][name]; !declared {
				repo.PageLock.Set(upstream, name, pin)
			}
		}
	}
	levels, err := r.levels()
	if err != nil {
		return err
	}
	for upstream, tags := range levels {
		for t, targets := range tags {
			for target, list := range targets {
				for _, lv := range list[min(len(repo.Revisions[upstream][t][target]), len(list)):] {
					repo.Revisions.Add(upstream, t, target, lv)
				}
			}
		}
	}
	return nil
}

func setPin(lock spec.Lock, upstream, name string, pin spec.Pin) {
	if lock[upstream] == nil {
		lock[upstream] = map[string]spec.Pin{}
	}
	lock[upstream][name] = pin
}

func (r Store) read(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(r.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return []byte("{}"), nil
	}
	return data, err
}

func (r Store) tags() (spec.Lock, error) {
	data, err := r.read(spec.LockFile)
	if err != nil {
		return nil, err
	}
	return spec.ParseLock(filepath.Join(r.Dir, spec.LockFile), data)
}

func (r Store) levels() (spec.Revisions, error) {
	data, err := r.read(spec.RevisionsFile)
	if err != nil {
		return nil, err
	}
	return spec.ParseRevisions(filepath.Join(r.Dir, spec.RevisionsFile), data)
}

// change reads, changes and writes one record under a lock, because another
// llpatch may add to it at the same moment.
func (r Store) change(ctx context.Context, name string, edit func() ([]byte, error)) error {
	file := filepath.Join(r.Dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	l, err := Lock(ctx, r.Log, filepath.Join(r.Cache, "records.lock"), file)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	data, err := edit()
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("record in %s: %w", file, err)
	}
	return nil
}

// Page records the page of a tag in recipes/pages.lock.
func (r Store) Page(ctx context.Context, repo *spec.Repo, upstream string, t tag.Tag, p spec.PagePin) error {
	err := r.change(ctx, spec.PageLockFile, func() ([]byte, error) {
		lock, err := r.pages()
		if err != nil {
			return nil, err
		}
		lock.Set(upstream, t.String(), p)
		return spec.JSON(lock)
	})
	if err == nil {
		repo.PageLock.Set(upstream, t.String(), p)
	}
	return err
}

func (r Store) pages() (spec.PageLock, error) {
	data, err := r.read(spec.PageLockFile)
	if err != nil {
		return nil, err
	}
	return spec.ParsePageLock(filepath.Join(r.Dir, spec.PageLockFile), data)
}

// Pin records a tag in recipes/tags.lock.
func (r Store) Pin(ctx context.Context, repo *spec.Repo, upstream string, t tag.Tag, p spec.Pin) error {
	err := r.change(ctx, spec.LockFile, func() ([]byte, error) {
		lock, err := r.tags()
		if err != nil {
			return nil, err
		}
		setPin(lock, upstream, t.String(), p)
		data, err := lock.Encode()
		if err != nil {
			return nil, err
		}
		_, err = spec.ParseLock(spec.LockFile, data) // else no command would work any more
		return data, err
	})
	if err == nil {
		setPin(repo.Lock, upstream, t.String(), p)
	}
	return err
}

// Revision returns the n of -llp<n> for a patched tree and a plan, and records it
// in patches/llpatch.lock where it is new.
func (r Store) Revision(ctx context.Context, repo *spec.Repo, s *spec.Series, tree, plan string) (int, error) {
	n, known := repo.Revisions.Find(s.Upstream, s.Tag, s.Target, tree, plan)
	if known {
		return n, nil
	}
	var old bool
	err := r.change(ctx, spec.RevisionsFile, func() ([]byte, error) {
		levels, err := r.levels()
		if err != nil {
			return nil, err
		}
		// A record in the cache goes on from the levels that are declared.
		if have := repo.Revisions[s.Upstream][s.Tag][s.Target]; len(levels[s.Upstream][s.Tag][s.Target]) < len(have) {
			levels.Set(s.Upstream, s.Tag, s.Target, slices.Clone(have))
		}
		if n, old = levels.Find(s.Upstream, s.Tag, s.Target, tree, plan); old {
			repo.Revisions.Set(s.Upstream, s.Tag, s.Target, levels[s.Upstream][s.Tag][s.Target])
			return levels.Encode()
		}
		lv := spec.Revision{N: n, Tree: tree, Plan: plan, Fixes: []spec.InFix{}}
		for _, c := range s.In {
			lv.Fixes = append(lv.Fixes, spec.InFix{Fix: c.Fix, Patch: c.Patch + c.Commit, SHA256: c.SHA256})
		}
		levels.Add(s.Upstream, s.Tag, s.Target, lv)
		repo.Revisions.Set(s.Upstream, s.Tag, s.Target, levels[s.Upstream][s.Tag][s.Target])
		return levels.Encode()
	})
	if err != nil {
		return 0, err
	}
	if old { // another llpatch was quicker
		return n, nil
	}
	r.Log.Info("new revision recorded", "tag", s.Tag, "target", s.Target, "revision", n, "in",
		filepath.Join(r.Dir, spec.RevisionsFile))
	return n, nil
}
