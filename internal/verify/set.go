package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
}

func (s *set) readSums() (err error) {
	for _, s.sumsName = range []string{filepath.Base(s.file) + bundle.SumsSuffix, bundle.SumsFile} {
		if s.sums, err = s.read(s.sumsName); s.sums != nil || err != nil {
			return err
		}
	}
	return nil
}

// maxBeside is more than any file has that lies beside an archive. One that has more is cut, and
// so is not what anybody signed or listed.
const maxBeside = 64 << 20

// read reads a file of the archive's folder, nil where there is none.
func (s set) read(name string) ([]byte, error) {
	f, err := regular.Open(filepath.Join(filepath.Dir(s.file), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxBeside))
}

// beside looks at what lies beside an archive. info, which may be nil, is what it says of itself.
func (r *Report) beside(ctx context.Context, s set, info *bundle.Info, o Options) error {
	name := filepath.Base(s.file)
	if s.sums == nil {
		r.open("files", "No SHA256SUMS lies beside it.")
	} else if want, ok := listed(s.sums)[name]; !ok {
		r.wrong("files", "SHA256SUMS beside it does not name it.")
	} else if want != s.m.sum {
		r.wrong("files", "Its SHA-256 is %s, and SHA256SUMS beside it says %s.", s.m.sum, want)
	}
	for other, want := range listed(s.sums) {
		if other == name || !strings.HasPrefix(other, name+".") {
			continue
		}
		if _, part := bundle.PartOf(other); part {
			continue // it is the archive once more
		}
		if strings.ContainsAny(other, `/\`) {
			r.wrong("files", "SHA256SUMS beside it names %s, which is no file beside it.", other)
			continue
		}
		data, err := s.read(other)
		switch {
		case err != nil:
			r.wrong("files", "%s cannot be read: %v.", other, err)
		case data == nil:
			r.open("files", "%s, which SHA256SUMS names, is not beside it.", other)
		case sumOf(data) != want:
			r.wrong("files", "%s is not what SHA256SUMS says it is.", other)
		}
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

// rebuilds names who states that he built the archive again.
func (r *Report) rebuilds(ctx context.Context, s set, info *bundle.Info, signer *trust.PublicKey, o Options) error {
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
		data, err := s.read(e.Name())
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
	newer, old := o.Index.Newer(a)
	switch {
	case !there:
		r.open("index", "The index of %s does not name it.", date)
	case a.SHA256 != r.SHA256:
		r.wrong("index", "The index of %s has another SHA-256 for it, %s.", date, a.SHA256)
	case release.Withdrawn != nil:
		r.wrong("index", "It was withdrawn on %s: %s", release.Withdrawn.Date.Format(time.DateOnly), release.Withdrawn.Why)
	// another revision has cures, and the same tag
	case old && (o.Expect == "" || o.Expect != r.Tag || newer.Tag == a.Tag):
		r.wrong("index", "The index of %s has a newer one for %s: %s.", date, a.Target, newer.Name)
	case old:
		r.is("index", "The index of %s has it, and a newer one: %s.", date, newer.Name)
	default:
		r.is("index", "The index of %s has it, and no newer one for %s.", date, a.Target)
	}
}

// signatures looks who signed the archive and SHA256SUMS, and returns the key that did, nil
// where none that counts did.
func (r *Report) signatures(s set, info *bundle.Info, o Options) (*trust.PublicKey, error) {
	name := filepath.Base(s.file)
	signature, err := s.read(name + trust.SignatureSuffix)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Key == nil && signature == nil:
		r.open("signature", "Nobody signed it, and no key was given: whose it is cannot be known.")
		return nil, nil
	case o.Key == nil:
		r.open("signature", "It has a signature, and no key was given to verify it with.")
		return nil, nil
	case signature == nil:
		r.wrong("signature", "Key %s should have signed it, and %s is not there.", o.Key.Name(), name+trust.SignatureSuffix)
		return nil, nil
	}
	key := *o.Key
	comment, err := s.verify(key, signature)
	if bad := new(trust.BadSignature); errors.As(err, &bad) {
		if next, ok := s.successor(key); ok {
			if comment, err = s.verify(next, signature); err == nil {
				key = next
				r.is("signature", "Key %s took the place of %s, which signed that.", next.Name(), o.Key.Name())
			}
		}
	}
	if bad := new(trust.BadSignature); errors.As(err, &bad) {
		r.wrong("signature", "%s: %s.", name+trust.SignatureSuffix, bad.Why)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info != nil && comment != info.SignedComment(name) {
		r.wrong("signature", "It was made for %q, and this is %q.", comment, info.SignedComment(name))
		return nil, nil
	}
	r.is("signature", "Key %s signed it: %s.", key.Name(), comment)
	if s.sums == nil {
		return &key, nil
	}
	signature, err = s.read(s.sumsName + trust.SignatureSuffix)
	if err != nil {
		return nil, err
	}
	if signature == nil {
		r.wrong("signature", "Key %s should have signed SHA256SUMS too, and SHA256SUMS%s is not there.", key.Name(),
			trust.SignatureSuffix)
		return &key, nil
	}
	comment, err = key.Verify(bytes.NewReader(s.sums), signature)
	if bad := new(trust.BadSignature); errors.As(err, &bad) {
		r.wrong("signature", "SHA256SUMS%s: %s.", trust.SignatureSuffix, bad.Why)
	} else if err != nil {
		return nil, err
	} else if info != nil && comment != info.SignedComment(bundle.SumsFile) {
		r.wrong("signature", "That of SHA256SUMS was made for %q, and this is %q.", comment,
			info.SignedComment(bundle.SumsFile))
	}
	return &key, nil
}

// verify checks the archive's signature.
func (s set) verify(key trust.PublicKey, signature []byte) (string, error) {
	f, err := os.Open(s.file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	return key.Verify(f, signature)
}

// successor is a key beside the archive that another lets take its place.
func (s set) successor(key trust.PublicKey) (trust.PublicKey, bool) {
	entries, err := os.ReadDir(filepath.Dir(s.file))
	if err != nil {
		return key, false
	}
	for _, e := range entries {
		name, signed := strings.CutSuffix(e.Name(), trust.SignatureSuffix)
		if !signed || !strings.HasSuffix(name, ".pub") {
			continue
		}
		text, err1 := s.read(name)
		signature, err2 := s.read(e.Name())
		if errors.Join(err1, err2) != nil {
			continue
		}
		if next, err := key.Succeeded(text, signature); err == nil {
			return next, true
		}
	}
	return key, false
}

// states compares the statements and the bill of materials with what this llpatch makes of the
// archive's own manifest.
func (r *Report) states(ctx context.Context, s set, info *bundle.Info, key trust.PublicKey, o Options) error {
	if info == nil {
		return nil
	}
	packed := bundle.Packed{Archive: s.file, SHA256: s.m.sum}
	c := bundle.Content{Info: *info}
	lines, err := s.read(filepath.Base(s.file) + bundle.StatementsSuffix)
	if err != nil {
		return err
	}
	if lines == nil {
		r.open("statements", "No statements on how it was built and tested lie beside it.")
	} else if err := r.statements(ctx, c, packed, lines, key, o); err != nil {
		return err
	}
	have, err := s.read(filepath.Base(s.file) + bundle.SBOMSuffix)
	if err != nil {
		return err
	}
	if have == nil {
		r.open("materials", "No bill of materials lies beside it.")
		return nil
	}
	want, err := c.SBOM(packed)
	if err != nil {
		return err
	}
	switch {
	case bytes.Equal(have, want):
		r.is("materials", "The bill of materials is that of BUILD_INFO.json.")
	case info.Llpatch == o.Version:
		r.wrong("materials", "The bill of materials is not that of BUILD_INFO.json.")
	default:
		r.open("materials", "llpatch %s wrote the bill of materials, and this one (%s) cannot write it again to compare.",
			info.Llpatch, o.Version)
	}
	return nil
}

// statements compares the signed ones with those of the manifest.
func (r *Report) statements(ctx context.Context, c bundle.Content, p bundle.Packed, lines []byte, key trust.PublicKey,
	o Options,
) error {
	want, err := c.Statements(p)
	if err != nil {
		return err
	}
	var types []string
	for n, line := range bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
		text, err := key.Open(ctx, line)
		if err != nil {
			r.wrong("statements", "Statement %d: %v.", n+1, err)
			return nil
		}
		var s bundle.Statement
		if err := json.Unmarshal(text, &s); err != nil || s.Type != bundle.StatementType {
			r.wrong("statements", "Statement %d is none of in-toto.", n+1)
			return nil
		}
		if !slices.ContainsFunc(s.Subject, func(of bundle.Resource) bool { return of.Digest["sha256"] == p.SHA256 }) {
			r.wrong("statements", "Statement %d is of another file.", n+1)
			return nil
		}
		if c.Info.Llpatch == o.Version && (n >= len(want) || !bytes.Equal(text, want[n])) {
			r.wrong("statements", "Statement %d is not that of BUILD_INFO.json.", n+1)
			return nil
		}
		types = append(types, s.PredicateType)
	}
	if !slices.Equal(types, []string{bundle.ProvenanceType, bundle.TestResultType}) {
		r.wrong("statements", "They are not the two, on the build and on the tests: %s.", strings.Join(types, ", "))
		return nil
	}
	r.is("statements", "Key %s states how it was built (%s of %s, plan %.12s) and what its checks came to.", key.Name(),
		c.Info.Tag, c.Info.Tree, c.Info.Plan)
	return nil
}
