package patch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/source"
)

// ResolutionDir is the folder, below a project's top, that keeps resolutions.
const ResolutionDir = "resolutions"

// Resolution is the kept answer to one merge of one file: what three blobs gave.
type Resolution struct {
	Fix    string // for whose patch it was made; for a reader only
	Path   string // of the file, likewise
	Base   string // blob ids
	Ours   string
	Theirs string
	Merged string

	hunks string // from Theirs to Merged
}

// NewResolution records that merging ours and theirs over base gives merged,
// whether an algorithm or a person found it.
func NewResolution(fix, path string, base, ours, theirs, merged []byte) Resolution {
	var hunks bytes.Buffer
	writeHunks(&hunks, theirs, merged, false)
	return Resolution{
		Fix: fix, Path: path, Base: blobID(base), Ours: blobID(ours), Theirs: blobID(theirs), Merged: blobID(merged),
		hunks: hunks.String(),
	}
}

// Name is the name of its file: the SHA-256, in hex, of the ids of base, ours
// and theirs, each with a newline behind it.
func (r Resolution) Name() string { return resolutionName(r.Base, r.Ours, r.Theirs) }

func resolutionName(ids ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n") + "\n"))
	return hex.EncodeToString(sum[:])
}

// resolutionHead begins every file of this form.
const resolutionHead = "llpatch resolution 1\n"

// Encode returns the text of its file: a header, and the diff that turns theirs
// into the merge.
func (r Resolution) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(resolutionHead)
	for _, f := range r.fields() {
		fmt.Fprintf(&b, "%s: %s\n", f.key, *f.value)
	}
	b.WriteByte('\n')
	if r.Theirs != r.Merged {
		b.WriteString(resolutionDiff(r))
	}
	return b.Bytes()
}

func resolutionDiff(r Resolution) string {
	return fmt.Sprintf("diff --git a/file b/file\nindex %s..%s 100644\n--- a/file\n+++ b/file\n%s", r.Theirs, r.Merged,
		r.hunks)
}

func (r *Resolution) fields() []struct {
	key   string
	value *string
} {
	return []struct {
		key   string
		value *string
	}{
		{"Fix", &r.Fix},
		{"File", &r.Path},
		{"Base", &r.Base},
		{"Ours", &r.Ours},
		{"Theirs", &r.Theirs},
		{"Merged", &r.Merged},
	}
}

// ParseResolution reads a resolution; file is what errors call it, and its last
// part must be the resolution's Name.
func ParseResolution(file string, data []byte) (Resolution, error) {
	r, err := parseResolution(file, data)
	return r, damaged(err)
}

// Damaged is a resolution that is not as it was written.
type Damaged struct{ err error }

// damaged makes an error one of a resolution.
func damaged(err error) error {
	if err == nil {
		return nil
	}
	return &Damaged{err}
}

// Error names the file and the cause.
func (e *Damaged) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Damaged) Unwrap() error { return e.err }

// ExitCode is exit.Declaration.
func (e *Damaged) ExitCode() int { return exit.Declaration }

// Hint says what to do.
func (e *Damaged) Hint() string {
	return "restore the file, or remove it: the merge is then made anew"
}

func parseResolution(file string, data []byte) (Resolution, error) {
	var r Resolution
	rest, ok := bytes.CutPrefix(data, []byte(resolutionHead))
	if !ok {
		return r, fmt.Errorf("%s: not a resolution of a form that this version knows: its first line is not %q", file,
			strings.TrimSpace(resolutionHead))
	}
	for i, f := range r.fields() {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		value, ok := strings.CutPrefix(string(line), f.key+": ")
		if !ok {
			return r, fmt.Errorf("%s:%d: %q where %q belongs", file, i+2, line, f.key+": …")
		}
		*f.value, rest = value, after
	}
	for _, id := range []string{r.Base, r.Ours, r.Theirs, r.Merged} {
		if !isFullID(id) || strings.Trim(id, "0123456789abcdef") != "" {
			return r, fmt.Errorf("%s: %q is not a blob id of 40 hex digits", file, id)
		}
	}
	if got := r.Name(); got != path.Base(file) {
		return r, fmt.Errorf("%s: its blobs belong into a file called %s: one of the two was changed", file, got)
	}
	if rest, ok = bytes.CutPrefix(rest, []byte("\n")); !ok {
		return r, fmt.Errorf("%s: no blank line below the header", file)
	}
	if len(rest) == 0 && r.Theirs == r.Merged {
		return r, nil
	}
	head := resolutionDiff(Resolution{Theirs: r.Theirs, Merged: r.Merged})
	hunks, ok := bytes.CutPrefix(rest, []byte(head))
	if !ok || r.Theirs == r.Merged {
		return r, fmt.Errorf("%s: its diff does not begin with %q", file, head)
	}
	r.hunks = string(hunks)
	ps, err := Parse(r.Fix, file, rest)
	if err != nil {
		return r, err
	}
	if len(ps) != 1 || len(ps[0].changes) != 1 {
		return r, fmt.Errorf("%s: is about more than one file", file)
	}
	return r, nil
}

// apply returns the merge, given the content of theirs. file is what errors
// call the resolution.
func (r Resolution) apply(file string, theirs []byte) ([]byte, error) {
	out, err := r.applied(file, theirs)
	return out, damaged(err)
}

func (r Resolution) applied(file string, theirs []byte) ([]byte, error) {
	if blobID(theirs) != r.Theirs {
		return nil, fmt.Errorf("%s: made for blob %s, not %s", file, r.Theirs, blobID(theirs))
	}
	if r.Theirs == r.Merged {
		return theirs, nil
	}
	ps, err := Parse(r.Fix, file, []byte(resolutionDiff(r)))
	if err != nil {
		return nil, err
	}
	tree, err := source.New(map[string]source.File{"file": {Mode: source.Regular, Data: theirs}})
	if err != nil {
		return nil, err
	}
	res, err := Apply(tree, ps)
	if err != nil {
		return nil, fmt.Errorf("%s: is damaged, remove it: its diff does not fit its own blob: %w", file, err)
	}
	out, err := res.Tree.Read("file")
	if err != nil {
		return nil, err
	}
	if got := blobID(out.Data); got != r.Merged {
		return nil, fmt.Errorf("%s: is damaged, remove it: it gives blob %s, and its header says %s", file, got, r.Merged)
	}
	return out.Data, nil
}

// Resolutions are those of a project, by Name.
type Resolutions map[string]Resolution

// Find returns the resolution for exactly these three blobs.
func (rs Resolutions) Find(base, ours, theirs string) (Resolution, bool) {
	r, ok := rs[resolutionName(base, ours, theirs)]
	return r, ok
}

// LoadResolutions reads the folder resolutions of a project; it is no error if
// there is none. Every file that is not a whole resolution under its right name
// is one, which the joined error names; README.md and hidden files may be there.
func LoadResolutions(fsys fs.FS) (Resolutions, error) {
	entries, err := fs.ReadDir(fsys, ResolutionDir)
	if errors.Is(err, fs.ErrNotExist) {
		return Resolutions{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resolutions: %w", err)
	}
	out := Resolutions{}
	var errs []error
	for _, e := range entries {
		if e.Name() == "README.md" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := path.Join(ResolutionDir, e.Name())
		r, err := readResolution(fsys, file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[r.Name()] = r
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

func readResolution(fsys fs.FS, file string) (Resolution, error) {
	f, err := fsys.Open(file)
	if err != nil {
		return Resolution{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return Resolution{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(data) > MaxSize {
		return Resolution{}, damaged(fmt.Errorf("%s: larger than %d MiB", file, MaxSize>>20))
	}
	return ParseResolution(file, data)
}
