package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// Statement is one of in-toto: what somebody says of files.
// Source: in-toto's attestation framework, spec/v1/statement.md.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     any        `json:"predicate"`
}

// Resource is a thing that a statement is about or names, with its digests by their algorithm.
type Resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// The types of what we state.
const (
	StatementType  = "https://in-toto.io/Statement/v1"
	ProvenanceType = "https://slsa.dev/provenance/v1"
	TestResultType = "https://in-toto.io/attestation/test-result/v0.1"
)

// Provenance says how an archive was made: Build L1 of SLSA, and no more, since a user's own
// machine makes it. What it was made of can be built again and compared.
// Source: slsa.dev, provenance v1.
type Provenance struct {
	Definition struct {
		Type     string         `json:"buildType"`
		External map[string]any `json:"externalParameters"`
		Internal map[string]any `json:"internalParameters"`
		Resolved []Resource     `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	Run struct {
		Builder struct {
			ID      string            `json:"id"`
			Version map[string]string `json:"version"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// TestResult says what the checks of an archive came to.
// Source: in-toto's attestation framework, spec/predicates/test-result.md.
type TestResult struct {
	Result        string     `json:"result"` // PASSED, WARNED or FAILED
	Configuration []Resource `json:"configuration"`
	Passed        []string   `json:"passedTests,omitempty"`
	Warned        []string   `json:"warnedTests,omitempty"`
	Failed        []string   `json:"failedTests,omitempty"`
}

// buildType names how a Provenance is to be read.
const buildType = "https://github.com/llpatch/llpatch/blob/main/docs/manual/trust.md#the-build-type"

// Statements are what can be stated of an archive, one line of JSON each: how it was made, and
// what its checks came to. They hold nothing of the moment, so that the same archive has the same.
func (c Content) Statements(p Packed) ([][]byte, error) {
	i := c.Info
	about := []Resource{{Name: filepath.Base(p.Archive), Digest: map[string]string{"sha256": p.SHA256}}}

	var made Provenance
	made.Definition.Type = buildType
	made.Definition.External = map[string]any{"upstream": i.Upstream, "tag": i.Tag, "target": i.Target}
	if i.Series != nil && len(i.Series.Groups) > 0 {
		made.Definition.External["without"] = i.Series.Groups
	}
	made.Definition.Internal = map[string]any{
		"plan": i.Plan, "options": i.Options, "tools": i.Tools,
		"revision": i.Revision, "patched_tree": i.Patched,
	}
	tree := Resource{
		URI:    fmt.Sprintf("git+%s@%s", spec.UpstreamPage(i.Upstream), i.Tag),
		Digest: map[string]string{"gitTree": i.Tree},
	}
	if i.Commit != "" {
		tree.Digest["gitCommit"] = i.Commit
	}
	made.Definition.Resolved = []Resource{tree}
	if i.Series != nil {
		for n, fix := range i.Series.In {
			made.Definition.Resolved = append(made.Definition.Resolved, Resource{
				Name: fmt.Sprintf("PATCHES/%04d-%s.patch", n+1, fix.Fix), Digest: map[string]string{"sha256": fix.SHA256},
			})
		}
	}
	made.Run.Builder.ID = "https://github.com/llpatch/llpatch"
	made.Run.Builder.Version = map[string]string{"llpatch": i.Llpatch}

	tested := TestResult{Result: "PASSED", Configuration: []Resource{{
		Name:   path.Join("recipes", i.Target+".toml"),
		Digest: map[string]string{"plan": i.Plan},
	}}}
	for _, check := range i.Checks {
		name := strings.TrimSpace(check.Name + " " + check.Place)
		switch check.Verdict {
		case "passed":
			tested.Passed = append(tested.Passed, name)
		case "failed":
			tested.Result, tested.Failed = "FAILED", append(tested.Failed, name)
		default:
			tested.Warned = append(tested.Warned, name+": "+check.Verdict)
		}
	}
	if tested.Result == "PASSED" && len(tested.Warned) > 0 {
		tested.Result = "WARNED"
	}

	var out [][]byte
	for _, s := range []Statement{
		{StatementType, about, ProvenanceType, made},
		{StatementType, about, TestResultType, tested},
	} {
		line, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	return out, nil
}

// Reproduction is how an archive and one that was built again from its manifest compare.
type Reproduction struct {
	Same    int      // files that are alike
	Allowed []string // files that differ in what the manifest names alone, each with that
	Differ  []string // the others
}

// rebuiltBy is the configuration of a Reproduced statement that tells it from other test results.
const rebuiltBy = "llpatch verify --rebuild"

// Reproduced is what a second builder states of an archive, signed: a test result, whose PASSED is
// the same bytes, WARNED
// only what the manifest lets differ, and FAILED anything else. (SLSA's VSA would be about levels, of which nobody's is
// looked at here, and would have a time.) It is a line, a DSSE envelope.
func (i Info) Reproduced(ctx context.Context, p Packed, r Reproduction, key trust.Key) ([]byte, error) {
	tested := TestResult{Result: "PASSED", Configuration: []Resource{{
		Name:   rebuiltBy,
		Digest: map[string]string{"plan": i.Plan, "gitTree": i.Patched},
	}}}
	if r.Same > 0 {
		tested.Passed = []string{fmt.Sprintf("%d files are the same bytes", r.Same)}
	}
	tested.Warned, tested.Failed = r.Allowed, r.Differ
	switch {
	case len(r.Differ) > 0:
		tested.Result = "FAILED"
	case len(r.Allowed) > 0:
		tested.Result = "WARNED"
	}
	about := []Resource{{Name: filepath.Base(p.Archive), Digest: map[string]string{"sha256": p.SHA256}}}
	text, err := json.Marshal(Statement{StatementType, about, TestResultType, tested})
	if err != nil {
		return nil, err
	}
	line, err := key.Envelope(ctx, text)
	return append(line, '\n'), err
}

// ReproducedName is the name of a second builder's statement: the archive's, and the number of his key.
func ReproducedName(archive, key string) string {
	return archive + ".rebuilt-" + key + StatementsSuffix
}

// ReadReproduced reads the text of such a statement of the archive with that SHA-256 and manifest. The
// error says what it is instead.
func (i Info) ReadReproduced(text []byte, sum string) (TestResult, error) {
	var tested TestResult
	s := Statement{Predicate: &tested}
	if err := json.Unmarshal(text, &s); err != nil || s.Type != StatementType || s.PredicateType != TestResultType ||
		len(tested.Configuration) != 1 || tested.Configuration[0].Name != rebuiltBy {
		return tested, errors.New("it states no second build")
	}
	if len(s.Subject) != 1 || s.Subject[0].Digest["sha256"] != sum {
		return tested, errors.New("it is of another archive")
	}
	if tested.Configuration[0].Digest["plan"] != i.Plan || tested.Configuration[0].Digest["gitTree"] != i.Patched {
		return tested, errors.New("it is of another plan or tree")
	}
	return tested, nil
}

// SignedComment is what the signature of a file of the release says besides: which file, of what.
func (i Info) SignedComment(file string) string {
	return fmt.Sprintf("file:%s tag:%s target:%s llp:%d", file, i.Tag, i.Target, i.Revision)
}
