package patch

import (
	"maps"
	"slices"

	"github.com/llpatch/llpatch/internal/source"
)

// commit puts the patch's files into the state, unless they cannot stand beside
// what is there.
func (t *txn) commit() {
	fresh := slices.DeleteFunc(slices.Sorted(maps.Keys(t.written)), func(p string) bool {
		_, ok := t.s.stat(p)
		return ok && !t.removed[p]
	})
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(t.removed)), func(p string) bool {
		_, ok := t.s.stat(p)
		return !ok
	})
	before := map[string]string{}
	for _, p := range slices.Concat(gone, slices.Collect(maps.Keys(t.written))) {
		before[p] = ""
		if !t.s.quiet {
			before[p] = t.s.blob(p)
		}
	}
	if len(fresh) > 0 {
		t.checkNames(fresh, gone)
		if len(t.conflicts) > 0 {
			return
		}
	} else if t.s.names != nil {
		for _, p := range gone {
			t.s.names.remove(p)
		}
	}
	for _, p := range gone {
		if _, inBase := t.s.base.Stat(p); inBase {
			t.s.changes[p] = nil
		} else {
			delete(t.s.changes, p)
		}
	}
	maps.Copy(t.s.changes, t.written)
	for p := range before {
		delete(t.s.ids, p)
	}
	if t.s.quiet {
		return
	}
	for _, p := range slices.Sorted(maps.Keys(before)) {
		after := t.s.blob(p)
		t.touched = append(t.touched, Touched{Fix: t.p.Fix, Patch: t.p.Name, Path: p, Before: before[p], After: after})
	}
}

// checkNames tries the new names beside the old ones. If one cannot stand there,
// the index is left as it was.
func (t *txn) checkNames(fresh, gone []string) {
	idx := t.s.index()
	for _, p := range gone {
		idx.remove(p)
	}
	added := 0
	for _, p := range fresh {
		folder, mode, blocked := t.blocker(p)
		switch {
		case blocked && mode == source.Symlink:
			_ = t.conflict(t.from[p], Unsafe, "%s leads through the symbolic link %s", p, folder)
		case blocked:
			_ = t.conflict(t.from[p], Unsafe, "%s needs a folder where %s is %s", p, folder, describe(mode))
		case idx.count[p] > 0:
			_ = t.conflict(t.from[p], Unsafe, "%s is a folder", p)
		default:
			if twin := idx.twin(p); twin != "" {
				_ = t.conflict(t.from[p], Unsafe, "%s and %s differ only in case", p, twin)
			}
		}
		if len(t.conflicts) > 0 {
			break
		}
		idx.add(p)
		added++
	}
	if len(t.conflicts) == 0 {
		return
	}
	for _, p := range fresh[:added] {
		idx.remove(p)
	}
	for _, p := range gone {
		idx.add(p)
	}
}

// blocker returns the first folder of the path that is not one, as the tree
// will be after this patch.
func (t *txn) blocker(path string) (folder string, mode source.Mode, ok bool) {
	prefixes(path, func(p string) bool {
		if p == path {
			return false
		}
		if f := t.written[p]; f != nil {
			folder, mode, ok = p, f.Mode, true
		} else if !t.removed[p] {
			if m, there := t.s.stat(p); there {
				folder, mode, ok = p, m, true
			}
		}
		return !ok
	})
	return folder, mode, ok
}

// blocker is txn.blocker for the tree as it is.
func (s *state) blocker(path string) (string, source.Mode, bool) {
	return (&txn{s: s}).blocker(path)
}
