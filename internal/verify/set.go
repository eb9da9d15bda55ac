package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/trust"
)

// set is an archive and what lies beside it.
type set struct {
	file     string // the archive
	m        *members
	sums     []byte // SHA256SUMS beside it; nil: there is none
	sumsName string // where it is published, it is called after the archive
	of       bundle.SumsOf
}

// File is a file of an archive's set.
type File struct {
	Name   string // beside the archive
	As     string // beside archives of other targets, where it is published
	SHA256 string // as it was read
}

func (s *set) readSums(r *Report) (err error) {
	name := filepath.Base(s.file)
	for _, s.sumsName = range []string{name + bundle.SumsSuffix, bundle.SumsFile} {
		if s.sums, err = s.read(r, s.sumsName); s.sums != nil || err != nil {
			break
		}
	}
	s.of = bundle.ReadSums(s.sums, name)
	return err
}

// maxBeside is more than any file has that lies beside an archive. One that has more is cut, and
// so is not what anybody signed or listed.
const maxBeside = 64 << 20

// read reads a file of the archive's folder, nil where there is none, or none that can be read: that is wrong.
func (s *set) read(r *Report, name string) ([]byte, error) {
	data, err := s.try(name)
	if errors.Is(err, regular.ErrNot) {
		r.wrong("files", "%s, beside it, is no regular file.", name)
		err = nil
	}
	return data, err
}

// try is read without a word on what cannot be read: that is regular.ErrNot.
func (s *set) try(name string) ([]byte, error) {
	f, err := regular.Open(filepath.Join(filepath.Dir(s.file), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxBeside))
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// besideName is what a file of the set that is not called after the archive is called beside it.
func (s *set) besideName(name string) string {
	if s.sumsName == bundle.SumsFile {
		return name
	}
	return filepath.Base(s.file) + "." + name
}

// beside looks at what lies beside an archive. info, which may be nil, is what it says of itself.
func (r *Report) beside(ctx context.Context, s *set, info *bundle.Info, o Options) error {
	name := filepath.Base(s.file)
	switch {
	case s.sums == nil:
		r.open("files", "No SHA256SUMS lies beside it.")
	case s.of.Archive == "":
		r.wrong("files", "SHA256SUMS beside it does not name it.")
	case s.of.Archive != s.m.sum:
		r.wrong("files", "Its SHA-256 is %s, and SHA256SUMS beside it says %s.", s.m.sum, s.of.Archive)
	}
	if len(s.of.Parts) == 0 { // a release page takes no file of 2 GiB: where there are parts, they are what is published
		r.set = append(r.set, File{name, name, s.m.sum})
	}
	if err := r.parts(ctx, s); err != nil {
		return err
	}
	for _, sum := range s.of.Beside {
		if err := r.listed(s, sum); err != nil {
			return err
		}
	}
	if err := r.notes(s, info); err != nil {
		return err
	}
	if s.sums != nil {
		r.set = append(r.set, File{s.sumsName, name + bundle.SumsSuffix, sumOf(s.sums)})
	}
	key, err := r.signatures(s, info, o)
	if err == nil && key != nil {
		err = r.states(ctx, s, info, *key, o)
	}
	if err != nil || info == nil {
		return err
	}
	return r.rebuilds(ctx, s, info, key, o)
}

// listed compares a file beside the archive with what SHA256SUMS says of it.
func (r *Report) listed(s *set, sum bundle.Sum) error {
	name, as := sum.Name, sum.Name
	if name == bundle.NotesFile {
		name, as = s.besideName(name), filepath.Base(s.file)+"."+name
	}
	if strings.ContainsAny(name, `/\`) {
		r.wrong("files", "SHA256SUMS beside it names %s, which is no file beside it.", name)
		return nil
	}
	found := len(r.Findings)
	data, err := s.read(r, name)
	switch {
	case err != nil:
		return err
	case len(r.Findings) > found: // it cannot be read
	case data == nil:
		r.open("files", "%s, which SHA256SUMS names, is not beside it.", name)
	case sumOf(data) != sum.SHA256:
		r.wrong("files", "%s is not what SHA256SUMS says it is.", name)
	}
	r.set = append(r.set, File{name, as, sum.SHA256})
	return nil
}

// parts compares the archive's parts that lie beside it, or of which it consists here. They are the archive once more:
// where it is there itself, they need not be.
func (r *Report) parts(ctx context.Context, s *set) error {
	there, err := partsBeside(s.file)
	if err != nil {
		return err
	}
	for _, name := range there {
		if s.sums != nil && !slices.ContainsFunc(s.of.Parts, func(p bundle.Sum) bool { return p.Name == name }) {
			r.wrong("files", "%s lies beside it, and SHA256SUMS does not name it.", name)
		}
	}
	for _, p := range s.of.Parts {
		r.set = append(r.set, File{p.Name, p.Name, p.SHA256})
		sum, err := regular.Sum(ctx, filepath.Join(filepath.Dir(s.file), p.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if s.m.parts > 0 {
				r.wrong("files", "%s, a part of it that SHA256SUMS names, is not there.", p.Name)
			}
		case errors.Is(err, regular.ErrNot):
			r.wrong("files", "%s, beside it, is no regular file.", p.Name)
		case err != nil:
			return err
		case sum != p.SHA256:
			r.wrong("files", "%s is not what SHA256SUMS says it is.", p.Name)
		}
	}
	return nil
}

// notes refuses a page that whoever serves the archive may have written.
func (r *Report) notes(s *set, info *bundle.Info) error {
	name := s.besideName(bundle.NotesFile)
	if info == nil || s.sums == nil ||
		slices.ContainsFunc(s.of.Beside, func(b bundle.Sum) bool { return b.Name == bundle.NotesFile }) {
		return nil
	}
	switch _, err := os.Lstat(filepath.Join(filepath.Dir(s.file), name)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	r.wrong("files", "%s lies beside it, and SHA256SUMS does not name it.", name)
	return nil
}

// rebuilds names who states that he built the archive again.
func (r *Report) rebuilds(ctx context.Context, s *set, info *bundle.Info, signer *trust.PublicKey, o Options) error {
	entries, err := os.ReadDir(filepath.Dir(s.file))
	if err != nil {
		return err
	}
	before, after := filepath.Base(s.file)+".rebuilt-", bundle.StatementsSuffix
	for _, e := range entries {
		name, ours := strings.CutPrefix(e.Name(), before)
		name, suffix := strings.CutSuffix(name, after)
		if !ours || !suffix {
			continue
		}
		by := slices.IndexFunc(o.Builders, func(k trust.PublicKey) bool { return k.Name() == name })
		switch {
		case o.Key != nil && o.Key.Name() == name || signer != nil && signer.Name() == name: // or one that took its place
			r.add("rebuilt", Stated, "%s is by the key that signs the release, who is no second builder.", e.Name())
			continue
		case by < 0:
			r.add("rebuilt", Stated, "%s says that the holder of key %s built it again; without --builder KEY nobody knows.",
				e.Name(), name)
			continue
		}
		data, err := s.read(r, e.Name())
		if err != nil {
			return err
		}
		text, err := o.Builders[by].Open(ctx, bytes.TrimSuffix(data, []byte("\n")))
		var tested bundle.TestResult
		if err == nil {
			tested, err = info.ReadReproduced(text, s.m.sum)
		}
		switch {
		case err != nil:
			r.wrong("rebuilt", "%s: %v.", e.Name(), err)
		case tested.Result == "PASSED":
			r.is("rebuilt", "Key %s built it again and got the same: %s.", name, strings.Join(tested.Passed, ", "))
		case tested.Result == "WARNED":
			r.is("rebuilt", "Key %s built it again and got the same but for what may differ: %s.", name,
				strings.Join(tested.Warned, "; "))
		default:
			r.wrong("rebuilt", "Key %s built it again and got another: %s.", name, strings.Join(tested.Failed, ", "))
		}
	}
	return nil
}

// dated looks the archive up in the index of where it was published. An older one is as wrong
// as a withdrawn one, unless its tag was expected: it may be a replay.
func (r *Report) dated(o Options) {
	if o.Index == nil {
		return
	}
	date := o.Index.Date.Format(time.DateOnly)
	release, a, there := o.Index.Find(r.Subject, r.SHA256)
	switch {
	case !there:
		r.open("index", "The index of %s does not name it.", date)
	case a.SHA256 != r.SHA256:
		r.wrong("index", "The index of %s has another SHA-256 for it, %s.", date, a.SHA256)
	default:
		if says := r.current(o, release, a); says != "" {
			r.is("index", "%s", says)
		}
	}
}

// alike looks up in the index what an unpacked bundle says that it is: the bytes of its archive are not known.
func (r *Report) alike(o Options) {
	if o.Index == nil {
		return
	}
	date := o.Index.Date.Format(time.DateOnly)
	if r.info == nil {
		r.open("index", "The folder does not say what it is, and so cannot be looked up in the index of %s.", date)
		return
	}
	release, a, there := o.Index.Like(r.info.Entry(bundle.Packed{}, r.Subject))
	if !there {
		r.open("index", "The index of %s has no %s llp%d for %s.", date, r.info.Tag, r.info.Revision, r.info.Target)
		return
	}
	if says := r.current(o, release, a); says != "" {
		r.open("index", "By its name and no more: %s", says)
	}
}

// current says of an archive that the index has whether there is a newer one. One that should not
// be used is wrong; then it says nothing.
func (r *Report) current(o Options, release bundle.Release, a bundle.Archive) string {
	date := o.Index.Date.Format(time.DateOnly)
	newer, old := o.Index.Newer(a)
	switch {
	case release.Withdrawn != nil:
		r.wrong("index", "It was withdrawn on %s: %s", release.Withdrawn.Date.Format(time.DateOnly), release.Withdrawn.Why)
	// another revision has cures, and the same tag
	case old && (o.Expect == "" || o.Expect != r.Tag || newer.Tag == a.Tag):
		r.wrong("index", "The index of %s has a newer one for %s: %s.", date, a.Target, newer.Name)
	case old:
		return fmt.Sprintf("The index of %s has it, and a newer one: %s.", date, newer.Name)
	default:
		return fmt.Sprintf("The index of %s has it, and no newer one for %s.", date, a.Target)
	}
	return ""
}
