package chain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
	"github.com/llpatch/llpatch/internal/trust"
)

// Pack makes the archive of what was staged and checked, and what lies beside it; one that is
// larger than limit bytes is also cut into parts. An archive that is there already and is
// right is left alone, also where cutting it was stopped or is to give other parts. A key, which
// may be nil, signs it; without one, signatures of an earlier run go.
func Pack(ctx context.Context, e Workspace, c Checked, limit int64, key *trust.Key) (bundle.Packed, error) {
	all, err := content(e, c)
	if err != nil {
		return bundle.Packed{}, err
	}
	archive := c.own(bundle.Name(c.Tree.Tag.Short(), c.Recipe, c.Plan, all.Info))
	of, err := digest(archive, all.Info, all.Scripts)
	if err != nil {
		return bundle.Packed{}, err
	}
	packed, err := Memo(c.own("bundle.json"), fmt.Sprintf("%s %d", of, limit), bundle.Packed.Whole,
		func() (bundle.Packed, error) {
			packed, err := Memo(c.own("archive.json"), of, bundle.Packed.Whole, func() (bundle.Packed, error) {
				return all.Pack(ctx, c.Top(), archive, c.Tree.Pin.Time)
			})
			if err != nil {
				return packed, err
			}
			return packed.Cut(ctx, limit)
		})
	if err != nil {
		return packed, err
	}
	beside, err := all.Beside(ctx, packed, key)
	if err != nil {
		return packed, err
	}
	old, err := filepath.Glob(c.own("*" + trust.SignatureSuffix))
	if err != nil {
		return packed, err // the pattern is ours
	}
	for _, file := range append(old, packed.Archive+bundle.StatementsSuffix) {
		key := strings.HasSuffix(file, trust.PublicSuffix+trust.SignatureSuffix) // laid there, and not of an archive
		if beside[filepath.Base(file)] == nil && !key {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return packed, err
			}
			e.Log.Debug("removed, as nothing signs it", "file", file)
		}
	}
	for name, data := range beside {
		if err := atomicfile.WriteFile(c.own(name), data, 0o644); err != nil {
			return packed, err
		}
	}
	return packed, nil
}

// content is all that the bundle holds beside the staged files.
func content(e Workspace, c Checked) (bundle.Content, error) {
	out := bundle.Content{Licenses: map[string][]byte{}}
	terms := map[string][]byte{}
	if c.Recipe.Bundle.Runtime == spec.Full {
		dirs, err := stage.LibraryDirs(c.Artifacts.Dir, c.libsRoot(), c.Recipe.Bundle)
		if err != nil {
			return out, err
		}
		if terms, err = stage.Terms(c.Files, c.Recipe.Bundle, dirs); err != nil {
			return out, err
		}
	}
	for lib, text := range terms {
		out.Licenses[lib+".txt"] = text
	}
	linked, err := c.linked()
	if err != nil {
		return out, err
	}
	for name, text := range linked {
		out.Licenses[strings.ReplaceAll(name, " ", "-")+".txt"] = text
	}
	names, err := stage.Licenses(c.Result.Tree, c.Recipe.Bundle.Licenses)
	if err != nil {
		return out, err
	}
	for _, name := range names {
		f, err := c.Result.Tree.Read(name)
		if err != nil {
			return out, err
		}
		out.Licenses[strings.ReplaceAll(name, "/", "-")] = f.Data
	}
	for _, in := range c.Series.In {
		data, err := merge.Bytes(e.Repo.FS, in)
		if err != nil {
			return out, err
		}
		out.Patches = append(out.Patches, data)
	}
	sums := map[string]string{}
	for name, is := range c.Entries {
		if sum, file := stage.Sum(is); file {
			sums[name] = sum
		}
	}
	vendored, err := bundle.VendoredIn(c.Result.Tree)
	if err != nil {
		return out, err
	}
	out.Info, err = bundle.Describe(bundle.Made{
		Llpatch: e.Version, Recipe: c.Recipe, Tree: c.Tree, Patched: c.Result.Tree.ID(), Series: c.Series,
		Plan: c.Plan, Revision: c.Plan.Revision, Tools: c.Artifacts.Tools, Top: c.Top(), Files: c.Files, Sums: sums,
		Signed: c.Signed, Carried: slices.Sorted(maps.Keys(terms)), Linked: slices.Sorted(maps.Keys(linked)),
		DropIn: c.DropIn,
		Checks: c.Report.Checks, Known: e.Repo.Advisories, Vendored: vendored,
	})
	if err != nil {
		return out, err
	}
	c.as(&out.Info)
	out.Scripts, err = bundle.Scripts(e.Repo, c.Recipe, out.Info)
	return out, err
}

// linked are the libraries of the build root, or of the toolchain, that a feature of the
// programs is linked with, and their terms.
func (c Checked) linked() (map[string][]byte, error) {
	terms := map[string][]byte{}
	from, in := c.Site.Root, c.Site.root
	if c.Site.library != nil {
		from, in = c.Site.linkable, c.Site.library
	}
	if from == nil || from.Library == nil || c.DropIn != "" {
		return terms, nil
	}
	l := *from.Library
	for _, o := range c.Plan.Options {
		if o.Value != "ON" || !slices.ContainsFunc(c.Recipe.Optional, func(f spec.Optional) bool {
			return f.Option == o.Name && f.Header == l.Header
		}) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(in.Root, l.Terms()))
		if err != nil {
			return nil, fmt.Errorf("the terms of %s, which is linked in: %w", l.Name, err)
		}
		terms[l.Name] = text
	}
	return terms, nil
}
