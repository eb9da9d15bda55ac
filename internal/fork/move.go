package fork

import (
	"context"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// diff is the change between two trees or commits as git format-patch has it.
func (r *Repo) diff(ctx context.Context, from, to string) ([]byte, error) {
	return r.feed(ctx, nil, "diff-tree", "-p", "--full-index", "--binary", "--find-renames", "--no-ext-diff", "--no-textconv",
		"--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--diff-algorithm=myers", "--end-of-options", from, to)
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
