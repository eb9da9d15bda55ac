package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
)

// UpstreamRepository is the repository whose workflow attests upstream's archives on GitHub.
const UpstreamRepository = "ggml-org/llama.cpp"

// githubIssuer is who vouches for a workflow of GitHub Actions in a certificate of Sigstore's.
const githubIssuer = "https://token.actions.githubusercontent.com"

// Attestation is what a host states of its archives, and whom it must be by.
type Attestation struct {
	Bundles    []*sigbundle.Bundle
	Roots      []*root.TrustedRoot
	Repository string // OWNER/REPO on GitHub, whose workflow must have made the archive
}

// ReadAttestation reads Sigstore bundles and trusted roots. bundles is what GitHub's API gives of
// an archive's digest, or one bundle, or one a line, as `gh attestation download` writes them;
// roots one trusted root, or one a line, as `gh attestation trusted-root` prints them.
func ReadAttestation(bundles, roots []byte, repository string) (*Attestation, error) {
	if !repositoryRE.MatchString(repository) {
		return nil, fmt.Errorf("%q is no OWNER/REPO", repository)
	}
	a := &Attestation{Repository: repository}
	err := values(bundles, func(raw json.RawMessage) error {
		var api struct {
			Attestations []struct {
				Bundle json.RawMessage `json:"bundle"`
			} `json:"attestations"`
		}
		if err := json.Unmarshal(raw, &api); err != nil {
			return err
		}
		all := []json.RawMessage{raw}
		if api.Attestations != nil {
			all = nil
			for _, one := range api.Attestations {
				all = append(all, one.Bundle)
			}
		}
		for _, one := range all {
			b := new(sigbundle.Bundle)
			if err := b.UnmarshalJSON(one); err != nil {
				return fmt.Errorf("no Sigstore bundle: %w", err)
			}
			a.Bundles = append(a.Bundles, b)
		}
		return nil
	})
	if err == nil && len(a.Bundles) == 0 {
		err = errors.New("it holds no attestation")
	}
	if err != nil {
		return nil, fmt.Errorf("the attestation: %w", err)
	}
	err = values(roots, func(raw json.RawMessage) error {
		r, err := root.NewTrustedRootFromJSON(raw)
		if err == nil && len(r.FulcioCertificateAuthorities()) == 0 {
			err = errors.New("no trusted root of Sigstore's: it names no authority for certificates")
		}
		a.Roots = append(a.Roots, r)
		return err
	})
	if err == nil && len(a.Roots) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("the trusted root: %w", err)
	}
	return a, nil
}

var repositoryRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$`)

// values calls do for each of the JSON values in a text.
func values(text []byte, do func(json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(raw); err != nil {
			return err
		}
	}
}

// digests are an archive's, of which GitHub's statements have the first and npm's the second.
type digests struct{ sha256, sha512 []byte }

// check looks for a bundle that states one of the digests, by a workflow of the repository.
func (a *Attestation) check(d digests) (*sigstore.VerificationResult, error) {
	repository := "https://github.com/" + a.Repository
	identity, err := sigstore.NewShortCertificateIdentity(githubIssuer, "", "", "^"+regexp.QuoteMeta(repository)+"/")
	if err != nil {
		return nil, err
	}
	identity.SourceRepositoryURI = repository // a workflow that others' repositories call signs for them, too
	var errs []error
	for _, r := range a.Roots {
		v, err := verifier(r)
		if err != nil {
			return nil, err
		}
		for _, b := range a.Bundles {
			for _, of := range []sigstore.ArtifactDigest{
				{Algorithm: "sha256", Digest: d.sha256},
				{Algorithm: "sha512", Digest: d.sha512},
			} {
				result, err := v.Verify(b, sigstore.NewPolicy(sigstore.WithArtifactDigest(of.Algorithm, of.Digest),
					sigstore.WithCertificateIdentity(identity)))
				if err == nil {
					return result, nil
				}
				errs = append(errs, fmt.Errorf("by %s: %w", of.Algorithm, err))
			}
		}
	}
	return nil, errors.Join(errs...)
}

// verifier asks for all that a root has authorities for: GitHub's own, for private repositories,
// has no public logs.
func verifier(r *root.TrustedRoot) (*sigstore.Verifier, error) {
	options := []sigstore.VerifierOption{sigstore.WithObserverTimestamps(1)}
	if len(r.RekorLogs()) > 0 {
		options = append(options, sigstore.WithTransparencyLog(1))
	}
	if len(r.CTLogs()) > 0 {
		options = append(options, sigstore.WithSignedCertificateTimestamps(1))
	}
	return sigstore.NewVerifier(r, options...)
}

// digests reads the archive once more, for the sum that npm's statements have.
func (r *Report) digests() (digests, error) {
	f, err := openBody(r.file)
	if err != nil {
		return digests{}, err
	}
	defer f.Close()
	short, long := sha256.New(), sha512.New()
	if _, err := io.Copy(io.MultiWriter(short, long), f.reader()); err != nil {
		return digests{}, err
	}
	if fmt.Sprintf("%x", short.Sum(nil)) != r.SHA256 {
		return digests{}, fmt.Errorf("%s changed while it was read", r.file)
	}
	return digests{short.Sum(nil), long.Sum(nil)}, nil
}

// attest looks whether the host's statement is of this archive and of the tag that is expected.
func (r *Report) attest(o Options) error {
	if o.Attestation == nil {
		return nil
	}
	d, err := r.digests()
	if err != nil {
		return err
	}
	result, err := o.Attestation.check(d)
	if err != nil {
		r.wrong("attestation", "No attestation given is of this archive and by a workflow of %s: %s.",
			o.Attestation.Repository, strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	r.made(result, o)
	return nil
}

// made says what a statement that holds proves of the archive.
func (r *Report) made(result *sigstore.VerificationResult, o Options) {
	by := result.Signature.Certificate
	ref := strings.TrimPrefix(by.SourceRepositoryRef, "refs/tags/")
	var at string
	if len(result.VerifiedTimestamps) > 0 {
		at = " on " + result.VerifiedTimestamps[0].Timestamp.UTC().Format(time.DateOnly)
	}
	workflow, _, _ := strings.Cut(strings.TrimPrefix(by.BuildSignerURI, "https://github.com/"), "@")
	switch tagged := strings.HasPrefix(by.SourceRepositoryRef, "refs/tags/"); {
	case o.Expect == "":
	case tagged && ref != o.Expect:
		r.wrong("attestation", "It was made of %s, and %s was expected.", ref, o.Expect)
		return
	case o.Commit != "" && by.SourceRepositoryDigest != o.Commit:
		r.wrong("attestation", "It was made from commit %s, and %s is %s.", by.SourceRepositoryDigest, o.Expect, o.Commit)
		return
	case !tagged && o.Commit == "": // upstream's workflow runs on a branch, and makes the tag
		r.open("attestation", "It was made from commit %s, and which commit %s is, recipes/tags.lock does not say.",
			by.SourceRepositoryDigest, o.Expect)
		return
	}
	r.attested = true
	r.is("attestation", "The workflow %s made it%s from commit %s (%s): by a certificate of Sigstore's.", workflow, at,
		by.SourceRepositoryDigest, ref)
}
