package merge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Exported says what Export wrote.
type Exported struct {
	Tag     string         `json:"tag"`
	Target  string         `json:"target"`
	Dir     string         `json:"dir"`
	Base    string         `json:"base_tree"`    // git tree id of the tag
	Tree    string         `json:"patched_tree"` // with the whole series on it
	Files   []ExportedFile `json:"files"`        // in order
	Written bool           `json:"written"`      // false: all of it was there already
}

// ExportedFile is one patch file of the series.
type ExportedFile struct {
	Name   string `json:"name"`
	Fix    string `json:"fix"`
	From   string `json:"from"` // the declared file, which has the same bytes, or upstream's commit
	SHA256 string `json:"sha256"`
}

// ForeignFile is something in the folder to export to that llpatch did not
// write, or that was changed since.
type ForeignFile struct {
	Path string
	Why  string
}

// Error names the file and the way out.
func (e *ForeignFile) Error() string {
	return fmt.Sprintf("%s: %s; give a folder that is new or empty, or that llpatch series wrote", e.Path, e.Why)
}

// ExitCode is exit.Usage.
func (e *ForeignFile) ExitCode() int { return exit.Usage }

const (
	quiltSeries = "series"
	// exportStage is the folder inside the exported one in which all is made
	// ready, so that moving it to its place can only be renames.
	exportStage = ".llpatch-series"
)

// exportSum is the line of the series file that says what llpatch wrote.
var exportSum = regexp.MustCompile(`(?m)^# sha256 ([0-9a-f]{64})  (\S+)$`)

// Applied is a series on a tag's tree.
type Applied struct {
	FS     fs.FS // the declarations
	Series *spec.Series
	Tree   *source.Tree  // the tag's
	Result *patch.Result // with the series on it
}

// Whole are the bytes of the patch files of the series, in order, for a program that takes them
// whole. One of which upstream has a part is a *spec.Error that says what refuses it.
func (a Applied) Whole(refused string) ([][]byte, error) {
	var files [][]byte
	for _, in := range a.Series.In {
		if held, all := a.Result.Held(in.Fix); held > 0 {
			return nil, &spec.Error{
				File: path.Join("patches", in.Fix, "fix.toml"),
				Msg: fmt.Sprintf("upstream has %d of the %d changes of %s on %s: %s; write a variant for this tag",
					held, all, FileName(in), a.Series.Tag, refused),
			}
		}
		if slices.ContainsFunc(a.Result.Placements, func(p patch.Placement) bool {
			return p.Fix == in.Fix && p.Kind == patch.Merged
		}) {
			return nil, &spec.Error{
				File: path.Join("patches", in.Fix, "fix.toml"),
				Msg: fmt.Sprintf("%s has no place on %s, only a resolution: %s; llpatch fork make has it as a commit",
					FileName(in), a.Series.Tag, refused),
			}
		}
		data, err := Bytes(a.FS, in)
		if err != nil {
			return nil, err
		}
		files = append(files, data)
	}
	return files, nil
}

// Export writes the patches of the series to dir, byte for byte as they are declared,
// as 0001-<fix>.patch and so on, and a quilt series file. On the tag's tree, git
// am and quilt push -a --fuzz=0 give the tree of the result. lock is a file that keeps two
// exports apart.
//
// The folder must be new or empty, or hold only what Export wrote there before:
// else the error is a *ForeignFile and nothing is changed.
func Export(ctx context.Context, a Applied, dir, lock string, log *slog.Logger) (*Exported, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	out := &Exported{
		Tag: a.Series.Tag, Target: a.Series.Target, Dir: dir,
		Base: a.Tree.ID(), Tree: a.Result.Tree.ID(), Files: []ExportedFile{},
	}
	files, err := exportFiles(a, out, log)
	if err != nil {
		return nil, err
	}
	held, err := records.Lock(ctx, log, lock, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	old, err := exported(dir, files)
	if err != nil {
		return nil, err
	}
	if old.same(files) {
		return out, nil
	}
	if err := replaceFiles(ctx, dir, files, old.names); err != nil {
		return nil, fmt.Errorf("write %s: %w", dir, err)
	}
	out.Written = true
	return out, nil
}

// exportFile is a file to be written; the series file is the last.
type exportFile struct {
	name string
	data []byte
}

func exportFiles(a Applied, out *Exported, log *slog.Logger) ([]exportFile, error) {
	var files []exportFile
	for _, l := range a.Series.Landed {
		log.Warn("upstream has all of it: it is not exported", "fix", l.Fix)
	}
	patches, err := a.Whole("llpatch leaves those out, but git am and quilt refuse the file")
	if err != nil {
		return nil, err
	}
	for i, in := range a.Series.In {
		data := patches[i]
		if bytes.Contains(data, []byte("\nGIT binary patch\n")) {
			log.Warn("quilt takes no binary change; git am does", "fix", in.Fix)
		}
		f := ExportedFile{
			Name: fmt.Sprintf("%04d-%s.patch", len(files)+1, in.Fix), Fix: in.Fix,
			From: in.Patch + in.Commit, SHA256: fmt.Sprintf("%x", sha256.Sum256(data)),
		}
		out.Files = append(out.Files, f)
		files = append(files, exportFile{f.Name, data})
	}
	return withSeries(files, fmt.Sprintf("%s %s for %s", a.Series.Upstream, out.Tag, out.Target), "on tree "+out.Base,
		"gives tree "+out.Tree), nil
}

// withSeries adds the series file: comments that begin with what it is and end
// with the digests, then the names.
func withSeries(files []exportFile, about ...string) []exportFile {
	var series bytes.Buffer
	series.WriteString("# llpatch series: " + strings.Join(about, "\n# ") + "\n")
	for _, f := range files {
		fmt.Fprintf(&series, "# sha256 %x  %s\n", sha256.Sum256(f.data), f.name)
	}
	for _, f := range files {
		series.WriteString(f.name + "\n")
	}
	return append(files, exportFile{quiltSeries, series.Bytes()})
}

// exportedDir is what a folder holds of an earlier export.
type exportedDir struct {
	names []string
	data  map[string][]byte
	stage bool // an export was cut off
}

func (d *exportedDir) same(files []exportFile) bool {
	return !d.stage && len(d.names) == len(files) && !slices.ContainsFunc(files, func(f exportFile) bool {
		data, ok := d.data[f.name]
		return !ok || !bytes.Equal(data, f.data)
	})
}

// exported reads a folder and makes sure that all in it is llpatch's: the patch
// files that its series file names with their digests, or files that would be
// written with just these bytes.
func exported(dir string, files []exportFile) (*exportedDir, error) {
	d := &exportedDir{data: map[string][]byte{}}
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, &ForeignFile{dir, "is not a folder"}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	// After a cut, what was there and what was to come may stand side by side.
	sums := map[string][]string{}
	for _, sub := range []string{".", filepath.Join(exportStage, "old"), filepath.Join(exportStage, "new")} {
		text, err := os.ReadFile(filepath.Join(dir, sub, quiltSeries))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, m := range exportSum.FindAllStringSubmatch(string(text), -1) {
			sums[m[2]] = append(sums[m[2]], m[1])
		}
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		if e.Name() == exportStage && e.IsDir() {
			d.stage = true
			continue
		}
		if !e.Type().IsRegular() {
			return nil, &ForeignFile{file, "llpatch did not write it"}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if why := foreign(e.Name(), data, sums, files); why != "" {
			return nil, &ForeignFile{file, why}
		}
		d.names = append(d.names, e.Name())
		d.data[e.Name()] = data
	}
	return d, nil
}

// foreign says why a file is not llpatch's, "" where it is.
func foreign(name string, data []byte, sums map[string][]string, files []exportFile) string {
	if slices.ContainsFunc(files, func(f exportFile) bool { return f.name == name && bytes.Equal(f.data, data) }) {
		return ""
	}
	if name == quiltSeries {
		// Its comments say all that its lines do: what a user added shows.
		var want strings.Builder
		head := true
		for line := range strings.Lines(string(data)) {
			if head = head && strings.HasPrefix(line, "# "); head {
				want.WriteString(line)
			}
		}
		for _, m := range exportSum.FindAllStringSubmatch(want.String(), -1) {
			want.WriteString(m[2] + "\n")
		}
		switch {
		case !strings.HasPrefix(want.String(), "# llpatch series: "):
			return "llpatch did not write it"
		case want.String() != string(data):
			return "was changed since llpatch wrote it"
		}
		return ""
	}
	known, ok := sums[name]
	if !ok {
		return "llpatch did not write it"
	}
	if !slices.Contains(known, fmt.Sprintf("%x", sha256.Sum256(data))) {
		return "was changed since llpatch wrote it"
	}
	return ""
}

// replaceFiles puts files in the place of the old ones, all or none: where a
// step fails, those before it are taken back. Whoever kills it in the middle
// leaves a folder without a series file, which the next export puts right.
func replaceFiles(ctx context.Context, dir string, files []exportFile, old []string) (err error) {
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, u := range slices.Backward(undo) {
			err = errors.Join(err, u())
		}
	}()
	if _, serr := os.Stat(dir); errors.Is(serr, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		undo = append(undo, func() error { return os.Remove(dir) })
	}
	stage := filepath.Join(dir, exportStage)
	if err := os.RemoveAll(stage); err != nil {
		return err
	}
	undo = append(undo, func() error { return os.RemoveAll(stage) })
	for _, sub := range []string{"new", "old"} {
		if err := os.MkdirAll(filepath.Join(stage, sub), 0o755); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := atomicfile.WriteFile(filepath.Join(stage, "new", f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	move := func(from, to string) error {
		if err := os.Rename(from, to); err != nil {
			return err
		}
		undo = append(undo, func() error { return os.Rename(to, from) })
		return nil
	}
	// The series file goes first and comes last.
	slices.SortFunc(old, func(a, b string) int { return strings.Compare(b, a) })
	for _, name := range old {
		if err := move(filepath.Join(dir, name), filepath.Join(stage, "old", name)); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := move(filepath.Join(stage, "new", f.name), filepath.Join(dir, f.name)); err != nil {
			return err
		}
	}
	// All is in its place: what cannot be cleared away now is cleared next time.
	undo = nil
	_ = os.RemoveAll(stage)
	return nil
}
