package release

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/spec"
)

// BundleRecord says which archive a chain ended in.
type BundleRecord struct {
	Key     string `json:"key"` // digest of all that goes in
	Archive string `json:"archive"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	Parts   []Part `json:"parts,omitempty"` // beside it, where it is larger than one file may be
}

// BundleName is the archive's name without its suffix, in upstream's form:
// llama-<tag>-llp<n>-bin-<os>-<backend>-<arch>, and ik_llama in front for
// ik_llama.cpp's. A full bundle ends in -full.
func BundleName(tagName string, level int, r spec.Recipe) string {
	name := fmt.Sprintf("%s-llp%d-bin-%s-%s-%s", bundleTop(tagName, r), level, r.OS, r.Backend, r.Arch)
	if r.Bundle.Runtime == spec.Full {
		name += "-full"
	}
	return name
}

// bundleTop is the folder that upstream's archives of a tag have at their top.
func bundleTop(tagName string, r spec.Recipe) string {
	return strings.TrimSuffix(cmp.Or(r.Upstream, spec.LlamaCpp), ".cpp") + "-" + tagName
}

// Bundle stages the built files, verifies and smokes them where they will be
// shipped from, and packs them. An archive that is there already and is right
// is left alone.
func (c *Chain) Bundle(ctx context.Context, b *Built) (*BundleRecord, error) {
	files, report, err := c.Smoke(ctx, b)
	if err != nil {
		return nil, err
	}
	top := c.stageDir()
	info, err := c.info(b, files, report)
	if err != nil {
		return nil, err
	}
	infoText, err := spec.JSON(info)
	if err != nil {
		return nil, err
	}
	format := cmp.Or(c.Recipe.Bundle.Format, spec.TarGz)
	name := c.bundleName(b, info.Glibc) + "." + format
	scripts, err := c.scripts(info)
	if err != nil {
		return nil, err
	}
	key, err := digest(name, string(infoText), scripts)
	if err != nil {
		return nil, err
	}
	done := BundleRecord{}
	if records.Read(c.own("bundle.json"), &done) && done.Key == key && done.Archive == c.own(name) {
		if sum, err := build.SumFile(done.Archive); err == nil && sum == done.SHA256 {
			return &done, c.writeSums(sum, name)
		}
	}
	if err := c.fill(top, info, infoText, scripts); err != nil {
		return nil, err
	}
	archive := c.own(name)
	sum, err := archiveWriters[format](ctx, archive, top, c.Tree.Pin.Time)
	if err != nil {
		return nil, err
	}
	if err := c.writeSums(sum, name); err != nil {
		return nil, err
	}
	st, err := os.Stat(archive)
	if err != nil {
		return nil, err
	}
	done = BundleRecord{Key: key, Archive: archive, SHA256: sum, Bytes: st.Size()}
	return &done, records.Write(c.own("bundle.json"), done)
}

// writeSums writes SHA256SUMS beside the archive.
func (c *Chain) writeSums(sum, archive string) error {
	return atomicfile.WriteFile(c.own("SHA256SUMS"), fmt.Appendf(nil, "%s  %s\n", sum, archive), 0o644)
}

// stageDir is the folder whose content becomes the archive. In a tar.gz it lies in a
// folder called as the archive is, so that bundles of several targets and levels, and
// upstream's own llama-<tag>/, can be unpacked side by side (docs/adr/0011); a zip has
// no folder, as upstream's have none: Windows makes one.
func (c *Chain) stageDir() string {
	return c.own(filepath.Join("stage", bundleTop(c.Tree.Tag.Short(), c.Recipe)))
}

// extras are the files of a bundle that are no programs; fill writes them anew each time.
var extras = []string{"BUILD_INFO.json", "README.md", "PATCHES", "LICENSES", "SHA256SUMS", checkScript, win7Readme}

// extra reports whether a bundle's entry, a file or a folder at its top, is one of those;
// scripts for Windows keep their names.
func extra(name string) bool { return slices.Contains(extras, name) || path.Ext(name) == ".cmd" }

// fill adds to the staged programs what explains them: BUILD_INFO.json,
// README.md, PATCHES/, LICENSES/, SHA256SUMS, the recipe's scripts, and README-WIN7.txt
// where it is for Windows.
func (c *Chain) fill(top string, info BuildInfo, text []byte, scripts map[string][]byte) error {
	old, err := os.ReadDir(top)
	if err != nil {
		return err
	}
	for _, e := range old {
		if extra(e.Name()) {
			if err := os.RemoveAll(filepath.Join(top, e.Name())); err != nil {
				return err
			}
		}
	}
	write := func(name string, data []byte) error {
		file := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, data, 0o644)
	}
	if err := write("BUILD_INFO.json", text); err != nil {
		return err
	}
	if err := write("PATCHES/README.md", patchesPage(c.Series)); err != nil {
		return err
	}
	for i, s := range c.Series.In {
		data, err := c.patchBytes(s)
		if err != nil {
			return err
		}
		if err := write(fmt.Sprintf("PATCHES/%04d-%s.patch", i+1, s.Fix), data); err != nil {
			return err
		}
	}
	if err := c.licenses(write); err != nil {
		return err
	}
	for name, terms := range info.terms {
		if err := write("LICENSES/"+name+".txt", terms); err != nil {
			return err
		}
	}
	if err := write("README.md", bundlePage(info)); err != nil {
		return err
	}
	if info.Windows != "" {
		if err := write(win7Readme, info.win7Page()); err != nil {
			return err
		}
	}
	for name, script := range scripts {
		if err := write(name, script); err != nil {
			return err
		}
	}
	if scripts[checkScript] != nil {
		if err := os.Chmod(filepath.Join(top, checkScript), 0o755); err != nil {
			return err
		}
	}
	sums, err := checksums(top)
	if err != nil {
		return err
	}
	return write("SHA256SUMS", sums)
}

// checkLicenses says before anything is built that the recipe's licence files
// are not in the tree.
func (c *Chain) checkLicenses() error {
	for _, e := range c.Patched.Tree.Files() {
		for _, g := range c.Recipe.Bundle.Licenses {
			if ok, err := doublestar.Match(g, e.Path); err == nil && ok {
				return nil
			}
		}
	}
	return &spec.Error{
		File: path.Join("recipes", c.Recipe.Name+".toml"),
		Msg:  fmt.Sprintf("bundle.licenses %q matches no file of %s; a bundle needs upstream's licence", c.Recipe.Bundle.Licenses, c.Tree.Tag),
	}
}

// licenses copies the licence files that the recipe names out of the tree.
func (c *Chain) licenses(write func(string, []byte) error) error {
	for _, e := range c.Patched.Tree.Files() {
		for _, g := range c.Recipe.Bundle.Licenses {
			ok, err := doublestar.Match(g, e.Path)
			if err != nil {
				return fmt.Errorf("bundle.licenses %q: %w", g, err)
			}
			if !ok {
				continue
			}
			f, err := c.Patched.Tree.Read(e.Path)
			if err != nil {
				return err
			}
			if err := write(path.Join("LICENSES", strings.ReplaceAll(e.Path, "/", "-")), f.Data); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// checksums lists the SHA-256 of every file below top but SHA256SUMS itself, as sha256sum -c reads it.
func checksums(top string) ([]byte, error) {
	var b bytes.Buffer
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		if rel == "SHA256SUMS" {
			return nil
		}
		sum, err := build.SumFile(p)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, filepath.ToSlash(rel))
		return nil
	})
	return b.Bytes(), err
}
