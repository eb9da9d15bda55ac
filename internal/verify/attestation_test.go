package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/testing/data"
)

// What npm has of the package sigstore 2.0.0, which a workflow on GitHub made: a real statement
// by Sigstore's public authorities, in sigstore-go's own test data.
const (
	realBundle     = "sigstore.js@2.0.0-provenance.sigstore.json"
	realRepository = "sigstore/sigstore-js"
	realSHA512     = "46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c"
)

func attestationText(t *testing.T) (bundle, roots []byte) {
	t.Helper()
	bundle, err := data.Bundle(t, realBundle).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	roots, err = data.TrustedRoot(t, "public-good.json").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return bundle, roots
}

func TestAttestation(t *testing.T) {
	statement, roots := attestationText(t)
	other, err := data.TrustedRoot(t, "scaffolding.json").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := hex.DecodeString(realSHA512)
	if err != nil {
		t.Fatal(err)
	}
	another := bytes.Clone(sum)
	another[0] ^= 1
	// forged is the statement about another package, under the same signature.
	var parts map[string]json.RawMessage
	var envelope map[string]json.RawMessage
	var payload []byte
	if err := json.Unmarshal(statement, &parts); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(parts["dsseEnvelope"], &envelope); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(envelope["payload"], &payload); err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(payload, []byte(realSHA512), fmt.Appendf(nil, "%x", another))
	forged := bytes.ReplaceAll(statement, []byte(base64.StdEncoding.EncodeToString(payload)),
		[]byte(base64.StdEncoding.EncodeToString(changed)))
	if bytes.Equal(forged, statement) {
		t.Fatal("nothing was forged")
	}
	api := fmt.Appendf(nil, `{"attestations":[{"predicateType":"x","bundle":%s},{"bundle":%s}]}`, forged, statement)
	for _, c := range []struct {
		what               string
		text, roots        []byte
		repository, wanted string
		sum                []byte
	}{
		{"as it is", statement, roots, realRepository, "", sum},
		{"as the API gives it", api, roots, realRepository, "", sum},
		{
			"several, one a line", append(append(bytes.Clone(forged), '\n'), statement...),
			append(append(bytes.Clone(other), '\n'), roots...), realRepository, "", sum,
		},
		{"of another archive", statement, roots, realRepository, "digest", another},
		{"by another repository", statement, roots, UpstreamRepository, "certificate", sum},
		{"by one whose name begins so", statement, roots, "sigstore/sigstore", "certificate", sum},
		{"forged", forged, roots, realRepository, "payload hash", another},
		{"by other authorities", statement, other, realRepository, "by sha512", sum},
	} {
		a, err := ReadAttestation(c.text, c.roots, c.repository)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		none := sha256.Sum256([]byte("another archive"))
		got, err := a.check(digests{none[:], c.sum})
		if c.wanted == "" && (err != nil ||
			got.Signature.Certificate.SourceRepositoryDigest != "f0b49a04e5a62250e0f60fb128004a73110fe311") {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.wanted != "" && (err == nil || !strings.Contains(err.Error(), c.wanted)) {
			t.Errorf("%s: %v, want %s", c.what, err, c.wanted)
		}
	}
}

func TestReadAttestationFaults(t *testing.T) {
	statement, roots := attestationText(t)
	for _, c := range []struct{ text, roots, repository, want string }{
		{string(statement), string(roots), "upstream", "no OWNER/REPO"},
		{string(statement), string(roots), "a/b/c", "no OWNER/REPO"},
		{"", string(roots), realRepository, "it holds no attestation"},
		{`{"attestations":[]}`, string(roots), realRepository, "it holds no attestation"},
		{`[1]`, string(roots), realRepository, "the attestation: json"},
		{`{"a":1}`, string(roots), realRepository, "no Sigstore bundle"},
		{string(statement[:100]), string(roots), realRepository, "unexpected EOF"},
		{string(statement), "", realRepository, "the trusted root: it is empty"},
		{string(statement), string(statement), realRepository, "the trusted root:"},
		{string(statement), "{}", realRepository, "the trusted root:"},
	} {
		if _, err := ReadAttestation([]byte(c.text), []byte(c.roots), c.repository); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q, %.40q, %s: %v, want %s", c.text, c.roots, c.repository, err, c.want)
		}
	}
}

// An attestation of another archive is as wrong as a bad signature.
func TestAttestationOfAnother(t *testing.T) {
	statement, roots := attestationText(t)
	a, err := ReadAttestation(statement, roots, realRepository)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "llama-b1-bin-x.tar.gz")
	if err := os.WriteFile(file, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := archive(t.Context(), file, Options{Attestation: a})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Text(), "No attestation given is of this archive and by a workflow of "+realRepository) ||
		r.attested {
		t.Error(r.Text())
	}
}

// The workflow that made the package ran on a branch, as upstream's does.
func TestAttestedTag(t *testing.T) {
	statement, roots := attestationText(t)
	a, err := ReadAttestation(statement, roots, realRepository)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := hex.DecodeString(realSHA512)
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.check(digests{make([]byte, 32), sum})
	if err != nil {
		t.Fatal(err)
	}
	const commit = "f0b49a04e5a62250e0f60fb128004a73110fe311"
	for _, c := range []struct {
		expect, commit, ref string
		want                Status
	}{
		{"", "", "", Proven},
		{"b1", commit, "", Proven},
		{"b1", "", "", Open},
		{"b1", strings.Repeat("0", 40), "", Wrong},
		{"b1", "", "refs/tags/b1", Proven},
		{"b1", "", "refs/tags/b2", Wrong},
	} {
		if c.ref != "" {
			result.Signature.Certificate.SourceRepositoryRef = c.ref
		}
		var r Report
		r.made(result, Options{Expect: c.expect, Commit: c.commit})
		if len(r.Findings) != 1 || r.Findings[0].Status != c.want || r.attested != (c.want == Proven) {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
	}
}

func FuzzAttestation(f *testing.F) {
	f.Add([]byte(`{"attestations":[{"bundle":{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}}]}`),
		[]byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`))
	f.Fuzz(func(t *testing.T, text, roots []byte) {
		a, err := ReadAttestation(text, roots, UpstreamRepository)
		if err != nil {
			return
		}
		if _, err := a.check(digests{make([]byte, 32), make([]byte, 64)}); err == nil {
			t.Error("something proves that zeros are an archive")
		}
	})
}
