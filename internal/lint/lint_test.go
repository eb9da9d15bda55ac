package lint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/lint"
	"github.com/llpatch/llpatch/internal/spec"
)

// overlay lays txtar files over each other. A file named "edit" changes files
// that are there: a line is a name and two quoted texts, the old and the new,
// and the old must stand there.
func overlay(t *testing.T, archives ...string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if f.Name != "edit" {
				m[f.Name] = &fstest.MapFile{Data: f.Data}
				continue
			}
			for line := range strings.Lines(string(f.Data)) {
				var file, from, to string
				if _, err := fmt.Sscanf(line, "%s %q %q", &file, &from, &to); err != nil {
					t.Fatalf("%s: edit %q: %v", name, line, err)
				}
				if !strings.Contains(string(m[file].Data), from) {
					t.Fatalf("%s: %s does not hold %q", name, file, from)
				}
				m[file] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(m[file].Data), from, to))}
			}
		}
	}
	return m
}

func check(t *testing.T, m fstest.MapFS) *lint.Report {
	t.Helper()
	repo, err := spec.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := lint.Check(t.Context(), repo, lint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counted counts how often a file is opened.
type counted struct {
	fs.FS
	opened map[string]int
}

func (c counted) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.FS.Open(name)
}

// A proof takes the patches that were read to check their form.
func TestPatchesReadOnce(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {
		"-c", "user.name=a", "-c", "user.email=a@example.com", "commit",
		"-q", "--allow-empty", "-m", "first",
	}, {"tag", "b100"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir},
			args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	c := counted{llpatch.Declarations, map[string]int{}}
	repo, err := spec.Load(c)
	if err != nil {
		t.Fatal(err)
	}
	clear(c.opened)
	r, err := lint.Check(t.Context(), repo, lint.Options{Source: dir})
	if err != nil || r.Proof == nil || len(r.Proof.Ranges) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	patches := 0
	for name, n := range c.opened {
		if path.Ext(name) == ".patch" {
			if patches++; n != 1 {
				t.Errorf("%s was opened %d times", name, n)
			}
		}
	}
	if patches == 0 || patches != r.Patches {
		t.Errorf("%d of %d patch files were opened", patches, r.Patches)
	}
}

// The repository's own declarations are all true.
func TestLintOwn(t *testing.T) {
	repo, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	r, err := lint.Check(t.Context(), repo, lint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.Fixes == 0 || r.Patches == 0 || r.Variants < r.Patches || r.Recipes == 0 || r.Tags == 0 || r.Revisions == 0 {
		t.Errorf("it looked at %s", r.Text())
	}
}

func TestLintGood(t *testing.T) {
	r := check(t, overlay(t, "testdata/lint-good.txtar"))
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	const want = "2 fixes, 3 variants, 3 patch files, 1 recipe, 2 pinned tags, 1 revision: all as declared\n" +
		"alpha, beta have no proof: Nothing runs it.\n"
	if r.Text() != want || len(r.Findings) != 0 {
		t.Errorf("%q, %d findings", r.Text(), len(r.Findings))
	}
}

// TestLint lays each testdata/lint/*.txtar over good declarations; beside it
// stand the whole findings.
func TestLint(t *testing.T) {
	cases, err := filepath.Glob("testdata/lint/*.txtar")
	if err != nil || len(cases) < 40 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			r := check(t, overlay(t, "testdata/lint-good.txtar", name))
			err := r.Err()
			var se *spec.Error
			if !errors.As(err, &se) {
				t.Fatalf("error %v is not a *spec.Error", err)
			}
			if r.Text() != "" || len(r.Findings) == 0 || r.Findings[0].Msg != se.Msg || r.Findings[0].File != se.File {
				t.Errorf("findings %+v, text %q, error %v", r.Findings, r.Text(), err)
			}
			golden.Check(t, strings.TrimSuffix(name, ".txtar")+".golden", err.Error()+"\n")
		})
	}
}

// What spec.Load refuses is shown in the same form; other errors are not taken for it.
func TestLoadFindings(t *testing.T) {
	m := overlay(t, "testdata/lint-good.txtar")
	m["patches/series"] = &fstest.MapFile{Data: []byte("alpha\nALPHA\nbeta\nbeta\n")}
	_, err := spec.Load(m)
	r, ok := lint.LoadFindings(err)
	if !ok || len(r.Findings) != 2 || r.Findings[0].Line != 2 || r.Findings[1].Line != 4 {
		t.Errorf("%v %+v, from %v", ok, r, err)
	}
	for _, err := range []error{nil, os.ErrPermission, errors.Join(err, os.ErrPermission)} {
		if r, ok := lint.LoadFindings(err); ok {
			t.Errorf("%v gives %+v", err, r.Findings)
		}
	}
}
