package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/llpatch/llpatch/internal/source"
)

// merge merges one file. It reports false where the three ways do not apply, and
// the conflict stays what it was.
func (w *threeWay) merge(c *change) (bool, error) {
	base, err := readText(w.base, c.old)
	if err != nil || base == nil {
		return false, err
	}
	ours, err := readText(w.patched.Tree, c.new)
	if err != nil || ours == nil {
		return false, err
	}
	f := FileMerge{Path: c.old}
	if _, there := w.target.Stat(c.old); !there {
		if f.Moves, err = moves(w.base, w.target, c.old); err != nil {
			return false, err
		}
		to, follow := w.o.Follow[c.old]
		switch {
		case follow:
			f.Path, f.From = to, c.old
		case len(f.Moves) > 0:
			f.Path, f.From, f.Proposed = f.Moves[0].Path, c.old, true
		default:
			return false, nil
		}
	}
	theirs, err := readText(w.target, f.Path)
	if err != nil {
		return false, err
	}
	if theirs == nil {
		if f.From == "" || f.Proposed {
			return false, nil
		}
		_ = w.fail(c, f.From, MissingFile, fmt.Sprintf("it was to be followed to %s, which is not a text file of the tree",
			f.Path))
		return true, nil
	}
	merged, err := w.mergeFile(c, &f, base.Data, ours.Data, theirs.Data)
	if err != nil {
		return false, err
	}
	if f.Proposed {
		w.propose(c, &f)
	}
	w.Files = append(w.Files, f)
	if merged == nil || f.Proposed {
		return true, nil
	}
	return true, w.take(c, &f, theirs, merged)
}

// readText returns a file; nil if it is not there, or not one of lines.
func readText(t *source.Tree, path string) (*source.File, error) {
	e, ok := t.Stat(path)
	if !ok || e.Mode&modeType != modeFile {
		return nil, nil
	}
	f, err := t.Read(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && isBinary(f.Data) {
		return nil, nil
	}
	return &f, err
}

// mergeFile returns the merge, or nil after recording its conflicts.
func (w *threeWay) mergeFile(c *change, f *FileMerge, base, ours, theirs []byte) ([]byte, error) {
	blobOf := func(t *source.Tree, path string) string { e, _ := t.Stat(path); return e.Blob }
	f.Base, f.Ours, f.Theirs = blobOf(w.base, c.old), blobOf(w.patched.Tree, c.new), blobOf(w.target, f.Path)
	if r, ok := w.o.Resolutions.Find(f.Base, f.Ours, f.Theirs); ok {
		f.Resolution = path.Join(ResolutionDir, r.Name())
		merged, err := r.apply(f.Resolution, theirs)
		if err != nil {
			return nil, err
		}
		w.settle(f, base, ours, theirs, merged)
		return merged, nil
	}
	m := w.o.Memo.merge(f, base, ours, theirs)
	f.Regions = m.regions
	clean := true
	for _, r := range m.regions {
		if r.Cause != "" {
			clean = false
			w.region(c, f, m, r)
		}
	}
	if !clean {
		return nil, nil
	}
	merged := m.bytes()
	if w.o.Git == "" && w.o.NeedGit {
		_ = w.fail(c, f.Path, Unchecked, "the merge is clean, but there is no git to try it, too, and one engine is no proof")
		return nil, nil
	}
	switch {
	case w.o.Git == "":
	case w.o.Memo != nil:
		w.later = append(w.later, func() error {
			_, err := w.check(c, f, base, ours, theirs, merged)
			return err
		})
	default:
		if ok, err := w.check(c, f, base, ours, theirs, merged); err != nil || !ok {
			return nil, err
		}
		f.Checked = true
	}
	w.settle(f, base, ours, theirs, merged)
	return merged, nil
}

// check asks git for the merge of a file, and records a conflict if that is another.
func (w *threeWay) check(c *change, f *FileMerge, base, ours, theirs, merged []byte) (bool, error) {
	key := [3]string{f.Base, f.Ours, f.Theirs}
	var same, known bool
	if w.o.Memo != nil {
		same, known = w.o.Memo.checked[key]
	}
	if !known {
		second, ok, err := gitMergeFile(w.ctx, w.o.Git, base, ours, theirs)
		if err != nil {
			return false, err
		}
		same = ok && bytes.Equal(second, merged)
	}
	if w.o.Memo != nil {
		w.o.Memo.checked[key] = same
	}
	if !same {
		_ = w.fail(c, f.Path, GitDisagrees, "the merge is clean, but git merge-file gives another result")
	}
	return same, nil
}

// settle notes the result of a merge.
func (w *threeWay) settle(f *FileMerge, base, ours, theirs, merged []byte) {
	f.Merged = blobID(merged)
	f.Landed = f.Merged == f.Theirs
	if w.o.Memo != nil {
		return
	}
	f.kept = NewResolution(w.Fix, f.Path, base, ours, theirs, merged)
	var diff bytes.Buffer
	if !f.Landed {
		fmt.Fprintf(&diff, "--- %s\n+++ %s\n", quoteName("a/"+f.Path), quoteName("b/"+f.Path))
		diff.WriteString(f.kept.hunks)
	}
	f.Diff = diff.String()
}

func (w *threeWay) fail(c *change, file string, kind Cause, detail string) *Conflict {
	out := &Conflict{Fix: w.Fix, Patch: w.Patch, File: file, PatchLine: c.line, Kind: kind, Detail: detail}
	w.conflicts = append(w.conflicts, out)
	return out
}

// region records a conflict of two changes.
func (w *threeWay) region(c *change, f *FileMerge, m *merge3, r Region) {
	detail := "the tree changed the same lines, or lines beside them"
	if r.Cause == AmongEqual {
		detail = "it belongs among equal lines, and the other side changed one of them: there are several ways to merge that"
	}
	out := w.fail(c, f.Path, r.Cause, fmt.Sprintf("%s: lines %s of the base, %s with the patch, %s in the tree", detail,
		r.Base, r.Ours, r.Theirs))
	out.Line = r.Theirs.Line
	out.Want, out.Got = r.Ours.lines(m.ours), r.Theirs.lines(m.theirs)
	for _, p := range w.patched.Placements {
		// The last hunk that begins no later than the region ends.
		if p.Path == c.new && p.Hunk > 0 && p.Hunk <= len(c.hunks) && p.Got <= r.Base.Line+r.Base.Count {
			out.Hunk, out.PatchLine = p.Hunk, c.hunks[p.Hunk-1].line
		}
	}
}

// propose records that a file is gone, and where it may be.
func (w *threeWay) propose(c *change, f *FileMerge) {
	w.fail(c, f.From, MissingFile, "changes a file that is not there; "+movesText(f.Moves)).Moves = f.Moves
}

// take puts the merged file into the patch.
func (w *threeWay) take(c *change, f *FileMerge, theirs *source.File, merged []byte) error {
	n := *c
	n.hunks, n.lf, n.binary, n.maybeNew = nil, nil, nil, false
	n.oldID, n.newID = f.Theirs, f.Merged
	if n.oldMode != 0 {
		n.oldMode = theirs.Mode
	}
	n.old = f.Path
	switch {
	case n.kind == modify:
		n.new = f.Path
	case n.kind == rename && n.new == f.Path:
		n.kind = modify // the tree has made the same move
	}
	switch {
	case f.Landed:
	case w.o.Memo != nil:
		n.hunks = []hunk{wholeFile(theirs.Data, merged)}
		n.lf = n.hunks
	default:
		after := &source.File{Mode: theirs.Mode, Data: merged}
		var diff bytes.Buffer
		writeFile(&diff, modify, n.old, n.old, theirs, after, false)
		ps, err := Parse(w.Fix, w.Patch, diff.Bytes())
		if err != nil {
			return fmt.Errorf("%s: its merge cannot be written as a diff: %w", f.Path, err)
		}
		n.hunks = ps[0].changes[0].hunks
		n.lf = n.hunks
	}
	if n.kind == modify && len(n.hunks) == 0 && (n.newMode == 0 || n.newMode == theirs.Mode) {
		return nil
	}
	w.changes = append(w.changes, n)
	return nil
}

// wholeFile returns the hunk that makes one file of another.
func wholeFile(before, after []byte) hunk {
	h := hunk{oldText: string(before), newText: string(after)}
	h.old, h.newLines = make([]string, newText(before).count()), newText(after).count()
	h.oldLine, h.newLine = min(1, len(h.old)), min(1, h.newLines)
	return h
}
