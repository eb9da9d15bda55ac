package binary

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// signed makes a certificate of its own and signs a copy of a file with it.
func signed(t *testing.T, from string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("osslsigncode"); err != nil {
		t.Skip("no osslsigncode (sh scripts/setup win7): nothing was signed here")
	}
	dir := t.TempDir()
	key, cert, to := filepath.Join(dir, "k.pem"), filepath.Join(dir, "c.pem"), filepath.Join(dir, filepath.Base(from))
	for _, argv := range [][]string{
		{
			"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "30", "-subj",
			"/O=Makers/CN=Test Signer", "-addext", "extendedKeyUsage=codeSigning",
		},
		append([]string{"osslsigncode", "sign", "-certs", cert, "-key", key, "-in", from, "-out", to}, args...),
	} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	return to
}

// Who signed, and that a changed file is told from a signed one. The digest is that
// which osslsigncode computes.
func TestSignature(t *testing.T) {
	for _, hash := range []string{"sha1", "sha256", "sha384", "sha512"} {
		file := signed(t, "testdata/pe/app.exe", "-h", hash)
		s, err := ReadSignature(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if s.Signer != "Test Signer" || s.Issuer != "Test Signer" || s.Fault != "" || !s.CodeSigning() ||
			!s.Until.After(s.From) {
			t.Errorf("%s: %+v", hash, s)
		}
		out, err := exec.CommandContext(t.Context(), "osslsigncode", "verify", "-in", file).Output()
		if !bytes.Contains(bytes.ToLower(out), []byte(s.Digest)) {
			t.Errorf("%s: digest %s is not in osslsigncode's words (%v):\n%s", hash, s.Digest, err, out)
		}
	}
	file := signed(t, "testdata/pe/helper.dll", "-h", "sha256")
	f, err := Inspect(file)
	if err != nil || !f.PE.Signed {
		t.Fatalf("inspect does not say that it is signed: %v", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(data)
	changed[0x200] ^= 1
	for want, data := range map[string][]byte{
		"changed after it was signed": changed,
		"behind the signature":        append(bytes.Clone(data), "what the digest does not cover"...),
	} {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := ReadSignature(t.Context(), file); err != nil || !strings.Contains(s.Fault, want) {
			t.Errorf("%s: %+v, %v", want, s, err)
		}
		if out, err := exec.CommandContext(t.Context(), "osslsigncode", "verify", "-in", file).CombinedOutput(); err == nil {
			t.Errorf("%s: osslsigncode takes it:\n%s", want, out)
		}
	}
	if _, err := ReadSignature(t.Context(), "testdata/pe/app.exe"); !errors.Is(err, ErrUnsigned) {
		t.Errorf("an unsigned file: %v", err)
	}
}

// Whatever stands in the place of a signature, there is no panic.
func FuzzSignature(f *testing.F) {
	app, err := os.ReadFile("testdata/pe/app.exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(app, []byte("\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02"))
	f.Add(app[:0x200], []byte{})
	f.Fuzz(func(t *testing.T, file, signature []byte) {
		at := 0x80 + 24 + 112 + 8*dirSecurity // app.exe's headers
		data := bytes.Clone(file)
		if len(data) > at+8 {
			n := uint32(len(signature) + 8)
			copy(data[at:], []byte{
				byte(len(file)), byte(len(file) >> 8), byte(len(file) >> 16), 0, byte(n), byte(n >> 8),
				byte(n >> 16), 0,
			})
			data = append(data, byte(n), byte(n>>8), byte(n>>16), 0, 0, 2, 2, 0)
			data = append(data, signature...)
		}
		s, err := readSignature(bytes.NewReader(data), int64(len(data)))
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}

// What a signature changes is gone, and nothing else.
func TestUnsign(t *testing.T) {
	const from = "testdata/pe/app.exe"
	bare := filepath.Join(t.TempDir(), "bare.exe")
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	file := signed(t, from)
	if err := errors.Join(os.WriteFile(bare, data, 0o600), Unsign(bare), Unsign(file)); err != nil {
		t.Fatal(err)
	}
	same := func() bool {
		c, err := Compare(t.Context(), bare, file)
		if err != nil {
			t.Fatal(err)
		}
		return c.Same == 1
	}
	if !same() {
		t.Error("a signature is left of it")
	}
	changed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed[len(changed)/2] ^= 1
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if same() {
		t.Error("another program passes")
	}
}
