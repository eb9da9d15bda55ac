package fork

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// declaring collects what declarations are to get, and writes it when all of it is right.
type declaring struct {
	chain.Workspace
	r        *Repo
	upstream string
	tag      tag.Tag
	made     []string          // commits that the fixes give as they are declared
	lo, hi   int               // the build numbers that the tag may have
	files    map[string][]byte // below the declarations' folder
}

func newDeclaring(ctx context.Context, e chain.Workspace, r *Repo, b Branch) (*declaring, error) {
	d := &declaring{Workspace: e, r: r, upstream: b.Upstream, tag: b.Tag, files: map[string][]byte{}}
	pin, known := e.Repo.Lock[b.Upstream][b.Tag.String()]
	if n, ok := b.Tag.Build(); ok {
		pin, known = spec.Pin{Build: n}, true
	}
	if !known {
		in, err := from(ctx, e, r, b.Tag)
		if err != nil {
			return nil, err
		}
		t, err := in.Fetch(ctx, b.Upstream, b.Tag)
		if err != nil {
			return nil, err
		}
		pin = t.Pin
		if err := t.Close(); err != nil {
			return nil, err
		}
	}
	d.lo, d.hi = pin.Build, max(pin.Build, pin.Max)
	return d, nil
}

// read is a declared file as it will be; nil where there is none.
func (d *declaring) read(name string) ([]byte, error) {
	if data, ok := d.files[name]; ok {
		return data, nil
	}
	data, err := fs.ReadFile(d.Repo.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// group puts a group's change into its fix, and reports whether that changes it.
func (d *declaring) group(ctx context.Context, g *group) (bool, error) {
	at := slices.IndexFunc(d.Repo.Fixes, func(f spec.Fix) bool { return f.ID == g.fix })
	if at < 0 {
		data, err := g.bytes(ctx, d.r, nil)
		if err != nil {
			return false, err
		}
		return true, d.fix(newFix{id: g.fix, subject: g.commits[0].Subject(), message: g.message(), status: "ours"}, data,
			nil)
	}
	f := d.Repo.Fixes[at]
	v, covered := f.VariantFor(d.upstream, d.lo)
	var declared []byte
	var err error
	same, fits := false, false
	switch {
	case !covered:
	case v.Commit != "" && slices.Contains(d.made, g.commits[len(g.commits)-1].ID):
		same = true // maybe by a resolution
	case v.Commit != "":
		c, cerr := source.UpstreamCommit(ctx, d.Sources(), d.upstream, v.Commit)
		if cerr != nil {
			return false, cerr
		}
		if declared, _, err = patch.FromCommit(c, g.fix, v.Commit); err != nil {
			return false, err
		}
		if same, _, err = g.is(declared); err == nil && !same {
			err = refuse("--new ID puts a change of yours into a fix of its own",
				"%s is upstream's commit %.12s by reference, and the branch has something else", g.fix, v.Commit)
		}
	default:
		if declared, err = d.read(path.Join("patches", g.fix, v.Patch)); err == nil {
			same, fits, err = g.is(declared)
		}
	}
	if err != nil || same {
		return false, err
	}
	if declared == nil && len(f.For(d.upstream).Variants) > 0 { // its message is most likely that of another variant
		if near := f.For(d.upstream).Variants[0]; near.Patch != "" {
			if declared, err = d.read(path.Join("patches", g.fix, near.Patch)); err != nil {
				return false, err
			}
		}
	}
	data, err := g.bytes(ctx, d.r, declared)
	if err != nil {
		return false, err
	}
	return true, d.variant(f, v, covered, fits, data)
}

// variant puts a patch into a fix that is there: into the variant's own file where that still
// fits the tag, else into a new variant from the tag on.
func (d *declaring) variant(f spec.Fix, v spec.Variant, covered, fits bool, data []byte) error {
	first, last := d.lo, d.hi
	if covered {
		lo, hi := v.Range.Bounds()
		if fits || lo == d.lo {
			d.files[path.Join("patches", f.ID, v.Patch)] = data
			return nil
		}
		last = hi
	}
	name := "b"
	if d.upstream == spec.IkLlamaCpp {
		name = "ik"
	}
	name = fmt.Sprintf("%s%d.patch", name, first)
	file := path.Join("patches", f.ID, name)
	if old, err := d.read(file); err != nil || old != nil && !bytes.Equal(old, data) {
		return errors.Join(err, refuse("rename it, or remove it", "%s is there with another content", file))
	}
	toml := path.Join("patches", f.ID, "fix.toml")
	text, err := d.read(toml)
	if err != nil {
		return err
	}
	if covered {
		lo, _ := v.Range.Bounds()
		if text, err = setRange(text, v.Patch, span(lo, first-1, false)); err != nil {
			return fmt.Errorf("%s: %w", toml, err)
		}
	}
	d.files[file] = data
	d.files[toml] = append(bytes.TrimRight(text, "\n"), []byte("\n"+
		d.block(span(first, last, covered && v.Range.Open()), name))...)
	return nil
}

// block is the [[variant]] of a patch file.
func (d *declaring) block(builds, name string) string {
	upstream := ""
	if d.upstream != spec.LlamaCpp {
		upstream = "upstream = " + quote(d.upstream) + "\n"
	}
	return fmt.Sprintf("\n[[variant]]\n%srange = %s\npatch = %s\nwhy   = %s\n", upstream, quote(builds), quote(name),
		quote(fmt.Sprintf("It was made on %s. llpatch status says on which other tags it fits.", d.tag)))
}

// span writes a range of build numbers.
func span(lo, hi int, open bool) string {
	if open {
		return fmt.Sprintf(">= %d", lo)
	}
	return fmt.Sprintf(">= %d, < %d", lo, hi+1)
}

// quote writes a TOML string.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b) // TOML's basic strings have JSON's escapes
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ToValidUTF8(s, "?")); err != nil {
		panic(err) // a string always encodes
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
}

var (
	tableLine = regexp.MustCompile(`(?m)^[ \t]*\[`)
	rangeLine = regexp.MustCompile(`(?m)^([ \t]*range[ \t]*=[ \t]*)("[^"\n]*"|'[^'\n]*')`)
)

// setRange gives the variant of a patch file another range.
func setRange(text []byte, name, builds string) ([]byte, error) {
	patchLine, err := regexp.Compile(`(?m)^[ \t]*patch[ \t]*=[ \t]*["']` + regexp.QuoteMeta(name) + `["']`)
	if err != nil {
		return nil, fmt.Errorf("%q is no file name: %w", name, err)
	}
	starts := tableLine.FindAllIndex(text, -1)
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		part := text[at[0]:end]
		if !patchLine.Match(part) || !rangeLine.Match(part) {
			continue
		}
		part = rangeLine.ReplaceAll(bytes.Clone(part), []byte("${1}"+quote(builds)))
		return slices.Concat(text[:at[0]], part, text[end:]), nil
	}
	return nil, fmt.Errorf("the range of %s is not found; end it before build %s by hand", name, builds)
}

// write tries the new declarations on the tag, where the fixes must give the wanted tree,
// and writes what is new of them. It returns the files.
func (d *declaring) write(ctx context.Context, ids []string, want *source.Tree) ([]string, error) {
	stage, remove, err := tempDir("llpatch-export-")
	if err != nil {
		return nil, err
	}
	defer remove()
	for name, data := range d.files {
		file := filepath.Join(stage, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return nil, err
		}
	}
	next, err := spec.Load(spec.Overlay(os.DirFS(stage), d.Repo.FS))
	if err != nil {
		return nil, fmt.Errorf("what would be written is wrong: %w", err)
	}
	next.Lock, next.Revisions, next.Sources = d.Repo.Lock, d.Repo.Revisions, d.Repo.Sources
	if err := d.try(ctx, next, ids, want); err != nil {
		return nil, err
	}
	return d.store(ctx)
}

// try applies fixes as they would be declared.
func (d *declaring) try(ctx context.Context, next *spec.Repo, ids []string, want *source.Tree) error {
	e, err := from(ctx, d.Workspace, d.r, d.tag)
	if err != nil {
		return err
	}
	e.Repo = only(next, func(f spec.Fix) bool {
		return slices.Contains(ids, f.ID)
	})
	p, err := chain.Patch(ctx, e, chain.Order{Tag: d.tag, Recipe: chain.AnyTarget(d.upstream)}, nil)
	if err != nil {
		return fmt.Errorf("the fixes as they would be written: %w", err)
	}
	defer func() { _ = p.Tree.Close() }() // it was only read from
	if p.Result.Tree.ID() != want.ID() {
		return &Refusal{
			Msg: fmt.Sprintf("the fixes in their order (%s) give tree %s on %s, and the branch has %s",
				spec.SeriesFile, p.Result.Tree.ID(), d.tag, want.ID()),
			Next: "a fix stands where patches/series has it: put the commits into that order with git rebase -i",
			Code: exit.Conflict,
		}
	}
	return nil
}

// Where new files of the declarations lie while they are written, and while they are put in their places.
const (
	staged = ".llpatch-new"
	ready  = ".llpatch-ready"
)

// store writes the files, all or none: a kill leaves those that were there, or what Recover puts in its place.
func (d *declaring) store(ctx context.Context) ([]string, error) {
	dir := d.Records.Dir
	if series, err := os.ReadFile(filepath.Join(dir, spec.SeriesFile)); err == nil {
		text := strings.TrimRight(string(series), "\n") + "\n"
		for _, name := range slices.Sorted(maps.Keys(d.files)) {
			id := path.Base(path.Dir(name))
			if path.Base(name) == "fix.toml" && !slices.ContainsFunc(d.Repo.Fixes, func(f spec.Fix) bool { return f.ID == id }) {
				text += id + "\n"
			}
		}
		if text != string(series) {
			d.files[spec.SeriesFile] = []byte(text)
		}
	}
	order := slices.SortedFunc(maps.Keys(d.files), lateLast)
	stage := filepath.Join(dir, staged)
	if err := os.RemoveAll(stage); err != nil {
		return nil, err
	}
	for _, name := range order {
		file := filepath.Join(stage, filepath.FromSlash(name))
		err := context.Cause(ctx)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o755)
		}
		if err == nil {
			err = atomicfile.WriteFile(file, d.files[name], 0o644)
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(stage))
		}
	}
	if err := os.Rename(stage, filepath.Join(dir, ready)); err != nil {
		return nil, err
	}
	return order, Recover(dir)
}

// lateLast orders files so that what names others is behind them.
func lateLast(a, b string) int {
	late := func(s string) int {
		return strings.Count(path.Base(s), "fix.toml") + 2*strings.Count(s, spec.SeriesFile)
	}
	return cmp.Or(late(a)-late(b), strings.Compare(a, b))
}

// Recover puts the files in their places that a run had ready for a folder of declarations when it was killed.
func Recover(dir string) error {
	from := filepath.Join(dir, ready)
	if folders, err := os.ReadDir(filepath.Join(from, "patches")); err == nil {
		for _, f := range folders { // whole, where it is new
			to := filepath.Join(dir, "patches", f.Name())
			if _, err := os.Lstat(to); f.IsDir() && errors.Is(err, fs.ErrNotExist) {
				if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(filepath.Join(from, "patches", f.Name()),
					to)); err != nil {
					return err
				}
			}
		}
	}
	var names []string
	err := fs.WalkDir(os.DirFS(from), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	slices.SortFunc(names, lateLast)
	for _, name := range names {
		to := filepath.Join(dir, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755))
		if err == nil {
			err = os.Rename(filepath.Join(from, filepath.FromSlash(name)), to)
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(from)
}
