package merge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// ThreeWay says how patches that do not fit are merged.
type ThreeWay struct {
	Git    string            // the program that must give the same bytes; "": only kept resolutions count
	Follow map[string]string // files of the base to be taken for moved ones of the tag
	Accept bool              // write each merge as a variant of its fix
	// Show is told of every patch that was merged, also of one where a conflict
	// is left; base is the tag that it was replayed on. It may be nil.
	Show func(m *patch.Merge, base string)
}

// Variant is a patch file that --accept wrote.
type Variant struct {
	Fix   string `json:"fix"`
	File  string `json:"file"`  // below the declarations' folder
	Block string `json:"block"` // what fix.toml must say to use it
}

// Series is what is merged: the patches of a series for a tag's tree.
type Series struct {
	*spec.Series
	Repo    *spec.Repo
	Records records.Store
	Tree    *source.Tree
	Patches []patch.Patch
	// Fetch gives the tree of a tag; a *source.Unavailable says that it is not to be had.
	Fetch func(context.Context, tag.Tag) (*source.Tree, error)
	Log   *slog.Logger
}

// Apply applies the patches, and merges those that do not fit; resolutions of new merges are
// kept beside the declarations, and with Accept so are variants, which it returns.
func (o ThreeWay) Apply(ctx context.Context, s Series) (res *patch.Result, wrote []Variant, err error) {
	if o.Accept && s.Records.Dir == s.Records.Cache {
		return nil, nil, errors.New("accept a merge: the declarations are those inside llpatch; take a checkout of " +
			"them (-C DIR)")
	}
	kept, err := patch.LoadResolutions(os.DirFS(s.Records.Dir))
	if err != nil {
		return nil, nil, err
	}
	b := bases{Series: s, trees: map[string]*source.Tree{}, of: map[string]string{}}
	defer func() { err = errors.Join(err, b.close()) }()
	res, merges, err := patch.ApplyThreeWay(ctx, s.Tree, s.Patches, b.find, patch.MergeOptions{
		Git: o.Git, NeedGit: true, Resolutions: kept, Follow: o.Follow,
	})
	if o.Show != nil {
		for _, m := range merges {
			o.Show(m, b.of[m.Fix])
		}
	}
	if err == nil {
		err = s.keep(merges)
	}
	if err == nil && o.Accept {
		wrote, err = s.accept(merges)
	}
	return res, wrote, err
}

// bases finds the trees that patches were made for.
type bases struct {
	Series
	trees map[string]*source.Tree // by tag; nil: not to be had
	of    map[string]string       // by fix, the tag that was taken
}

func (b *bases) close() error {
	var errs []error
	for _, t := range b.trees {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	return errors.Join(errs...)
}

// find returns the tree of the tag nearest to that of the series, of those in
// recipes/tags.lock that are in the variant's range, that can be had and that
// the patch applies to; nil where there is none.
func (b *bases) find(ctx context.Context, p *patch.Patch) (*source.Tree, error) {
	at := slices.IndexFunc(b.In, func(c spec.Chosen) bool { return c.Fix == p.Fix })
	if at < 0 {
		return nil, fmt.Errorf("merge %s: it is not in the series", p.Fix)
	}
	r, err := tag.ParseRange(b.In[at].Range)
	if err != nil {
		return nil, err
	}
	pins := b.Repo.Lock[b.Upstream]
	var names []string
	for name, pin := range pins {
		if r.Contains(pin.Build) && pin.Tree != "" && pin.Tree != b.Tree.ID() {
			names = append(names, name)
		}
	}
	away := func(name string) int { n := pins[name].Build - b.Tree.Pin.Build; return max(n, -n) }
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(away(x), away(y)), cmp.Compare(x, y)) })
	earlier := b.Patches[:slices.IndexFunc(b.Patches, func(o patch.Patch) bool {
		return o.Fix == p.Fix && o.Name == p.Name
	})]
	why := "recipes/tags.lock has no other tag in " + r.String() + "; fetch one, such as its first"
	for _, name := range names {
		t, err := b.fetch(ctx, name)
		if err != nil {
			return nil, err
		}
		if t == nil {
			why = "none of the tags in " + r.String() + " can be had"
			continue
		}
		start, err := patch.Replay(t, earlier, p)
		if err != nil {
			return nil, err
		}
		if start != nil {
			b.of[p.Fix] = name
			return t, nil
		}
		why = "it fits none of the tags in " + r.String() + " that can be had"
	}
	b.Log.Warn("no base to merge on", "fix", p.Fix, "why", why)
	return nil, nil
}

func (b *bases) fetch(ctx context.Context, name string) (*source.Tree, error) {
	if t, ok := b.trees[name]; ok {
		return t, nil
	}
	t, err := tag.Parse(name)
	if err != nil {
		return nil, err
	}
	tree, err := b.Fetch(ctx, t)
	if gone := new(source.Unavailable); errors.As(err, &gone) {
		b.Log.Info("base is not to be had", "tag", name)
		b.trees[name] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b.trees[name] = tree
	return tree, nil
}

// keep writes the resolutions of new merges beside the declarations.
func (s Series) keep(merges []*patch.Merge) error {
	for _, m := range merges {
		for _, r := range m.Resolutions() {
			file := filepath.Join(s.Records.Dir, patch.ResolutionDir, r.Name())
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			if err := atomicfile.WriteFile(file, r.Encode(), 0o644); err != nil {
				return fmt.Errorf("keep resolution of %s: %w", r.Path, err)
			}
			s.Log.Info("resolution kept", "fix", m.Fix, "file", r.Path, "in", file)
		}
	}
	return nil
}

// accept writes each merge as a variant of its fix.
func (s Series) accept(merges []*patch.Merge) (wrote []Variant, err error) {
	n := s.Tree.Pin.Build
	for _, m := range merges {
		at := slices.IndexFunc(s.In, func(in spec.Chosen) bool { return in.Fix == m.Fix })
		in := s.In[at]
		if m.Landed() {
			s.Log.Warn("no variant is needed: upstream has the whole change", "fix", m.Fix, "tag", s.Tree.Tag.String())
			continue
		}
		if in.Commit != "" {
			return nil, &spec.Error{
				File: path.Join("patches", in.Fix, "fix.toml"),
				Msg:  "takes upstream's commit by reference, and a merge of it is no patch of ours: leave out --accept",
			}
		}
		original, err := Bytes(s.Repo.FS, in)
		if err != nil {
			return nil, err
		}
		data, err := m.Variant(original)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("b%d.patch", n)
		v := Variant{Fix: m.Fix, File: path.Join("patches", m.Fix, name)}
		file := filepath.Join(s.Records.Dir, filepath.FromSlash(v.File))
		old, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := atomicfile.WriteFile(file, data, 0o644); err != nil {
				return nil, fmt.Errorf("accept %s: %w", m.Fix, err)
			}
		case err != nil:
			return nil, fmt.Errorf("accept %s: %w", m.Fix, err)
		case !bytes.Equal(old, data):
			return nil, &spec.Error{File: v.File, Msg: "is there with another content: remove it, or keep it and leave " +
				"out --accept"}
		}
		v.Block = fmt.Sprintf("[[variant]]\nrange = \">= %d, < %d\"\npatch = %q\n", n, n+1, name)
		if r, err := tag.ParseRange(in.Range); err == nil && r.Contains(n) {
			v.Block = fmt.Sprintf("# end the range %q of %s before build %d\n", in.Range, FileName(in), n) + v.Block
		}
		wrote = append(wrote, v)
	}
	return wrote, nil
}
