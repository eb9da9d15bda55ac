package llpatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const module = "github.com/llpatch/llpatch"

// layers is the order of the packages, as docs/design.md lists them: each may import only those
// below it.
var layers = sync.OnceValue(func() (names []string) {
	page, err := os.ReadFile(filepath.Join("docs", "design.md"))
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^internal/(\w+) +\S`).FindAllSubmatch(page, -1) {
		names = append(names, string(m[1]))
	}
	return names
})

// owners says which packages may import what (tests may import anything).
var owners = map[string][]string{
	"os/exec":                            {"run"},
	"github.com/go-git/go-git/v5":        {"source", "compat", "fork"},
	"github.com/bluekeyes/go-gitdiff":    {"patch"},
	"github.com/spf13/cobra":             {"cli"},
	"github.com/spf13/pflag":             {"cli"},
	"github.com/pelletier/go-toml/v2":    {"spec"},
	"github.com/vbauerster/mpb/v8":       {"cli"},
	"github.com/google/go-github":        {"publish"},
	"github.com/gpustack/gguf-parser-go": {},
	"github.com/google/renameio":         {}, // not for Windows; atomicfile is
}

type listed struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list shows %d packages", len(all))
	}
	return all
}

// violations returns what breaks the rules in one package's imports.
func violations(p listed) []string {
	var bad []string
	name, internal := strings.CutPrefix(p.ImportPath, module+"/internal/")
	level := slices.Index(layers(), name)
	if internal && level < 0 {
		bad = append(bad, p.ImportPath+" is not in docs/design.md's list of packages")
	}
	for _, imp := range p.Imports {
		if below, ok := strings.CutPrefix(imp, module+"/internal/"); ok {
			if internal && slices.Index(layers(), below) <= level {
				bad = append(bad, name+" imports "+below+", which is not below it")
			}
			if p.ImportPath == module+"/cmd/llpatch" && below != "cli" && below != "run" {
				bad = append(bad, "cmd/llpatch imports "+below)
			}
		}
		for prefix, owner := range owners {
			if (imp == prefix || strings.HasPrefix(imp, prefix+"/")) && (!internal || !slices.Contains(owner, name)) {
				bad = append(bad, p.ImportPath+" imports "+imp)
			}
		}
	}
	return bad
}

func TestLayers(t *testing.T) {
	for _, name := range layers() {
		if _, err := os.Stat(filepath.Join("internal", name)); err != nil {
			t.Errorf("docs/design.md lists a package that is not there: %v", err)
		}
	}
	for _, p := range packages(t) {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

// The test above must be able to fail.
func TestLayersNotice(t *testing.T) {
	for _, p := range []listed{
		{ImportPath: module + "/internal/source", Imports: []string{module + "/internal/patch"}},
		{ImportPath: module + "/internal/source", Imports: []string{"os/exec"}},
		{ImportPath: module + "/internal/build", Imports: []string{"github.com/go-git/go-git/v5/plumbing"}},
		{ImportPath: module + "/internal/spec", Imports: []string{"github.com/spf13/cobra"}},
		{ImportPath: module + "/internal/source", Imports: []string{"github.com/bluekeyes/go-gitdiff/gitdiff"}},
		{ImportPath: module + "/internal/util"},
		{ImportPath: module + "/cmd/llpatch", Imports: []string{module + "/internal/build"}},
	} {
		if len(violations(p)) != 1 {
			t.Errorf("%s %v: %d violations, want 1", p.ImportPath, p.Imports, len(violations(p)))
		}
	}
}

// Every package says in a sentence what it is for.
func TestPackageDocs(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no doc comment", p.ImportPath)
		}
	}
}

// A file is read in one sitting: some 400 lines.
func TestFileLength(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			data, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(data, []byte("\n")); n > 450 {
				t.Errorf("%s/%s has %d lines: split it", p.ImportPath, name, n)
			}
		}
	}
}

// wide names the lines of a Go file that have more than 120 columns, a tab being one. What
// stands in a literal cannot always be broken, a pattern or a script of another program, so a
// line with 60 columns of one may be longer.
func wide(src []byte) (lines []int) {
	fset := token.NewFileSet()
	f := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(f, src, nil, 0)
	literals := map[int]int{} // the columns of the longest literal on a line
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		if tok == token.STRING {
			for i, part := range strings.Split(lit, "\n") {
				literals[f.Line(pos)+i] = max(literals[f.Line(pos)+i], utf8.RuneCountInString(part))
			}
		}
	}
	for i, line := range strings.Split(string(src), "\n") {
		if utf8.RuneCountInString(line) > 120 && literals[i+1] < 60 {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// A line of code fits on a screen beside another file.
func TestLineLength(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") {
			return err
		}
		src, err := os.ReadFile(name)
		for _, n := range wide(src) {
			t.Errorf("%s:%d has more than 120 columns", name, n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLineLengthNotices(t *testing.T) {
	a, quoted := strings.Repeat("a", 115), `"`+strings.Repeat("a", 115)+`"`
	src := "package p\n\nvar x = " + a + "\n\nvar y = " + quoted + "\n\n// " + a + "aaa\n"
	if got := wide([]byte(src)); !slices.Equal(got, []int{3, 7}) {
		t.Errorf("lines %v, want 3 and 7", got)
	}
}

// os.Exit would skip deferred clean-up, so it stands in one function only.
func TestOneExit(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte("os.Exit(")) && f.Name.Name != "main" && p.ImportPath != module+"/internal/run" {
				t.Errorf("%s calls os.Exit", path)
			}
		}
	}
}
