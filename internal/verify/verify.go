// Package verify says what can be proven of an archive of llama.cpp: whose word stands for it,
// that nothing in it was changed, and that it is what it says it is. It runs nothing, asks no
// network, and takes nothing for true that the archive says of itself alone.
//
// Path is the whole of it; members.go reads archives, set.go what lies beside one, and
// content.go what one holds.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// Options are what a user asks of an archive.
type Options struct {
	Key      *trust.PublicKey  // who should have signed; nil: nobody in particular, so nobody's word counts
	Builders []trust.PublicKey // whose word on a second build counts
	Expect   string            // the tag that it should be of; empty: any
	Index    *bundle.Index     // of where it was published; nil: it is not looked up
	Version  string            // llpatch's own

	Attestation *Attestation // what a host states of it; nil: nothing is given
	Commit      string       // the commit that Expect is; empty: not known
	Advisories  spec.Advisories
}

// Status is what one look came to.
type Status string

// What a look comes to.
const (
	Proven Status = "proven"
	Wrong  Status = "wrong"
	Open   Status = "not known"
	Stated Status = "stated" // by somebody whose key was not given: it counts for nothing
)

// Finding is one look.
type Finding struct {
	// signature, files, manifest, patches, programs, statements, materials, index, attestation
	About  string `json:"about"`
	Status Status `json:"status"`
	Says   string `json:"says"` // a sentence
}

// Report is what is proven of one archive.
type Report struct {
	Subject  string      `json:"subject"` // the archive's name
	SHA256   string      `json:"sha256,omitempty"`
	Bytes    int64       `json:"bytes,omitempty"` // of the archive
	Tag      string      `json:"tag,omitempty"`
	Target   string      `json:"target,omitempty"`
	Findings []Finding   `json:"findings"`
	Security *spec.Known `json:"security,omitempty"`
	Rebuilt  *Rebuild    `json:"rebuilt,omitempty"`

	file     string       // the archive; empty: it is a folder
	files    int          // regular ones that it holds
	empty    bool         // it is a folder without a program
	inParts  bool         // the archive is there in parts alone
	set      []File       // the archive, or its parts, and what lies beside it
	by       string       // says that another llpatch made it, so that this one cannot prove all of it; empty: it can
	otherKey string       // that made the signature, and is not the one that should have
	attested bool         // its host states how it was made
	info     *bundle.Info // what it says of itself; nil: it is not llpatch's
}

func (r *Report) add(about string, s Status, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{about, s, patch.Printable(fmt.Sprintf(format, args...))})
}

func (r *Report) is(about, format string, args ...any)    { r.add(about, Proven, format, args...) }
func (r *Report) wrong(about, format string, args ...any) { r.add(about, Wrong, format, args...) }
func (r *Report) open(about, format string, args ...any)  { r.add(about, Open, format, args...) }

func (r *Report) has(s Status) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Status == s })
}

// Other reports whether it is another llpatch that made the archive, and nothing else, for which it is not proven.
func (r *Report) Other() bool {
	return r.by != "" && !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Status == Open && f.About != "materials"
	})
}

// Set are the files of the archive's set, each with the SHA-256 that was proven, or that is in
// SHA256SUMS: the archive or, where that is given in parts, these in its place. Of public keys it
// has the one that signed, and those by which it took the place of the one that is trusted.
func (r *Report) Set() []File { return slices.Clone(r.set) }

// Text is a line for each look, and a last one with the verdict.
func (r *Report) Text() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-9s  %-10s  %s\n", f.Status, f.About, f.Says)
	}
	if r.Security != nil {
		for _, line := range r.Security.Lines(listedDefects) {
			b.WriteString(patch.Printable(line) + "\n")
		}
	}
	fmt.Fprintf(&b, "%s: %s.\n", patch.Printable(r.Subject), r.verdict())
	return b.String()
}

// listedDefects is how many open defects are shown; --json has all of them.
const listedDefects = 8

func (r *Report) verdict() string {
	switch {
	case r.has(Wrong):
		return "do not use it: something in it is wrong"
	case r.reproduced():
		return "it is what it says it is: you built the same bytes from its source"
	case r.attested:
		return "it is what that workflow made; what it was made of, the workflow alone says"
	case r.has(Open):
		return "nothing wrong was found, and not all of it is proven"
	}
	return "it is what it says it is, by the key that you trust"
}

// reproduced reports whether the same bytes were built again here: that needs nobody's word, since
// the source and the fixes are those of this llpatch's own declarations.
func (r *Report) reproduced() bool {
	return r.Rebuilt != nil && len(r.Rebuilt.Differ)+len(r.Rebuilt.Allowed) == 0
}

// Err returns a *Failed where something is wrong, a *Unproven where not all is proven, else nil.
func (r *Report) Err() error {
	switch {
	case r.has(Wrong):
		return &Failed{r}
	case r.has(Open) && !r.reproduced() && !r.attested:
		return &Unproven{r}
	}
	return nil
}

// Failed says that something of an archive is wrong.
type Failed struct{ Report *Report }

// Error names what is wrong.
func (e *Failed) Error() string { return e.Report.list(Wrong) }

// ExitCode is exit.Smoke.
func (e *Failed) ExitCode() int { return exit.Smoke }

// Hint says where to get it again.
func (e *Failed) Hint() string {
	if e.Report.otherKey != "" {
		return "look whether --key is the publisher's own key, as he shows it elsewhere than beside the archive; a key that " +
			"took its place comes with NEW.pub and NEW.pub.minisig beside the archive"
	}
	return "get it again from where it was published, with what lies beside it; if it is wrong again, tell who " +
		"published it"
}

// Unproven says that nothing is wrong and not all of it proven.
type Unproven struct{ Report *Report }

// Error names what is not proven.
func (e *Unproven) Error() string { return e.Report.list(Open) }

// ExitCode is exit.NotRun.
func (e *Unproven) ExitCode() int { return exit.NotRun }

// Hint says how to prove more.
func (e *Unproven) Hint() string {
	if r := e.Report; r.Other() {
		return r.by + ", which compares all that it wrote"
	}
	return "llpatch verify PATH --key KEY, with the public key of whom you trust, which you have from elsewhere than " +
		"the archive"
}

func (r *Report) list(s Status) string {
	var b strings.Builder
	b.WriteString(patch.Printable(r.Subject) + ": " + r.verdict())
	for _, f := range r.Findings {
		if f.Status == s {
			b.WriteString("\n  " + f.About + ": " + strings.TrimRight(f.Says, "."))
		}
	}
	return b.String()
}

// NotArchive says that a path is nothing that can be verified.
type NotArchive struct{ Path, Why string }

// Error names the path and the cause.
func (e *NotArchive) Error() string { return e.Path + " " + e.Why }

// ExitCode is exit.Usage.
func (e *NotArchive) ExitCode() int { return exit.Usage }

// Hint says what can be verified.
func (e *NotArchive) Hint() string {
	return "llpatch verify takes an archive (tar.gz or zip) with what lies beside it, the folder of a release, or an " +
		"unpacked bundle"
}

// Path looks at an archive, at each archive in the folder of a release, or at an unpacked
// bundle. The error is a *NotArchive, or one of reading.
func Path(ctx context.Context, name string, o Options) ([]*Report, error) {
	if st, err := os.Stat(name); err != nil || !st.IsDir() {
		if of, part := bundle.PartOf(name); part && err == nil {
			name = of
		}
		r, err := archive(ctx, name, o)
		return []*Report{r}, err
	}
	if _, err := os.Stat(filepath.Join(name, bundle.InfoFile)); err == nil {
		r, err := unpacked(ctx, name, o)
		return []*Report{r}, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var all []*Report
	seen := map[string]bool{}
	for _, e := range entries {
		file := e.Name()
		if of, part := bundle.PartOf(file); part {
			file = of
		}
		if !isArchive(file) || e.IsDir() || seen[file] {
			continue
		}
		seen[file] = true
		r, err := archive(ctx, filepath.Join(name, file), o)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if len(all) > 0 {
		return all, nil
	}
	r, err := unpacked(ctx, name, o) // what somebody else packed otherwise, as a .deb is
	if err == nil && r.empty {
		err = &NotArchive{name, "holds no archive, no program and no library"}
	}
	return []*Report{r}, err
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, "."+spec.TarGz) || strings.HasSuffix(name, "."+spec.Zip)
}

// archive looks at an archive and at what lies beside it.
func archive(ctx context.Context, name string, o Options) (*Report, error) {
	r := &Report{Subject: filepath.Base(name)}
	m, err := readArchive(ctx, name)
	if broken := new(broken); errors.As(err, &broken) {
		if broken.strange && !isArchive(name) {
			return nil, &NotArchive{name, "is no archive"}
		}
		r.wrong("files", "The archive cannot be read: %s.", broken.why)
	} else if err != nil {
		return nil, err
	}
	r.SHA256, r.Bytes = m.sum, m.size
	s := r.newSet(name, m)
	r.file, r.files, r.inParts = name, len(m.files), m.parts > 0
	if broken := m.files == nil; !broken {
		r.info = r.content(m, o)
	}
	r.dated(o)
	if err := r.attest(o); err != nil {
		return nil, err
	}
	return r, r.beside(ctx, s, r.info, o)
}

// unpacked looks at a bundle's folder. No signature is of a folder: its files can be compared
// with what it says of itself alone.
func unpacked(ctx context.Context, dir string, o Options) (*Report, error) {
	r := &Report{Subject: filepath.Base(filepath.Clean(dir))}
	m, err := readFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	r.info, r.empty = r.content(m, o), len(m.bins) == 0
	r.alike(o)
	r.open("signature", "A folder has no signature: verify the archive that it comes from.")
	return r, nil
}
