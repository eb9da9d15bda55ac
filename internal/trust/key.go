// Package trust is how a stranger tells a release of ours from anybody's: one Ed25519 key, as
// minisign has it, signs files (FILE.minisig) and statements of in-toto (DSSE envelopes). It
// knows no bundle and no build.
package trust

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"aead.dev/minisign"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/llpatch/llpatch/internal/exit"
)

// SignatureSuffix is behind the name of a file in that of its signature, as minisign has it.
const SignatureSuffix = ".minisig"

// PublicSuffix is behind a key file's name in that of its public half.
const PublicSuffix = ".pub"

// Key signs. Its file is minisign's own, which that program reads as well.
type Key struct{ private minisign.PrivateKey }

// NewKey makes a key.
func NewKey() (Key, error) {
	_, private, err := minisign.GenerateKey(nil)
	return Key{private}, err
}

// ReadKey reads the text of a key file. An empty password is that of a key without one; the
// error is a *BadKey.
func ReadKey(text, password []byte) (Key, error) {
	var k Key
	switch locked := Locked(text); {
	case locked && len(password) == 0:
		return k, &BadKey{Why: "it has a password, and none was given", Locked: true}
	case locked:
		private, err := minisign.DecryptKey(string(password), text)
		if err != nil {
			return k, &BadKey{Why: "the password is wrong, or the file was changed", Err: err}
		}
		return Key{private}, nil
	}
	if err := k.private.UnmarshalText(text); err != nil {
		return k, &BadKey{Why: "it is no secret key of minisign's form", Err: err}
	}
	return k, nil
}

// Locked reports whether the text of a key file needs a password.
func Locked(text []byte) bool { return minisign.IsEncrypted(text) }

// Text returns what the key's file holds, locked by a password unless that is empty.
func (k Key) Text(password []byte) ([]byte, error) {
	text, err := k.private.MarshalText()
	if len(password) > 0 {
		text, err = minisign.EncryptKey(string(password), k.private)
	}
	return append(bytes.TrimRight(text, "\n"), '\n'), err
}

// Public returns the half that verifies.
func (k Key) Public() PublicKey {
	// The library's type says crypto.PublicKey, as crypto.Signer asks of it.
	public, _ := k.private.Public().(minisign.PublicKey)
	return PublicKey{public}
}

// untrusted is the first line of our signatures.
const untrusted = "signature of llpatch, verified by minisign -V or llpatch verify"

// Sign returns the signature file of what r holds. The comment is signed as well, and shown by
// who verifies; it must be one line.
func (k Key) Sign(r io.Reader, comment string) ([]byte, error) {
	if strings.ContainsAny(comment, "\r\n") {
		return nil, fmt.Errorf("the comment of a signature is one line, not %q", comment)
	}
	message := minisign.NewReader(r)
	if _, err := io.Copy(io.Discard, message); err != nil {
		return nil, err
	}
	text := message.SignWithComments(k.private, comment, untrusted)
	return append(bytes.TrimRight(text, "\n"), '\n'), nil
}

// StatementType is the type of what Envelope and Open hold.
// Source: in-toto's attestation framework, spec/v1/envelope.md.
const StatementType = "application/vnd.in-toto+json"

// Envelope returns a DSSE envelope of a statement, one line of JSON.
func (k Key) Envelope(ctx context.Context, statement []byte) ([]byte, error) {
	signer, err := dsse.NewEnvelopeSigner(envelopeKey{k.Public(), k.raw()})
	if err != nil {
		return nil, err
	}
	e, err := signer.SignPayload(ctx, StatementType, statement)
	if err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// raw is the key as crypto/ed25519 has it. It stands at the end of minisign's form of a key
// without a password, before the checksum.
// Source: minisign's man page, "Secret key format".
func (k Key) raw() ed25519.PrivateKey {
	const from, size = 2 + 2 + 2 + 32 + 8 + 8 + 8, ed25519.PrivateKeySize
	text, err := k.private.MarshalText()
	if err != nil {
		return nil // it always has one
	}
	_, line, _ := bytes.Cut(text, []byte("\n"))
	form, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(line)))
	if err != nil || len(form) < from+size {
		return nil
	}
	return form[from : from+size]
}

// PublicKey verifies.
type PublicKey struct{ minisign.PublicKey }

// ReadPublicKey reads a public key: the text of its file, or its one line alone. The error is
// a *BadKey.
func ReadPublicKey(text []byte) (PublicKey, error) {
	var p PublicKey
	if err := p.UnmarshalText(text); err != nil {
		return p, &BadKey{Why: "it is no public key of minisign's form", Err: err}
	}
	return p, nil
}

// Text returns what the key's file holds.
func (p PublicKey) Text() []byte {
	text, _ := p.MarshalText() // never an error
	return append(text, '\n')
}

// IsText reports whether a key's file holds the key and no words but those of llpatch or minisign, whose comment
// lacks the colon, with the line ends of any system.
func (p PublicKey) IsText(text []byte) bool {
	comment, key, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	name, ours := strings.CutPrefix(comment, "untrusted comment: minisign public key")
	name = strings.TrimLeft(strings.TrimPrefix(name, ":"), " 0")
	return ours && strings.EqualFold(name, strings.TrimLeft(p.Name(), "0")) && strings.TrimSuffix(key, "\n") == p.String()
}

// Name is the key's number, as minisign writes it.
func (p PublicKey) Name() string { return fmt.Sprintf("%016X", p.ID()) }

// BadSignature says that a signature is not one of a file by a key.
type BadSignature struct {
	Key string // that should have signed it
	Why string
	By  string // the key that did, by its own word; empty: not known
}

// Error says why.
func (e *BadSignature) Error() string { return e.Why }

// Verify checks the text of a signature file against what r holds, and returns its comment.
// The error is a *BadSignature, or one of reading.
func (p PublicKey) Verify(r io.Reader, signature []byte) (comment string, err error) {
	m := NewMessage(r)
	if _, err := io.Copy(io.Discard, m.Reader); err != nil {
		return "", err
	}
	return p.VerifyMessage(m, signature)
}

// Message is what is or was signed; once its Reader was read to its end, several keys can look at it.
type Message struct{ *minisign.Reader }

// NewMessage is what r holds.
func NewMessage(r io.Reader) Message { return Message{minisign.NewReader(r)} }

// VerifyMessage is Verify for a message that was read to its end. The error is a *BadSignature.
func (p PublicKey) VerifyMessage(m Message, signature []byte) (comment string, err error) {
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return "", &BadSignature{Key: p.Name(), Why: "it is no signature of minisign's form"}
	}
	// What the signature does not cover, its first line, its kind (always of a hash) and how it is
	// written, is ours too.
	if canonical, err := s.MarshalText(); err != nil || s.Algorithm != minisign.HashEdDSA ||
		s.UntrustedComment != untrusted ||
		!bytes.Equal(bytes.TrimRight(canonical, "\n"), bytes.TrimSuffix(signature, []byte("\n"))) {
		return "", &BadSignature{Key: p.Name(), Why: "it is not written as llpatch writes one"}
	}
	if s.KeyID != p.ID() {
		by := fmt.Sprintf("%016X", s.KeyID)
		return "", &BadSignature{p.Name(), fmt.Sprintf("key %s made it, not %s", by, p.Name()), by}
	}
	if !m.Verify(p.PublicKey, signature) {
		return "", &BadSignature{Key: p.Name(), Why: "it does not fit: the file, the comment or the signature was changed"}
	}
	return s.TrustedComment, nil
}

// SignedBy is the number of the key that a signature file says has made it, 0 where it is none.
func SignedBy(signature []byte) uint64 {
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return 0
	}
	return s.KeyID
}

// Open returns the statement in a DSSE envelope that the key signed. The error is a
// *BadSignature.
func (p PublicKey) Open(ctx context.Context, envelope []byte) ([]byte, error) {
	bad := func(why string) error { return &BadSignature{Key: p.Name(), Why: why} }
	var e dsse.Envelope
	d := json.NewDecoder(bytes.NewReader(envelope))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, bad("it is no DSSE envelope")
	}
	if e.PayloadType != StatementType {
		return nil, bad(fmt.Sprintf("it holds %q, not a statement", e.PayloadType))
	}
	verifier, err := dsse.NewEnvelopeVerifier(envelopeKey{p, nil})
	if err != nil {
		return nil, err
	}
	_, statement, err := verifier.VerifyAndDecode(ctx, &e)
	if err != nil {
		return nil, bad("key " + p.Name() + " has not signed this statement")
	}
	return statement, nil
}

// envelopeKey is a key as package dsse wants it.
type envelopeKey struct {
	public  PublicKey
	private ed25519.PrivateKey // nil: it verifies alone
}

var errSignature = errors.New("the signature does not fit")

func (k envelopeKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	if len(k.private) != ed25519.PrivateKeySize {
		return nil, errors.New("the key cannot sign")
	}
	return ed25519.Sign(k.private, data), nil
}

func (k envelopeKey) Verify(_ context.Context, data, sig []byte) error {
	if public, ok := k.Public().(ed25519.PublicKey); !ok || !ed25519.Verify(public, data, sig) {
		return errSignature
	}
	return nil
}

func (k envelopeKey) KeyID() (string, error) { return k.public.Name(), nil }

// Public is the key as crypto/ed25519 has it: what stands behind the form and the number.
// Source: minisign's man page, "Public key format".
func (k envelopeKey) Public() crypto.PublicKey {
	form, err := base64.StdEncoding.DecodeString(k.public.String())
	if err != nil || len(form) != 2+8+ed25519.PublicKeySize {
		return nil
	}
	return ed25519.PublicKey(form[10:])
}

// succeeds is the comment of the signature that lets a key take the place of another.
const succeeds = "succeeds key "

// Succeed returns the signature file by which the key lets another take its place.
func (k Key) Succeed(by PublicKey) ([]byte, error) {
	return k.Sign(bytes.NewReader(by.Text()), succeeds+k.Public().Name())
}

// Succeeded returns the key in the text of a public key file, if the signature lets it take
// the place of p.
func (p PublicKey) Succeeded(text, signature []byte) (PublicKey, error) {
	comment, err := p.Verify(bytes.NewReader(text), signature)
	if err != nil {
		return PublicKey{}, err
	}
	if comment != succeeds+p.Name() {
		return PublicKey{}, &BadSignature{Key: p.Name(), Why: fmt.Sprintf("it was made for something else: %q", comment)}
	}
	return ReadPublicKey(text)
}

// BadKey says that a key cannot be read.
type BadKey struct {
	File string // empty: not known
	Why  string
	Err  error // nil where Why is the whole cause

	Locked bool // it has a password, which is all that lacks
}

// Error names the file and the cause.
func (e *BadKey) Error() string {
	if e.File == "" {
		return "the key cannot be used: " + e.Why
	}
	return fmt.Sprintf("%s cannot be used as a key: %s", e.File, e.Why)
}

// ExitCode is exit.Usage.
func (e *BadKey) ExitCode() int { return exit.Usage }

// Hint says how to have one.
func (e *BadKey) Hint() string {
	if e.Locked {
		return "give its password: --key-password-file FILE, or the variable LLPATCH_KEY_PASSWORD"
	}
	return "llpatch key new FILE makes a key, and FILE.pub beside it"
}

// Unwrap returns Err.
func (e *BadKey) Unwrap() error { return e.Err }
