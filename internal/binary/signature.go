package binary

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/pe"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	_ "crypto/sha1" // of old signatures
	_ "crypto/sha256"
	_ "crypto/sha512"

	"github.com/smallstep/pkcs7"
)

// Signature is the Authenticode signature of a Windows file.
type Signature struct {
	Signer string    `json:"signer"` // the common name that the certificate gives
	Issuer string    `json:"issuer"`
	From   time.Time `json:"not_before"`
	Until  time.Time `json:"not_after"`
	Digest string    `json:"digest"` // of the file without what a signature changes in it, hex
	// why the signature is not one of this file; whether its certificate is to be trusted is not
	// looked at
	Fault string `json:"fault,omitempty"`

	Certificates []*x509.Certificate `json:"-"` // the signer's first
}

// CodeSigning reports whether the certificate is for the signing of programs.
func (s *Signature) CodeSigning() bool {
	use := s.Certificates[0].ExtKeyUsage
	return slices.Contains(use, x509.ExtKeyUsageCodeSigning) || slices.Contains(use, x509.ExtKeyUsageAny)
}

// ErrUnsigned is returned for a Windows file without a signature.
var ErrUnsigned = errors.New("has no signature")

// maxSignature bounds what is read of a signature: one with a time stamp has some 10 KiB.
const maxSignature = 1 << 20

// offsetOfChecksum is where the optional header has the file's checksum, in PE32 and
// PE32+ alike; a signature changes it.
const offsetOfChecksum = 64

// ReadSignature reads the signature of a Windows file and compares it with the file:
// Microsoft's "Windows Authenticode Portable Executable Signature Format". Errors name
// the file; that of one without is ErrUnsigned.
func ReadSignature(ctx context.Context, path string) (*Signature, error) {
	return readFile(ctx, path, "", readSignature)
}

func readSignature(r io.ReaderAt, size int64) (s *Signature, err error) {
	// The parser of the signature does not say that it is hardened against hostile ones.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("malformed signature: %v", p)
		}
	}()
	img, err := newImage(r, size)
	if err != nil {
		return nil, err
	}
	dir := img.dirs[dirSecurity]
	if dir.Size == 0 {
		return nil, ErrUnsigned
	}
	at, n := int64(dir.VirtualAddress), int64(dir.Size) // an offset in the file, unlike all others
	if n < 8 || n > maxSignature || at > size-n {
		return nil, fmt.Errorf("a signature of %d bytes at 0x%x, in a file of %d", n, at, size)
	}
	table := make([]byte, n)
	if _, err := r.ReadAt(table, at); err != nil {
		return nil, err
	}
	// WIN_CERTIFICATE: length, revision, type; the data behind it, to a multiple of 8.
	length := int64(binary.LittleEndian.Uint32(table))
	if kind := binary.LittleEndian.Uint16(table[6:]); length < 8 || length > n || kind != 2 {
		return nil, fmt.Errorf("a signature of %d bytes and type %d; PKCS#7 is 2", length, kind)
	}
	p, err := pkcs7.Parse(table[8:length])
	if err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	signer := p.GetOnlySigner()
	if signer == nil {
		return nil, errors.New("the signature does not have the certificate of one signer")
	}
	s = &Signature{
		Signer: cmp.Or(signer.Subject.CommonName, signer.Subject.String()),
		Issuer: cmp.Or(signer.Issuer.CommonName, signer.Issuer.String()),
		From:   signer.NotBefore, Until: signer.NotAfter, Certificates: []*x509.Certificate{signer},
	}
	for _, c := range p.Certificates {
		if !c.Equal(signer) {
			s.Certificates = append(s.Certificates, c)
		}
	}
	hash, want, err := indirectData(p.Content)
	if err != nil {
		return nil, err
	}
	got, err := img.authenticode(hash, at)
	if err != nil {
		return nil, err
	}
	s.Digest = hex.EncodeToString(got)
	if err := p.Verify(); err != nil {
		s.Fault = err.Error()
	} else if !bytes.Equal(got, want) {
		s.Fault = "the file was changed after it was signed"
	} else if at+n < size { // the digest would not notice what is put there
		s.Fault = fmt.Sprintf("%d bytes stand behind the signature, which ends every signed file", size-at-n)
	}
	return s, nil
}

// Unsign takes the signature off a Windows file, with the checksum and the directory entry that a
// signature changes: of two that differ in nothing else the same bytes are left.
func Unsign(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	img, err := newImage(f, st.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	end := st.Size()
	if dir := img.dirs[dirSecurity]; dir.Size > 0 {
		end = min(end, int64(dir.VirtualAddress))
	}
	const align = 8 // of what a signature is put behind
	_, err1 := f.WriteAt(make([]byte, 4), img.optionalAt+offsetOfChecksum)
	_, err2 := f.WriteAt(make([]byte, 8), img.dirsAt+8*dirSecurity)
	return errors.Join(err1, err2, f.Truncate(end), f.Truncate((end+align-1)/align*align))
}

// dirSecurity is the data directory of the signature.
const dirSecurity = pe.IMAGE_DIRECTORY_ENTRY_SECURITY

// hashes are those of signatures, by their object identifiers (RFC 3279 and 5754).
var hashes = map[string]crypto.Hash{
	"1.3.14.3.2.26": crypto.SHA1, "2.16.840.1.101.3.4.2.1": crypto.SHA256,
	"2.16.840.1.101.3.4.2.2": crypto.SHA384, "2.16.840.1.101.3.4.2.3": crypto.SHA512,
}

// indirectData reads the digest of the file out of what was signed, the inside of an
// SpcIndirectDataContent.
func indirectData(content []byte) (crypto.Hash, []byte, error) {
	var data asn1.RawValue
	var digest struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
	rest, err := asn1.Unmarshal(content, &data)
	if err == nil {
		_, err = asn1.Unmarshal(rest, &digest)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("signature: %w", err)
	}
	hash, ok := hashes[digest.Algorithm.Algorithm.String()]
	if !ok {
		return 0, nil, fmt.Errorf("signature: unknown digest %s", digest.Algorithm.Algorithm)
	}
	return hash, digest.Digest, nil
}

// authenticode is the digest of the file, up to its signature at an offset, without
// its checksum and where it says that it is signed.
func (img *image) authenticode(hash crypto.Hash, end int64) ([]byte, error) {
	h := hash.New()
	at := int64(0)
	for _, gap := range []struct{ at, n int64 }{
		{img.optionalAt + offsetOfChecksum, 4},
		{img.dirsAt + 8*dirSecurity, 8},
		{end, 0},
	} {
		if gap.at < at {
			return nil, fmt.Errorf("a signature inside the headers, at 0x%x", end)
		}
		if _, err := io.Copy(h, io.NewSectionReader(img.r, at, gap.at-at)); err != nil {
			return nil, err
		}
		at = gap.at + gap.n
	}
	return h.Sum(nil), nil
}
