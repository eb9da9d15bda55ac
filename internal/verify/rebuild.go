package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// Rebuild is how an archive and what a second builder made of its manifest compare.
type Rebuild struct {
	Archive string    `json:"archive"` // the second one
	SHA256  string    `json:"sha256"`
	Same    int       `json:"same"`              // files that are alike
	Allowed []Allowed `json:"allowed,omitempty"` // files that differ in what the manifest names alone
	// the others: A is the archive that was given, B the second one
	Differ    []binary.FileDiffers `json:"differ,omitempty"`
	Checks    []bundle.CheckInfo   `json:"checks"`              // what the second builder's checks came to
	Statement string               `json:"statement,omitempty"` // the file with the second builder's word
}

// Allowed is a file that may differ.
type Allowed struct {
	Path  string `json:"path"`
	Why   string `json:"why"`
	Bytes int64  `json:"bytes"` // that differ
}

// verdict is the word for it that a statement has.
func (b *Rebuild) verdict() bundle.Reproduction {
	v := bundle.Reproduction{Same: b.Same}
	for _, a := range b.Allowed {
		v.Allowed = append(v.Allowed, a.Path+": "+a.Why)
	}
	for _, d := range b.Differ {
		v.Differ = append(v.Differ, d.Path)
	}
	return v
}

// NotAgain says that an archive is none that can be built again.
type NotAgain struct{ Subject, Why string }

// Error names the archive and the cause.
func (e *NotAgain) Error() string { return e.Subject + " cannot be built again: " + e.Why }

// ExitCode is exit.NotRun.
func (e *NotAgain) ExitCode() int { return (&Unproven{}).ExitCode() }

// CanRebuild returns a *NotAgain unless the report is of an archive of llpatch in which nothing is wrong.
func (r *Report) CanRebuild() error {
	switch {
	case r.has(Wrong):
		return &NotAgain{r.Subject, "something in it is wrong already"}
	case r.info == nil:
		return &NotAgain{r.Subject, "it is not llpatch's, and does not say how it was built"}
	case r.inParts:
		return &NotAgain{r.Subject, "it is there in parts: join them first (cat NAME.part* > NAME)"}
	case r.file == "":
		return &NotAgain{r.Subject, "it is a folder; the archive that it comes from can be"}
	}
	return nil
}

// Manifest is what the archive says of itself, nil where it says nothing that can be read.
func (r *Report) Manifest() *bundle.Info { return r.info }

// Rebuild builds the report's archive again and adds what the comparison came to. With a key,
// which may be nil, the second builder's statement is written beside the second archive.
func (r *Report) Rebuild(ctx context.Context, e chain.Workspace, o chain.Order, m chain.Machine, key *trust.Key) error {
	again, err := chain.Rebuild(ctx, e, o, m)
	if err != nil {
		return err
	}
	b := &Rebuild{Archive: again.Archive, SHA256: again.SHA256, Checks: again.Checks}
	if err := b.compare(ctx, r, e.Out); err != nil {
		return err
	}
	r.Rebuilt = b
	of := fmt.Sprintf("%s %s (tree %.12s, plan %.12s)", r.info.Upstream, r.info.Tag, r.info.Tree, r.info.Plan)
	switch {
	case len(b.Differ) > 0:
		var names []string
		for _, d := range b.Differ {
			names = append(names, d.Path)
		}
		r.wrong("rebuilt", "Built again from %s it is another: %s.", of, strings.Join(names, ", "))
	case len(b.Allowed) > 0:
		r.is("rebuilt", "Built again from %s, %d files are the same bytes, and %d differ only in what BUILD_INFO.json names.", of, b.Same, len(b.Allowed))
	default:
		r.is("rebuilt", "Built again from %s it is the same archive, byte for byte: %d files.", of, b.Same)
	}
	if key == nil {
		return nil
	}
	line, err := r.info.Reproduced(ctx, bundle.Packed{Archive: r.Subject, SHA256: r.SHA256}, b.verdict(), *key)
	if err != nil {
		return err
	}
	b.Statement = filepath.Join(filepath.Dir(again.Archive), bundle.ReproducedName(r.Subject, key.Public().Name()))
	return atomicfile.WriteFile(b.Statement, line, 0o644)
}

// compare fills in how the two archives compare. A folder below out holds their files meanwhile.
func (b *Rebuild) compare(ctx context.Context, r *Report, out string) (err error) {
	if b.SHA256 == r.SHA256 {
		b.Same = r.files
		return nil
	}
	dir, err := os.MkdirTemp(out, "compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	theirs, ours := filepath.Join(dir, "given"), filepath.Join(dir, "again")
	for to, archive := range map[string]string{theirs: r.file, ours: b.Archive} {
		if err := errors.Join(os.Mkdir(to, 0o755), bundle.Unpack(ctx, archive, to)); err != nil {
			return err
		}
	}
	var unsigned []string
	if r.info.May(bundle.Signature) {
		if unsigned, err = unsign(ctx, r.info, theirs, ours); err != nil {
			return err
		}
	}
	c, err := binary.Compare(ctx, theirs, ours)
	if err != nil {
		return err
	}
	b.Same = c.Same
	for _, name := range unsigned {
		if !slices.ContainsFunc(c.Differ, func(d binary.FileDiffers) bool { return d.Path == name }) {
			b.Same--
			b.Allowed = append(b.Allowed, Allowed{Path: name, Why: "its signature"})
		}
	}
	var pages []binary.FileDiffers // that follow from the others
	for _, d := range c.Differ {
		switch why := mayDiffer(r.info, d); {
		case d.Path == bundle.InfoFile || d.Path == bundle.SumsFile:
			pages = append(pages, d)
		case why != "":
			b.Allowed = append(b.Allowed, Allowed{d.Path, why, d.Bytes})
		default:
			b.Differ = append(b.Differ, d)
		}
	}
	for _, d := range pages {
		switch follows, err := b.follows(r.info, ours, d.Path); {
		case err != nil:
			return err
		case follows:
			b.Allowed = append(b.Allowed, Allowed{d.Path, "the sums of those files", d.Bytes})
		default:
			b.Differ = append(b.Differ, d)
		}
	}
	if len(b.Differ)+len(b.Allowed) == 0 {
		b.Differ = []binary.FileDiffers{{
			Path: r.Subject,
			Why:  "its files are the same, and not the archive around them: their order, times or compression",
		}}
	}
	return nil
}

// mayDiffer says why the manifest lets a file differ as it does, "" where it does not.
func mayDiffer(info *bundle.Info, d binary.FileDiffers) string {
	if !info.May(bundle.DeviceCode) || d.Why != "" {
		return ""
	}
	for _, s := range d.Sections {
		if s.Left > 0 && !s.DeviceCode() {
			return ""
		}
		if slices.ContainsFunc(s.Causes, func(cause string) bool {
			return !binary.OfNVCC(cause)
		}) && !s.DeviceCode() && s.Name != binary.BuildID {
			return ""
		}
		if s.Sizes[0] != s.Sizes[1] && s.DeviceCode() && min(s.Sizes[0], s.Sizes[1]) < 0 {
			return ""
		}
	}
	return "device code, and names that nvcc makes"
}

// follows reports whether a page differs only because files that may differ do.
func (b *Rebuild) follows(info *bundle.Info, ours, name string) (bool, error) {
	if len(b.Allowed) == 0 || len(b.Differ) > 0 {
		return false, nil
	}
	if name == bundle.SumsFile { // that it fits the given files was looked at before
		return true, nil
	}
	data, err := os.ReadFile(filepath.Join(ours, name))
	if err != nil {
		return false, err
	}
	again, err := bundle.ReadInfo(data)
	if err != nil {
		return false, fmt.Errorf("%s: %w", bundle.InfoFile, err)
	}
	for _, a := range b.Allowed {
		again.Sums[a.Path] = info.Sums[a.Path]
		at := func(list []*binary.File) int {
			return slices.IndexFunc(list, func(f *binary.File) bool { return f.Name == a.Path })
		}
		if i, j := at(again.Files), at(info.Files); i >= 0 && j >= 0 {
			again.Files[i] = info.Files[j]
		}
	}
	x, err1 := spec.JSON(again)
	y, err2 := spec.JSON(info)
	return bytes.Equal(x, y), errors.Join(err1, err2)
}

// unsign takes the signatures off the programs that the manifest says are signed, on both sides,
// and returns their names. One that is not of its file stays.
func unsign(ctx context.Context, info *bundle.Info, theirs, ours string) ([]string, error) {
	var names []string
	for name := range info.Unsigned {
		file := filepath.Join(theirs, filepath.FromSlash(name))
		if s, err := binary.ReadSignature(ctx, file); err != nil || s.Fault != "" {
			continue
		}
		if err := errors.Join(binary.Unsign(file), binary.Unsign(filepath.Join(ours, filepath.FromSlash(name)))); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}
