package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// bundleRecord says what went into an archive.
type bundleRecord struct {
	Key string `json:"key"`
	bundle.Packed
}

// Bundle stages the built files, verifies and smokes them where they will be
// shipped from, and packs them. An archive that is there already and is right
// is left alone.
func (c *Chain) Bundle(ctx context.Context, b *Built) (bundle.Packed, error) {
	files, report, err := c.Smoke(ctx, b)
	if err != nil {
		return bundle.Packed{}, err
	}
	content, err := c.content(b, files, report)
	if err != nil {
		return bundle.Packed{}, err
	}
	archive := c.own(bundle.Name(c.Tree.Tag.Short(), c.Recipe, b.Plan, content.Info))
	limit := cmp.Or(c.PartMiB, bundle.DefaultPartMiB) << 20
	key, err := digest(archive, limit, content.Info, content.Scripts)
	if err != nil {
		return bundle.Packed{}, err
	}
	var done bundleRecord
	if !records.Read(c.own("bundle.json"), &done) || done.Key != key || !done.Whole() {
		done.Key = key
		if done.Packed, err = content.Pack(ctx, c.stageDir(), archive, c.Tree.Pin.Time, limit); err != nil {
			return done.Packed, err
		}
		if err := records.Write(c.own("bundle.json"), done); err != nil {
			return done.Packed, err
		}
	}
	for name, data := range content.Beside(done.Packed) {
		if err := atomicfile.WriteFile(c.own(name), data, 0o644); err != nil {
			return done.Packed, err
		}
	}
	return done.Packed, nil
}

// content is all that the bundle holds beside the staged files.
func (c *Chain) content(b *Built, files []*binary.File, report *smoke.Report) (bundle.Content, error) {
	out := bundle.Content{Licenses: map[string][]byte{}}
	terms := map[string][]byte{}
	if c.Recipe.Bundle.Runtime == spec.Full {
		dirs, err := stage.LibraryDirs(b.Artifacts.Dir, c.libsRoot(), c.Recipe.Bundle)
		if err != nil {
			return out, err
		}
		if terms, err = stage.Terms(files, c.Recipe.Bundle, dirs); err != nil {
			return out, err
		}
	}
	for lib, text := range terms {
		out.Licenses[lib+".txt"] = text
	}
	names, err := stage.Licenses(c.Patched.Tree, c.Recipe.Bundle.Licenses)
	if err != nil {
		return out, err
	}
	for _, name := range names {
		f, err := c.Patched.Tree.Read(name)
		if err != nil {
			return out, err
		}
		out.Licenses[strings.ReplaceAll(name, "/", "-")] = f.Data
	}
	for _, in := range c.Series.In {
		data, err := merge.Bytes(c.Repo.FS, in)
		if err != nil {
			return out, err
		}
		out.Patches = append(out.Patches, data)
	}
	out.Info, err = bundle.Describe(bundle.Made{
		Llpatch: c.Version, Recipe: c.Recipe, Tree: c.Tree, Patched: c.Patched.Tree.ID(), Series: c.Series,
		Plan: b.Plan, Level: b.Level, Tools: b.Artifacts.Tools, Top: c.stageDir(), Files: files, Signed: c.signed,
		Carried: slices.Sorted(maps.Keys(terms)), DropIn: c.drop, Checks: report.Checks,
	})
	if err != nil {
		return out, err
	}
	out.Scripts, err = bundle.Scripts(c.Repo, c.Recipe, out.Info)
	return out, err
}

// stageDir is the folder whose content becomes the archive. In a tar.gz it lies in a
// folder called as the archive is, so that bundles of several targets and levels, and
// upstream's own llama-<tag>/, can be unpacked side by side (docs/adr/0011); a zip has
// no folder, as upstream's have none: Windows makes one.
func (c *Chain) stageDir() string {
	return c.own(filepath.Join("stage", bundle.Top(c.Tree.Tag.Short(), c.Recipe)))
}

// libsRoot is the root that a full bundle's libraries are taken from; empty: this machine.
func (c *Chain) libsRoot() string {
	if c.libs == nil {
		return ""
	}
	return c.libs.Root
}

// checkLicenses says before anything is built that the recipe's licence files
// are not in the tree.
func (c *Chain) checkLicenses() error {
	names, err := stage.Licenses(c.Patched.Tree, c.Recipe.Bundle.Licenses)
	if err != nil || len(names) > 0 {
		return err
	}
	return &spec.Error{
		File: path.Join("recipes", c.Recipe.Name+".toml"),
		Msg:  fmt.Sprintf("bundle.licenses %q matches no file of %s; a bundle needs upstream's licence", c.Recipe.Bundle.Licenses, c.Tree.Tag),
	}
}
