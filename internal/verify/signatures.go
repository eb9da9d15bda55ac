package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/trust"
)

// signatures looks who signed the archive and SHA256SUMS, and returns the key that did, nil
// where none that counts did.
func (r *Report) signatures(ctx context.Context, s *set, info *bundle.Info,
	o Options,
) (*trust.PublicKey, error) {
	name := filepath.Base(s.file)
	signature := s.signature(r, name, name)
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
	comment, err := key.VerifyMessage(s.m.message, signature)
	if bad := new(trust.BadSignature); errors.As(err, &bad) {
		next, refused, failed := s.succession(ctx, key, signature)
		switch {
		case failed != nil:
			return nil, failed
		case refused != "":
			r.wrong("signature", "%s", refused)
			return nil, nil
		case next != nil:
			if comment, err = next.VerifyMessage(s.m.message, signature); err == nil {
				key = next.PublicKey
				r.is("signature", "%s", next.says(o.Key))
				r.set = append(r.set, next.files...)
			}
		}
	}
	if bad := new(trust.BadSignature); errors.As(err, &bad) {
		r.wrong("signature", "%s: %s.", name+trust.SignatureSuffix, bad.Why)
		r.otherKey = bad.By
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
	if s.own(r, key); s.sums == nil {
		return &key, nil
	}
	if signature = s.signature(r, s.sumsName, name+bundle.SumsSuffix); signature == nil {
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

// signature reads the signature of a file beside the archive, nil where there is none.
func (s *set) signature(r *Report, name, as string) []byte {
	data := s.read(r, name+trust.SignatureSuffix)
	if data != nil {
		r.set = append(r.set, File{name + trust.SignatureSuffix, as + trust.SignatureSuffix, sumOf(data)})
	}
	return data
}

// successor is a key that others let take their places, one after another.
type successor struct {
	trust.PublicKey
	by    []trust.PublicKey // the keys on the way, the first one's successor first
	files []File            // that say so
}

// says names the way.
func (n *successor) says(first *trust.PublicKey) string {
	text, before := "", first.Name()
	for _, k := range append(slices.Clone(n.by), n.PublicKey) {
		text, before = fmt.Sprintf("%sKey %s took the place of %s, which signed that. ", text, k.Name(), before), k.Name()
	}
	return strings.TrimSuffix(text, " ")
}

// succession follows the keys beside the archive from one that is trusted to the one that made the signature, nil
// where no way leads there. A key that lets two take its place lets none: one of the two would be a thief's, and
// which of them cannot be known; refused is a sentence that says so.
func (s *set) succession(ctx context.Context, from trust.PublicKey, signature []byte) (n *successor, refused string,
	err error,
) {
	maker, keys := trust.SignedBy(signature), s.keys(trust.SignatureSuffix)
	n = &successor{PublicKey: from}
	for seen := map[string]bool{from.String(): true}; ; seen[n.String()] = true {
		if n.ID() == maker && n.String() != from.String() {
			n.by = n.by[:len(n.by)-1]
			return n, "", nil
		}
		var next *successor
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		for _, k := range keys {
			key, err := n.Succeeded(k.text, k.signature)
			switch {
			case err != nil || seen[key.String()]:
			case next != nil && next.String() != key.String():
				return nil, fmt.Sprintf("Key %s lets two others take its place, %s and %s: which of them is its owner's "+
					"cannot be known.", n.Name(), next.Name(), key.Name()), nil
			case next == nil:
				next = &successor{key, append(slices.Clone(n.by), key), append(slices.Clone(n.files), k.files()...)}
			}
		}
		if next == nil {
			return nil, "", nil
		}
		n = next
	}
}

// publicFile is the file of a public key beside an archive, and its signature by another key, if any.
type publicFile struct {
	name            string
	text, signature []byte
}

func (k publicFile) files() []File {
	all := []File{{k.name, k.name, sumOf(k.text)}}
	if k.signature != nil {
		name := k.name + trust.SignatureSuffix
		all = append(all, File{name, name, sumOf(k.signature)})
	}
	return all
}

// maxKey is more than a public key and its signature have.
const maxKey = 4 << 10

// keys are the public keys beside the archive that have a file with that suffix, empty for all, beside them.
func (s *set) keys(suffix string) (all []publicFile) {
	for _, file := range s.names {
		name, is := strings.CutSuffix(file, suffix)
		if !is || !strings.HasSuffix(name, trust.PublicSuffix) {
			continue
		}
		k := publicFile{name: name}
		var err error
		if k.text, err = s.try(name); err == nil && suffix != "" {
			k.signature, err = s.try(file)
		}
		// What cannot be read is no key of anybody's.
		if err == nil && k.text != nil && len(k.text)+len(k.signature) <= maxKey {
			all = append(all, k)
		}
	}
	return all
}

// own adds to the set the public half of the key that signed, where it lies there: no other key is published with it.
func (s *set) own(r *Report, key trust.PublicKey) {
	for _, k := range s.keys("") {
		p, err := trust.ReadPublicKey(k.text)
		there := slices.ContainsFunc(r.set, func(f File) bool { return f.Name == k.name })
		switch {
		case err != nil || p.String() != key.String() || there:
		case p.IsText(k.text):
			r.set = append(r.set, k.files()...)
		default:
			r.add("signature", Stated, "%s has the key that signed and somebody's words: publish leaves it out.", k.name)
		}
	}
}

// owner are the names of the keys that are one person's: the key that is trusted, the one that signed, and those
// that took the place of one of them, or let one of them take theirs, by what lies beside the archive.
func (s *set) owner(signer *trust.PublicKey, o Options) (names []string) {
	known := slices.Clone(o.Builders)
	for _, k := range []*trust.PublicKey{o.Key, signer} {
		if k != nil {
			known, names = append(known, *k), append(names, k.Name())
		}
	}
	keys := s.keys(trust.SignatureSuffix)
	var pairs [][2]string // the name of a key, and that of one that took its place
	for i := 0; i < len(known); i++ {
		for _, k := range keys {
			next, err := known[i].Succeeded(k.text, k.signature)
			if err != nil {
				continue
			}
			pairs = append(pairs, [2]string{known[i].Name(), next.Name()})
			if !slices.ContainsFunc(known, func(p trust.PublicKey) bool { return p.String() == next.String() }) {
				known = append(known, next)
			}
		}
	}
	for more := true; more; {
		more = false
		for _, p := range pairs {
			for i := range p {
				if slices.Contains(names, p[i]) && !slices.Contains(names, p[1-i]) {
					names, more = append(names, p[1-i]), true
				}
			}
		}
	}
	return names
}

// states compares the statements and the bill of materials with what this llpatch makes of the
// archive's own manifest.
func (r *Report) states(ctx context.Context, s *set, info *bundle.Info, key trust.PublicKey, o Options) error {
	if info == nil {
		return nil
	}
	packed := bundle.Packed{Archive: s.file, SHA256: s.m.sum}
	c := bundle.Content{Info: *info}
	lines := s.read(r, filepath.Base(s.file)+bundle.StatementsSuffix)
	if lines == nil {
		r.open("statements", "No statements on how it was built and tested lie beside it.")
	} else if err := r.statements(ctx, c, packed, lines, key, o); err != nil {
		return err
	}
	have := s.read(r, filepath.Base(s.file)+bundle.SBOMSuffix)
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
		r.by = bundle.OtherLlpatch(info.Llpatch, o.Version)
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
