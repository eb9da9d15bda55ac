package release

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// BundleRecord says which archive a chain ended in.
type BundleRecord struct {
	Key     string `json:"key"` // digest of all that goes in
	Archive string `json:"archive"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	Parts   []Part `json:"parts,omitempty"` // beside it, where it is larger than one may be
}

// BundleName is the archive's name without its suffix, in upstream's form:
// llama-<tag>-llp<n>-bin-<os>-<backend>-<arch>, and ik_llama in front for
// ik_llama.cpp's. The backend cuda gets the version of the toolkit that the files
// were built with, and a full bundle ends in -full.
func BundleName(tagName string, level int, r spec.Recipe, files []*binary.File) string {
	backend, end := r.Backend, ""
	if v := toolkit(files); backend == "cuda" && v != "" {
		backend += "-" + v
	}
	if r.Bundle.Runtime == spec.Full {
		end = "-full"
	}
	return fmt.Sprintf("%s-llp%d-bin-%s-%s-%s%s", bundleTop(tagName, r), level, r.OS, backend, r.Arch, end)
}

// toolkit is the newest CUDA version whose compiler made device code in the files.
// What comes with NVIDIA's own libraries is not counted.
func toolkit(files []*binary.File) string {
	newest := ""
	for _, f := range files {
		if f.CUDA == nil || CanCarry(path.Base(f.Name)) {
			continue
		}
		for _, v := range f.CUDA.Toolkits {
			if binary.Less(newest, v) {
				newest = v
			}
		}
	}
	return newest
}

// bundleTop is the folder at the top of an archive.
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
	key := sha256.Sum256(infoText)
	name := BundleName(c.Tree.Tag.Short(), b.Level, c.Recipe, files) + ".tar.gz"
	done := BundleRecord{}
	if readJSON(c.file("bundle.json"), &done) && done.Key == hex.EncodeToString(key[:]) && done.Archive == c.file(name) {
		if sum, err := build.SumFile(done.Archive); err == nil && sum == done.SHA256 {
			return c.finish(ctx, done, info)
		}
	}
	if err := c.fill(top, info, infoText); err != nil {
		return nil, err
	}
	archive := c.file(name)
	sum, err := writeTarGz(ctx, archive, top, c.Tree.Pin.Time)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(archive)
	if err != nil {
		return nil, err
	}
	return c.finish(ctx, BundleRecord{Key: hex.EncodeToString(key[:]), Archive: archive, SHA256: sum, Bytes: st.Size()}, info)
}

// finish writes what lies beside an archive: its parts where it is too large for one
// file, SHA256SUMS, NOTES.md and the record.
func (c *Chain) finish(ctx context.Context, done BundleRecord, info BuildInfo) (*BundleRecord, error) {
	var err error
	if done.Parts, err = split(ctx, done.Archive, cmp.Or(c.PartMiB, DefaultPartMiB)<<20); err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{
		"SHA256SUMS": sumsOf(done.SHA256, filepath.Base(done.Archive), done.Parts),
		"NOTES.md":   notesPage(info, done),
	} {
		if err := atomicfile.WriteFile(c.file(name), data, 0o644); err != nil {
			return nil, err
		}
	}
	return &done, writeJSON(c.file("bundle.json"), done)
}

// stageDir is the folder whose content, under its own name, becomes the
// archive. Upstream's archives have llama-<tag>/ at their top.
func (c *Chain) stageDir() string {
	return c.file(filepath.Join("stage", bundleTop(c.Tree.Tag.Short(), c.Recipe)))
}

// extras are the files of a bundle that are no programs; fill writes them anew each time.
var extras = []string{"BUILD_INFO.json", "README.md", "PATCHES", "LICENSES", "SHA256SUMS"}

// fill adds to the staged programs what explains them: BUILD_INFO.json,
// README.md, PATCHES/, LICENSES/ and SHA256SUMS.
func (c *Chain) fill(top string, info BuildInfo, text []byte) error {
	for _, name := range extras {
		if err := os.RemoveAll(filepath.Join(top, name)); err != nil {
			return err
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
	for _, lib := range c.staged.Carried {
		if err := write("LICENSES/"+lib.Name+".txt", lib.License); err != nil {
			return err
		}
	}
	if err := write("README.md", bundlePage(info)); err != nil {
		return err
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
