// Package bundle packs what was staged and checked: BUILD_INFO.json and the pages, the
// scripts that look at the user's machine, the archive and what lies beside it.
package bundle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// Packed says which archive a bundle ended in.
type Packed struct {
	Archive string `json:"archive"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	Parts   []Part `json:"parts,omitempty"` // beside it, where it is larger than one file may be
}

// Whole reports whether the archive and its parts are there as they were packed.
func (p Packed) Whole() bool {
	is := func(file, want string) bool {
		sum, err := build.SumFile(file)
		return err == nil && sum == want
	}
	return is(p.Archive, p.SHA256) && !slices.ContainsFunc(p.Parts, func(part Part) bool {
		return !is(filepath.Join(filepath.Dir(p.Archive), part.Name), part.SHA256)
	})
}

// Content is what a bundle holds beside the staged programs and libraries.
type Content struct {
	Info     Info
	Patches  [][]byte          // of Info.Series.In, in its order
	Licenses map[string][]byte // by the names of their files
	Scripts  map[string][]byte // likewise; Scripts makes them
}

// Pack adds to the staged folder top what explains it, and makes the archive of it, which
// gets the time when. What the bundle's form is shows in the archive's name.
func (c Content) Pack(ctx context.Context, top, archive string, when time.Time) (Packed, error) {
	p := Packed{Archive: archive}
	if err := c.fill(top); err != nil {
		return p, err
	}
	write := writeTarGz
	if path.Ext(archive) == "."+spec.Zip {
		write = writeZip
	}
	var err error
	if p.SHA256, err = write(ctx, archive, top, when); err != nil {
		return p, err
	}
	st, err := os.Stat(archive)
	if err != nil {
		return p, err
	}
	p.Bytes = st.Size()
	return p, nil
}

// Cut returns the archive with its parts, which it writes where that is larger than limit bytes.
func (p Packed) Cut(ctx context.Context, limit int64) (_ Packed, err error) {
	p.Parts, err = split(ctx, p.Archive, limit)
	return p, err
}

// SumsFile and NotesFile lie beside an archive; the first also in it.
const (
	SumsFile  = "SHA256SUMS"
	NotesFile = "NOTES.md"
)

// What is behind an archive's name in that of its bill of materials and of its signed statements.
const (
	SBOMSuffix       = ".cdx.json"
	StatementsSuffix = ".intoto.jsonl"
)

// Beside are the files that lie beside an archive, by their names: NOTES.md, the bill of
// materials, SHA256SUMS and, with a key, which may be nil, the statements and the signatures.
// The comment of each signature says what it is of: one of another file, tag or target does not
// pass for it. None of them holds a time, so that the same archive has the same.
func (c Content) Beside(ctx context.Context, p Packed, key *trust.Key) (map[string][]byte, error) {
	name := filepath.Base(p.Archive)
	sbom, err := c.SBOM(p)
	if err != nil {
		return nil, err
	}
	beside := map[string][]byte{NotesFile: notesPage(c.Info, p), name + SBOMSuffix: sbom}
	if key == nil {
		beside[SumsFile] = p.sums(beside)
		return beside, nil
	}
	statements, err := c.Statements(p)
	if err != nil {
		return nil, err
	}
	var lines []byte
	for _, s := range statements {
		line, err := key.Envelope(ctx, s)
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, line...), '\n')
	}
	beside[name+StatementsSuffix] = lines
	beside[SumsFile] = p.sums(beside)
	f, err := os.Open(p.Archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	for of, r := range map[string]io.Reader{name: regular.Until(ctx, f), SumsFile: bytes.NewReader(beside[SumsFile])} {
		if beside[of+trust.SignatureSuffix], err = key.Sign(r, c.Info.SignedComment(of)); err != nil {
			return nil, fmt.Errorf("sign %s: %w", of, err)
		}
	}
	return beside, nil
}

// Sum is a line of a file as sha256sum writes it.
type Sum struct{ Name, SHA256 string }

// Sums are the lines of such a file, in its order; what is no such line is passed over.
func Sums(text []byte) []Sum {
	var all []Sum
	for line := range strings.Lines(string(text)) {
		if sum, name, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "  "); ok {
			all = append(all, Sum{name, sum})
		}
	}
	return all
}

// SumsOf is what a SHA256SUMS beside an archive says of it.
type SumsOf struct {
	Archive string // its SHA-256; empty: it is not named
	Parts   []Sum  // in their order
	Beside  []Sum  // what is called after it, and NotesFile
}

// maxSums is more lines than any SHA256SUMS beside an archive has: for each archive of a release a handful, and
// its parts.
const maxSums = 2000

// ReadSums reads such a file, whose other lines are of other archives. The error, of one that names a file twice
// or has more lines than any has, says what it does, behind its name.
func ReadSums(text []byte, archive string) (s SumsOf, err error) {
	if n := bytes.Count(text, []byte("\n")); n > maxSums {
		return s, fmt.Errorf("has %d lines, and none that llpatch reads has more than %d", n, maxSums)
	}
	seen := map[string]bool{}
	for _, sum := range Sums(text) {
		if seen[sum.Name] {
			return SumsOf{}, fmt.Errorf("names %s twice", sum.Name)
		}
		seen[sum.Name] = true
		of, part := PartOf(sum.Name)
		switch {
		case sum.Name == archive:
			s.Archive = sum.SHA256
		case part && of == archive:
			s.Parts = append(s.Parts, sum)
		case sum.Name == NotesFile || strings.HasPrefix(sum.Name, archive+"."):
			s.Beside = append(s.Beside, sum)
		}
	}
	return s, nil
}

// sums is the SHA256SUMS beside an archive: of it, its parts, what is called after it, and NotesFile.
func (p Packed) sums(beside map[string][]byte) []byte {
	name := filepath.Base(p.Archive)
	sums := fmt.Appendf(nil, "%s  %s\n", p.SHA256, name)
	for _, part := range p.Parts {
		sums = fmt.Appendf(sums, "%s  %s\n", part.SHA256, part.Name)
	}
	for _, other := range slices.Sorted(maps.Keys(beside)) {
		if other == NotesFile || strings.HasPrefix(other, name+".") {
			sums = fmt.Appendf(sums, "%x  %s\n", sha256.Sum256(beside[other]), other)
		}
	}
	return sums
}

// Top is the folder that upstream's archives of a tag have at their top.
func Top(tagName string, r spec.Recipe) string {
	return strings.TrimSuffix(cmp.Or(r.Upstream, spec.LlamaCpp), ".cpp") + "-" + tagName
}

// Name is the archive's name, in upstream's form: llama-<tag>-llp<n>-bin-<os>-<backend>-<arch>,
// and ik_llama in front for ik_llama.cpp's, with the version of CUDA that it is for. That of
// a HIP build says whose system it was built on, for which cards, and which glibc it needs;
// any other for Linux which glibc is enough, where its build was held to one.
// A drop-in has the word backend, and a full bundle ends in -full. tagName is the short one.
func Name(tagName string, r spec.Recipe, p build.Plan, i Info) string {
	system, backend, kind := r.OS, r.Backend, "bin"
	if p.CUDA.Version != "" && backend == "cuda" {
		backend += "-" + p.CUDA.Version
	}
	if h := p.HIP; h.Version != "" {
		system = cmp.Or(h.System, system)
		backend += "-" + h.Version + "-" + targetsName(r.Verify.HIP.Archs)
		if i.Glibc != "" {
			backend += "-glibc" + i.Glibc
		}
	} else if most := r.Verify.GlibcMax; most != "" {
		backend += "-glibc" + most
	}
	if i.DropIn != "" {
		kind = "backend"
	}
	name := fmt.Sprintf("%s-llp%d-%s-%s-%s-%s", Top(tagName, r), i.Revision, kind, system, backend, r.Arch)
	if r.Bundle.Runtime == spec.Full {
		name += "-full"
	}
	return name + "." + cmp.Or(r.Bundle.Format, spec.TarGz)
}

// maxTargets bounds the part of an archive's name that its targets make: a file name has 255
// bytes on most systems, and the names of parts and of temporary files are longer.
const maxTargets = 100

// targetsName writes the targets of AMD's cards as a part of a file name. Of too many it is
// their number and a hash of them; the bundle's README.md and BUILD_INFO.json name them.
func targetsName(targets []string) string {
	clean := strings.NewReplacer(":", "-", "+", "on", "xnack-", "xnackoff", "sramecc-", "srameccoff")
	var names []string
	for _, target := range targets {
		names = append(names, clean.Replace(target))
	}
	name := strings.Join(names, "-")
	if len(name) > maxTargets {
		sum := sha256.Sum256([]byte(name))
		return fmt.Sprintf("%d-targets-%x", len(targets), sum[:4])
	}
	return name
}

// extras are the files of a bundle that are no programs; fill writes them anew each time.
var extras = []string{"BUILD_INFO.json", "README.md", "PATCHES", "LICENSES", SumsFile, checkScript, win7Readme}

// IsExtra reports whether a bundle's entry, a file or a folder at its top, is one of those;
// scripts for Windows keep their names.
func IsExtra(name string) bool { return slices.Contains(extras, name) || path.Ext(name) == ".cmd" }

// fill adds to the staged programs what explains them: BUILD_INFO.json,
// README.md, PATCHES/, LICENSES/, SHA256SUMS, the recipe's scripts, and README-WIN7.txt
// where it is for Windows.
func (c Content) fill(top string) error {
	old, err := os.ReadDir(top)
	if err != nil {
		return err
	}
	for _, e := range old {
		if IsExtra(e.Name()) {
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
	info, err := spec.JSON(c.Info)
	if err != nil {
		return err
	}
	if err := write("BUILD_INFO.json", info); err != nil {
		return err
	}
	if err := write("PATCHES/README.md", patchesPage(c.Info.Series)); err != nil {
		return err
	}
	for i, s := range c.Info.Series.In {
		if err := write(fmt.Sprintf("PATCHES/%04d-%s.patch", i+1, s.Fix), c.Patches[i]); err != nil {
			return err
		}
	}
	for name, terms := range c.Licenses {
		if err := write("LICENSES/"+name, terms); err != nil {
			return err
		}
	}
	if err := write("README.md", bundlePage(c.Info)); err != nil {
		return err
	}
	if c.Info.Windows != "" {
		if err := write(win7Readme, c.Info.win7Page()); err != nil {
			return err
		}
	}
	for name, script := range c.Scripts {
		if err := write(name, script); err != nil {
			return err
		}
	}
	if c.Scripts[checkScript] != nil {
		if err := os.Chmod(filepath.Join(top, checkScript), 0o755); err != nil {
			return err
		}
	}
	sums, err := checksums(top)
	if err != nil {
		return err
	}
	return write(SumsFile, sums)
}

// checksums lists the SHA-256 of every file below top but SHA256SUMS itself, as sha256sum -c reads it.
func checksums(top string) ([]byte, error) {
	var b bytes.Buffer
	err := fs.WalkDir(os.DirFS(top), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == SumsFile {
			return err
		}
		sum, err := build.SumFile(filepath.Join(top, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
		return nil
	})
	return b.Bytes(), err
}
