package fork

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// diff is the change between two trees or commits as git format-patch has it.
func (r *Repo) diff(ctx context.Context, from, to string) ([]byte, error) {
	return r.feed(ctx, nil, "diff-tree", "-p", "--full-index", "--binary", "--find-renames", "--no-ext-diff",
		"--no-textconv",
		"--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--diff-algorithm=myers", "--end-of-options",
		from, to)
}

// patchOf is the change of one commit; nil where it changes nothing.
func (r *Repo) patchOf(ctx context.Context, c Commit) (*patch.Patch, error) {
	data, err := r.diff(ctx, c.Parents[0], c.ID)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	name := c.Fix
	if name == "" {
		name = c.short()
	}
	ps, err := patch.Parse(name, c.ID[:12]+".patch", data)
	if err != nil {
		return nil, err
	}
	return &ps[0], nil
}

// changedFiles is what makes one tree of another; nil: deleted.
func changedFiles(from, to *source.Tree) (map[string]*source.File, error) {
	files := map[string]*source.File{}
	for _, e := range from.Files() {
		if _, there := to.Stat(e.Path); !there {
			files[e.Path] = nil
		}
	}
	for _, e := range to.Files() {
		if was, there := from.Stat(e.Path); there && was.Blob == e.Blob && was.Mode == e.Mode {
			continue
		}
		f, err := to.Read(e.Path)
		if err != nil {
			return nil, err
		}
		files[e.Path] = &f
	}
	return files, nil
}

// target finds the commit among earlier ones that a fixup!, squash! or amend! is for; -1
// where it is none, or for none of them.
func target(c Commit, earlier []Commit) int {
	subject := c.Subject()
	mark := false
	for {
		word, rest, ok := strings.Cut(subject, "! ")
		if !ok || word != "fixup" && word != "squash" && word != "amend" {
			break
		}
		subject, mark = rest, true
	}
	if !mark {
		return -1
	}
	if i := slices.IndexFunc(earlier, func(e Commit) bool { return e.Subject() == subject }); i >= 0 {
		return i
	}
	return slices.IndexFunc(earlier, func(e Commit) bool {
		return len(subject) >= 7 && strings.HasPrefix(e.ID, subject) || strings.HasPrefix(e.Subject(), subject)
	})
}

// threeWay merges a patch as patch.ThreeWay does. A file that is gone between two of upstream's commits is followed
// where llpatch and git take the same other one for it: two engines and one answer, as for the lines.
func (m *mover) threeWay(ctx context.Context, p *patch.Patch, before, now *source.Tree, from,
	to string,
) (*patch.Merge, error) {
	o := patch.MergeOptions{Git: m.r.program, NeedGit: true, Resolutions: m.kept, Follow: m.Follow}
	merge, err := patch.ThreeWay(ctx, p, before, now, o)
	o.Follow = maps.Clone(m.Follow)
	if o.Follow == nil {
		o.Follow = map[string]string{}
	}
	moved := false
	for _, c := range conflictsIn(err) {
		if len(c.Moves) == 0 || o.Follow[c.File] != "" {
			continue
		}
		to, err := m.r.movedTo(ctx, from, to, c.File)
		if err != nil {
			return nil, err
		}
		if to == c.Moves[0].Path {
			o.Follow[c.File], moved = to, true
		}
	}
	if !moved {
		return merge, err
	}
	return patch.ThreeWay(ctx, p, before, now, o)
}

// movedTo is where git finds a file that is gone between two commits; "" where it does not, or
// lacks what it has to compare.
func (r *Repo) movedTo(ctx context.Context, from, to, file string) (string, error) {
	out, err := r.git(ctx, "diff-tree", "-r", "--find-renames", "--diff-filter=R", "--name-status", "-z",
		"--end-of-options", from, to)
	if failed(err) {
		return "", nil
	}
	words := strings.Split(out, "\x00")
	for ; len(words) >= 3; words = words[3:] {
		if words[1] == file {
			return words[2], nil
		}
	}
	return "", err
}
