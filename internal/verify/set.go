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
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/trust"
)

// set is an archive and what lies beside it.
type set struct {
	file     string // the archive
	m        *members
	names    []string // of what its folder holds
	sums     []byte   // SHA256SUMS beside it; nil: there is none
	sumsName string   // where it is published, it is called after the archive
	of       bundle.SumsOf
	refused  error // why sums are not read
}

// File is a file of an archive's set.
type File struct {
	Name   string // beside the archive
	As     string // beside archives of other targets, where it is published
	SHA256 string // as it was read
}

// newSet looks at what an archive's folder holds, and reads SHA256SUMS.
func (r *Report) newSet(file string, m *members) *set {
	s := &set{file: file, m: m}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		r.open("files", "What lies beside it is not known: %s.", cause(err))
	}
	for _, e := range entries {
		s.names = append(s.names, e.Name())
	}
	name := filepath.Base(file)
	for _, s.sumsName = range []string{name + bundle.SumsSuffix, bundle.SumsFile} {
		if s.sums = s.read(r, s.sumsName); s.sums != nil {
			break
		}
	}
	s.of, s.refused = bundle.ReadSums(s.sums, name)
	return s
}

// maxBeside is more than any file has that lies beside an archive. One that has more is cut, and
// so is not what anybody signed or listed.
const maxBeside = 64 << 20

// read reads a file of the archive's folder, nil where there is none, or none that can be read: that is wrong.
func (s *set) read(r *Report, name string) []byte {
	data, err := s.try(name)
	if err != nil {
		r.unread(name, err)
		return nil
	}
	return data
}

// unread says that a file beside the archive cannot be read.
func (r *Report) unread(name string, err error) {
	if errors.Is(err, regular.ErrNot) {
		r.wrong("files", "%s, beside it, is no regular file.", name)
		return
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EIO) { // a fault of here, not of the archive
		r.open("files", "%s, beside it, cannot be read here: %s.", name, cause(err))
		return
	}
	r.wrong("files", "%s, beside it, cannot be read: %s.", name, cause(err))
}

// cause is an error without the path, which is named already.
func cause(err error) string {
	if at := new(fs.PathError); errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}

// try is read without a word on what cannot be read.
func (s *set) try(name string) ([]byte, error) {
	f, err := regular.Open(filepath.Join(filepath.Dir(s.file), name))
	// A name that is too long is no file's: the archive's own has room for no suffix.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG) {
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
	case s.refused != nil:
		r.wrong("files", "SHA256SUMS beside it %s.", s.refused)
	case s.of.Archive == "":
		r.wrong("files", "SHA256SUMS beside it does not name it.")
	case s.of.Archive != s.m.sum:
		r.wrong("files", "Its SHA-256 is %s, and SHA256SUMS beside it says %s.", s.m.sum, s.of.Archive)
	}
	if len(s.of.Parts) == 0 { // a release page takes no file of 2 GiB: where there are parts, they are what is published
		r.set = append(r.set, File{name, name, s.m.sum})
	}
	if s.sums != nil && s.refused == nil {
		r.unlisted(s, info, o)
	}
	for _, sum := range slices.Concat(s.of.Parts, s.of.Beside) {
		if err := r.listed(ctx, s, sum); err != nil {
			return err
		}
	}
	if s.sums != nil {
		r.set = append(r.set, File{s.sumsName, name + bundle.SumsSuffix, sumOf(s.sums)})
	}
	key, err := r.signatures(ctx, s, info, o)
	if err == nil && key != nil {
		err = r.states(ctx, s, info, *key, o)
	}
	if err != nil || info == nil {
		return err
	}
	return r.rebuilds(ctx, s, info, key, o)
}

// listed compares a file beside the archive, or a part of it, with what SHA256SUMS says of it. The parts are the
// archive once more: where it is there itself, they need not be.
func (r *Report) listed(ctx context.Context, s *set, sum bundle.Sum) error {
	name, as := sum.Name, sum.Name
	if name == bundle.NotesFile {
		name, as = s.besideName(name), filepath.Base(s.file)+"."+name
	}
	if strings.ContainsAny(name, `/\`) {
		r.wrong("files", "SHA256SUMS beside it names %s, which is no file beside it.", name)
		return nil
	}
	part := slices.Contains(s.of.Parts, sum)
	got, err := regular.Sum(ctx, filepath.Join(filepath.Dir(s.file), name))
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case missing && !part:
		r.open("files", "%s, which SHA256SUMS names, is not beside it.", name)
	case missing && s.m.parts > 0:
		r.wrong("files", "%s, a part of it that SHA256SUMS names, is not there.", name)
	case missing:
	case err != nil:
		r.unread(name, err)
	case got != sum.SHA256:
		r.wrong("files", "%s is not what SHA256SUMS says it is.", name)
	}
	r.set = append(r.set, File{name, as, sum.SHA256})
	return nil
}

// unlisted refuses parts that SHA256SUMS does not name, and a page that whoever serves the archive may have
// written. Other llpatches did not name the page: it may be theirs, and is nobody's word.
func (r *Report) unlisted(s *set, info *bundle.Info, o Options) {
	for _, name := range s.names {
		if of, is := bundle.PartOf(name); is && of == filepath.Base(s.file) &&
			!slices.ContainsFunc(s.of.Parts, func(p bundle.Sum) bool { return p.Name == name }) {
			r.wrong("files", "%s lies beside it, and SHA256SUMS does not name it.", name)
		}
	}
	name := s.besideName(bundle.NotesFile)
	switch {
	case info == nil || !slices.Contains(s.names, name) ||
		slices.ContainsFunc(s.of.Beside, func(b bundle.Sum) bool { return b.Name == bundle.NotesFile }):
	case info.Llpatch == o.Version:
		r.wrong("files", "%s lies beside it, and SHA256SUMS does not name it.", name)
	default:
		r.open("files", "%s lies beside it, and SHA256SUMS does not name it, as llpatch %s may have left it: do not go by it.",
			name, info.Llpatch)
	}
}

// rebuilds names who states that he built the archive again.
func (r *Report) rebuilds(ctx context.Context, s *set, info *bundle.Info, signer *trust.PublicKey, o Options) error {
	before, after := filepath.Base(s.file)+".rebuilt-", bundle.StatementsSuffix
	var owner []string
	for _, file := range s.names {
		name, ours := strings.CutPrefix(file, before)
		name, suffix := strings.CutSuffix(name, after)
		if !ours || !suffix {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if owner == nil {
			owner = s.owner(signer, o)
		}
		by := slices.IndexFunc(o.Builders, func(k trust.PublicKey) bool { return k.Name() == name })
		switch {
		case slices.Contains(owner, name):
			r.add("rebuilt", Stated, "%s is by a key of whose key signs the release, who is no second builder.", file)
			continue
		case by < 0:
			r.add("rebuilt", Stated, "%s says that the holder of key %s built it again; without --builder KEY nobody knows.",
				file, name)
			continue
		}
		data := s.read(r, file)
		if data == nil {
			continue
		}
		text, err := o.Builders[by].Open(ctx, bytes.TrimSuffix(data, []byte("\n")))
		var tested bundle.TestResult
		if err == nil {
			tested, err = info.ReadReproduced(text, s.m.sum)
		}
		switch {
		case err != nil:
			r.wrong("rebuilt", "%s: %v.", file, err)
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
