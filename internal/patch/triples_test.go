package patch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/source"
)

// TestTriples applies NAME.patch to NAME.src, as f.txt, and expects NAME.out, or
// the error of NAME.err. Git must agree, save where a line of notGit says why not.
func TestTriples(t *testing.T) {
	notGit := map[string]string{
		"crlf-damaged":                   "git keeps the CRs as part of the lines",
		"zero-context":                   "git wants --unidiff-zero",
		"zero-context-insert":            "git wants --unidiff-zero",
		"zero-context-insert-other-blob": "git adds the line at the end of the file",
		"ambiguous":                      "git takes the nearer place",
		"out-of-order":                   "git lets hunks change places",
		"no-newline-elsewhere":           "git glues two lines together",
		"long-hunk":                      "git drops the lines that the header does not count",
	}
	patches, err := filepath.Glob("testdata/triples/*.patch")
	if err != nil || len(patches) < 30 {
		t.Fatalf("%d triples, %v", len(patches), err)
	}
	for _, p := range patches {
		stem := strings.TrimSuffix(p, ".patch")
		name := filepath.Base(stem)
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(stem + ".src")
			if err != nil {
				t.Fatal(err)
			}
			diff, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(stem + ".out")
			fits := !errors.Is(err, os.ErrNotExist)
			got, errText := tryTriple(t, name, src, diff)
			if fits != (errText == "") {
				t.Fatalf("want it to fit: %v, got %q", fits, errText)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got %q\nwant %q", got, want)
			}
			if !fits {
				golden.Check(t, stem+".err", errText+"\n")
			}
			gitOut, gitFits := gitTriple(t, src, diff)
			agree := gitFits == fits && (!fits || bytes.Equal(gitOut, got))
			if why := notGit[name]; agree == (why != "") {
				t.Errorf("git fits: %v, %q; expected difference: %q", gitFits, gitOut, why)
			}
		})
	}
}

func tryTriple(t *testing.T, name string, src, diff []byte) ([]byte, string) {
	t.Helper()
	series, err := Parse("demo", name+".patch", diff)
	if err != nil {
		var pe *ParseError
		if !errors.As(err, &pe) {
			t.Errorf("not a ParseError: %v", err)
		}
		return nil, err.Error()
	}
	base, err := source.New(map[string]source.File{"f.txt": {Mode: source.Regular, Data: src}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := Apply(base, series)
	if err != nil {
		conflictKinds(t, err)
		return nil, err.Error()
	}
	f, err := res.Tree.Read("f.txt")
	if err != nil {
		t.Fatal(err)
	}
	return f.Data, ""
}

// gitTriple runs git apply on the same input.
func gitTriple(t *testing.T, src, diff []byte) ([]byte, bool) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"f.txt": src, "x.patch": diff} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := gitTry(t, dir, "apply", "--whitespace=nowarn", "x.patch"); err != nil {
		return nil, false
	}
	out, err := os.ReadFile(filepath.Join(dir, "f.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return out, true
}
