package llpatch_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/spec"
)

// skipped tells the folders that are not the project's: what stages leave in dist/, bin/,
// and those with a dot.
func skipped(name string, d fs.DirEntry) bool {
	return strings.HasPrefix(d.Name(), ".") || name == "bin" || path.Dir(name) == "dist"
}

// documents returns the text of every Markdown file below a folder, by its path with slashes.
func documents(t *testing.T, fsys fs.FS) map[string]string {
	t.Helper()
	docs := map[string]string{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && skipped(name, d):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		docs[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

var (
	fence    = regexp.MustCompile("^ *(```+|~~~+)")
	codeSpan = regexp.MustCompile("`[^`]+`")
	link     = regexp.MustCompile(`\]\(\s*<?([^()\s<>]+)>?(?:\s+"[^"]*")?\s*\)`)
	refLink  = regexp.MustCompile(`(?m)^ {0,3}\[[^\]\n]+\]:\s*(\S+)`)
	scheme   = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:|^//`)
	heading  = regexp.MustCompile(`^#{1,6}\s+(.*?)(?:\s+#+)?\s*$`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// prose is a document without its fenced blocks.
func prose(doc string) string {
	var out []string
	open := ""
	for line := range strings.Lines(doc) {
		mark := ""
		if m := fence.FindStringSubmatch(line); m != nil {
			mark = m[1]
		}
		switch {
		case open == "" && mark == "":
			out = append(out, line)
		case open == "":
			open = mark
		case strings.HasPrefix(mark, open):
			open = ""
		}
	}
	return strings.Join(out, "")
}

// links are the targets of a document's links and pictures.
func links(doc string) []string {
	var targets []string
	for _, paragraph := range strings.Split(prose(doc), "\n\n") { // a code span ends with its paragraph
		paragraph = codeSpan.ReplaceAllString(paragraph, "x")
		for _, re := range []*regexp.Regexp{link, refLink} {
			for _, m := range re.FindAllStringSubmatch(paragraph, -1) {
				targets = append(targets, m[1])
			}
		}
	}
	return targets
}

// anchors are the names that GitHub gives a document's headings.
func anchors(doc string) []string {
	var names []string
	seen := map[string]int{}
	for line := range strings.Lines(prose(doc)) {
		m := heading.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		text := linkText.ReplaceAllString(m[1], "$1")
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsNumber(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, text)
		again := seen[name]
		seen[name]++
		if again > 0 {
			name = fmt.Sprintf("%s-%d", name, again)
		}
		names = append(names, name)
	}
	return names
}

// brokenLinks says which relative links of the documents lead nowhere.
func brokenLinks(fsys fs.FS, docs map[string]string) []string {
	var bad []string
	for name, doc := range docs {
		for _, to := range links(doc) {
			if scheme.MatchString(to) {
				continue
			}
			file, anchor, hasAnchor := strings.Cut(to, "#")
			file, err := url.PathUnescape(file)
			if err != nil {
				bad = append(bad, fmt.Sprintf("%s: %s: %v", name, to, err))
				continue
			}
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := fs.Stat(fsys, target); err != nil { // also of what begins with / or leaves the repository
				bad = append(bad, fmt.Sprintf("%s: %s: there is no %s", name, to, target))
				continue
			}
			if isRecord(target) {
				continue // its fragment is a figure's key: TestFigures
			}
			if page, known := docs[target]; hasAnchor && (!known || !slices.Contains(anchors(page), anchor)) {
				bad = append(bad, fmt.Sprintf("%s: %s: %s has no heading %q", name, to, target, anchor))
			}
		}
	}
	slices.Sort(bad)
	return bad
}

// Every relative link of every Markdown file leads to a file, and every anchor to a
// heading of it.
func TestLinks(t *testing.T) {
	repo := os.DirFS(".")
	docs := documents(t, repo)
	if len(docs) < 20 {
		t.Fatalf("%d Markdown files", len(docs))
	}
	for _, b := range brokenLinks(repo, docs) {
		t.Error(b)
	}
}

// The manual's page has a line for each chapter, and a chapter is read in one sitting.
func TestManual(t *testing.T) {
	docs := documents(t, os.DirFS("docs"))
	toc := links(docs["manual.md"])
	chapters := 0
	for name, doc := range docs {
		if path.Dir(name) != "manual" {
			continue
		}
		chapters++
		if n := strings.Count(strings.Join(toc, "\n")+"\n", name+"\n"); n != 1 {
			t.Errorf("docs/manual.md has %d lines for %s, want 1", n, name)
		}
		if n := strings.Count(doc, "\n"); n > 150 {
			t.Errorf("docs/%s has %d lines: split it", name, n)
		}
		if !strings.HasPrefix(doc, "# ") {
			t.Errorf("docs/%s does not begin with its title", name)
		}
	}
	if chapters < 10 {
		t.Errorf("the manual has %d chapters", chapters)
	}
}

// Comments, help texts, scripts and declarations name pages of docs/ as well: each is there.
func TestPagesNamed(t *testing.T) {
	page := regexp.MustCompile(`\bdocs/[A-Za-z0-9_./-]+\.md\b`)
	// Files of trees that tests make.
	made := []string{"docs/a/b/guide.md", "docs/readme.md", "docs/page.md", "docs/leaf.md"}
	named := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && name != ".ci" && skipped(name, d) || d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case !d.Type().IsRegular() || name == "docs_test.go":
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, p := range page.FindAllString(string(data), -1) {
			named++
			if _, err := os.Stat(p); err != nil && !slices.Contains(made, p) {
				t.Errorf("%s names %s, which is not there", name, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 40 {
		t.Errorf("%d pages are named: the test looks in the wrong place", named)
	}
}

// The test of links must be able to fail, and must not take for a link what is none.
func TestLinksNotice(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docs/page.md": "# One `code`, two\n\n## Same\n\n## Same\n\n## [Linked](page.md) & more_of it\n\n```\n# No " +
			"heading\n[no](link.md)\n```\n",
		"docs/fig.svg": "<svg/>\n",
		"docs/a b.md":  "text\n",
		"docs/it.md":   "each case in turn\n",
		"dist/x/no.md": "[left](behind.md)\n",
		".git/no.md":   "[hidden](file.md)\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fsys := os.DirFS(dir)
	for _, c := range []struct {
		text, bad string
	}{
		{"[a](page.md), [b](page.md#one-code-two), [c](./page.md#same), [d](page.md#same-1), ![e](fig.svg)", ""},
		{"[a](page.md#linked--more_of-it) [b](a%20b.md) [c](../docs) [d](#top)\n\n# Top", ""},
		{"[a](https://example.com/none.md) [b](mailto:a@example.com) `[c](none.md)`\n\n```\n[d](none.md)\n```", ""},
		{"[text over\ntwo lines](page.md) and [a][ref]\n\n[ref]: page.md#same", ""},
		{"[a](none.md)", "there is no docs/none.md"},
		{"[text over\ntwo lines](none.md)", "there is no docs/none.md"},
		{"![a](none.svg)", "there is no docs/none.svg"},
		{"[a][ref]\n\n[ref]: none.md", "there is no docs/none.md"},
		{"[a](page.md#none)", `docs/page.md has no heading "none"`},
		{"[a](page.md#no-heading)", `docs/page.md has no heading "no-heading"`},
		{"[a](page.md#same-2)", `docs/page.md has no heading "same-2"`},
		{"[a](#none)", `docs/it.md has no heading "none"`},
		{"[a](fig.svg#none)", `docs/fig.svg has no heading "none"`},
		{"[a](/docs/page.md)", "there is no docs/docs/page.md"},
		{"[a](../../outside.md)", "there is no ../outside.md"},
		{"an odd ` and then [a](none.md)\n\nanother ` here", "there is no docs/none.md"},
	} {
		docs := documents(t, fsys)
		if len(docs) != 3 {
			t.Fatalf("%d documents: dist and .git are not the project's", len(docs))
		}
		docs["docs/it.md"] = c.text
		bad := brokenLinks(fsys, docs)
		if c.bad == "" && len(bad) > 0 || c.bad != "" && (len(bad) != 1 || !strings.HasSuffix(bad[0], c.bad)) {
			t.Errorf("%q: %q, want %q", c.text, bad, c.bad)
		}
	}
}

// A fix's page names the proof that its fix.toml names, or repeats why there is none.
func TestFixPages(t *testing.T) {
	repo, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range repo.Fixes {
		name := filepath.Join("docs", "fixes", f.ID+".md")
		if f.Group == spec.Security { // one chapter has them all
			name = filepath.Join("docs", "manual", "defects.md")
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		want := "`" + f.Proof + "`"
		if f.Proof == "build" {
			want = f.Unproven
		}
		if f.Group == spec.Security && !strings.Contains(string(data), "`"+f.ID+"`") {
			t.Errorf("%s does not name %s", name, f.ID)
		}
		words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		if !strings.Contains(words(string(data)), words(want)) {
			t.Errorf("%s does not say of its proof: %s", name, words(want))
		}
	}
}
