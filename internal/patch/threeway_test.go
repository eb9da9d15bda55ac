package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/source"
)

// wayCase is one file of testdata/threeway: trees of files below base, ours,
// target and, if it merges, want.
type wayCase struct {
	trees  map[string]map[string]source.File
	follow map[string]string
	golden string
}

func readWay(t *testing.T, file string) (*txtar.Archive, wayCase) {
	t.Helper()
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := wayCase{
		trees:  map[string]map[string]source.File{"base": {}, "ours": {}, "target": {}},
		follow: map[string]string{},
	}
	open := false
	for _, f := range ar.Files {
		switch f.Name {
		case "options":
			for l := range strings.Lines(string(f.Data)) {
				switch w := strings.Fields(l); w[0] {
				case "follow":
					c.follow[w[1]] = w[2]
				case "open":
					open = true
				default:
					t.Fatalf("option %q", l)
				}
			}
		case "result":
			c.golden = string(f.Data)
		default:
			tree, path, ok := strings.Cut(f.Name, "/")
			if !ok {
				t.Fatalf("section %s", f.Name)
			}
			if c.trees[tree] == nil {
				c.trees[tree] = map[string]source.File{}
			}
			data := f.Data
			if open {
				data = bytes.TrimSuffix(data, []byte("\n"))
			}
			c.trees[tree][path] = source.File{Mode: source.Regular, Data: data}
		}
	}
	return ar, c
}

// commitTree makes a commit of exactly these files.
func commitTree(t *testing.T, repo string, files map[string]source.File, message string) {
	t.Helper()
	git(t, repo, "rm", "-rfq", "--ignore-unmatch", ".")
	for path, f := range files {
		full := filepath.Join(repo, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-q", "--allow-empty", "-m", message)
}

const wayMessage = `Check the third one

It was not checked, which is bad: see
https://example.org/issues/1

Bug: https://example.org/issues/1`

// newWay makes a repository with base, the patch of ours, and the target checked
// out, and returns the patch file as git writes it.
func newWay(t *testing.T, c wayCase) (repo string, mail []byte) {
	t.Helper()
	repo = t.TempDir()
	git(t, repo, "init", "-q", "-b", "main")
	commitTree(t, repo, c.trees["base"], "base")
	commitTree(t, repo, c.trees["ours"], wayMessage)
	mail = []byte(git(t, repo, "format-patch", "-1", "--stdout", "--full-index", "--zero-commit", "-M"))
	commitTree(t, repo, c.trees["target"], "target")
	return repo, mail
}

// describeMerge writes what a merge did, for the golden texts.
func describeMerge(m *Merge, err error) string {
	var b strings.Builder
	for _, f := range m.Files {
		fmt.Fprintf(&b, "file %s", f.Path)
		if f.From != "" {
			fmt.Fprintf(&b, " from %s", f.From)
		}
		for _, flag := range []struct {
			on   bool
			name string
		}{
			{f.Merged != "", "merged"},
			{f.Landed, "landed"},
			{f.Checked, "checked"},
			{f.Proposed, "proposed"},
			{f.Resolution != "", "kept"},
		} {
			if flag.on {
				b.WriteString(" " + flag.name)
			}
		}
		b.WriteByte('\n')
		for _, mv := range f.Moves {
			fmt.Fprintf(&b, "  place %s %d %%\n", mv.Path, mv.Percent)
		}
		for _, r := range f.Regions {
			fmt.Fprintf(&b, "  %s: base %s, ours %s, theirs %s", r.From, r.Base, r.Ours, r.Theirs)
			if r.Cause == "" {
				fmt.Fprintf(&b, ", merged %s\n", r.Merged)
			} else {
				fmt.Fprintf(&b, ": %s\n", r.Cause)
			}
		}
		for l := range strings.Lines(f.Diff) {
			b.WriteString("  | " + strings.TrimRight(l, "\n") + "\n")
		}
	}
	if m.Result != nil {
		for _, p := range m.Result.Placements {
			fmt.Fprintf(&b, "%s %s line %d\n", p.Kind, p.Path, p.Got)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	return b.String()
}

func TestThreeWay(t *testing.T) {
	gitProgram := FindGit(os.Getenv("PATH"))
	if gitProgram == "" {
		t.Fatal("no git on the PATH")
	}
	files, err := filepath.Glob("testdata/threeway/*.txtar")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			ar, c := readWay(t, file)
			repo, mail := newWay(t, c)
			ps, err := Parse("fix", "x.patch", mail)
			if err != nil {
				t.Fatal(err)
			}
			base, target := tree(t, c.trees["base"]), tree(t, c.trees["target"])
			before := target.ID()
			m, err := ThreeWay(t.Context(), &ps[0], base, target, MergeOptions{Git: gitProgram, Follow: c.follow})
			if m == nil {
				t.Fatal(err)
			}
			if got := describeMerge(m, err); golden.Update() {
				ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "result" })
				ar.Files = append(ar.Files, txtar.File{Name: "result", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != c.golden {
				t.Errorf("got\n%s\nwant\n%s", got, c.golden)
			}
			if target.ID() != before {
				t.Error("the target was changed")
			}
			sameMerge(t, NewMemo(), &ps[0], base, target, MergeOptions{Git: gitProgram, Follow: c.follow})
			want := c.trees["want"]
			if (want == nil) != (err != nil) || (err != nil) != (m.Result == nil) {
				t.Fatalf("it should merge: %v; got %v, %v", want != nil, err, m.Result)
			}
			if err != nil {
				for _, k := range conflictKinds(t, err) {
					if k == "" {
						t.Error("conflict without a cause")
					}
				}
				if _, err := m.Variant(mail); err == nil || !strings.Contains(err.Error(), "conflicts are left") {
					t.Errorf("a variant of a conflict: %v", err)
				}
				return
			}
			checkMerged(t, m, ps[0], tree(t, want), repo, mail)
			checkKept(t, m, &ps[0], base, target, c.follow)
		})
	}
}

// checkMerged compares the merged tree with the wanted one and has both this
// package and git am make it from the variant.
func checkMerged(t *testing.T, m *Merge, p Patch, want *source.Tree, repo string, mail []byte) {
	t.Helper()
	if m.Result.Tree.ID() != want.ID() {
		t.Fatalf("got %q\nwant %q", contents(t, m.Result.Tree), contents(t, want))
	}
	variant, err := m.Variant(mail)
	if want.ID() == m.target.ID() {
		if err == nil {
			t.Errorf("a variant that changes nothing:\n%s", variant)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, err := m.Variant(mail); err != nil || !bytes.Equal(again, variant) {
		t.Errorf("other bytes the second time: %v", err)
	}
	ps, err := Parse("fix", "x.patch", variant)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", ps[0].Header) != fmt.Sprintf("%+v", p.Header) {
		t.Errorf("header %+v, was %+v", ps[0].Header, p.Header)
	}
	res, err := Apply(m.target, ps)
	if err != nil || res.Tree.ID() != want.ID() {
		t.Errorf("the variant does not give the merged tree: %v\n%s", err, variant)
	}
	for _, pl := range res.Placements {
		if pl.Kind == Offset {
			t.Errorf("the variant is off its lines: %+v", pl)
		}
	}
	file := filepath.Join(t.TempDir(), "variant.patch")
	if err := os.WriteFile(file, variant, 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, repo, "am", "-q", "--keep-cr", "--keep-non-patch", file)
	if got := strings.TrimSpace(git(t, repo, "rev-parse", "HEAD^{tree}")); got != want.ID() {
		t.Errorf("git am of the variant gives tree %s, want %s\n%s", got, want.ID(), variant)
	}
	if got := strings.TrimSpace(git(t, repo, "log", "-1", "--format=%B")); got != wayMessage {
		t.Errorf("git am reads the message %q", got)
	}
	if got := git(t, repo, "log", "-1", "--format=%an <%ae> %aI"); got != "Ada L <ada@example.org> "+
		"2026-01-02T03:04:05+01:00\n" {
		t.Errorf("git am reads the author %q", got)
	}
}

// checkKept merges again with what the first merge would keep, as read back from
// files, and without git.
func checkKept(t *testing.T, m *Merge, p *Patch, base, target *source.Tree, follow map[string]string) {
	t.Helper()
	kept := m.Resolutions()
	rs := loadAll(t, kept)
	again, err := ThreeWay(t.Context(), p, base, target, MergeOptions{Resolutions: rs, Follow: follow})
	if err != nil || again.Result.Tree.ID() != m.Result.Tree.ID() {
		t.Fatalf("with its own resolutions: %v", err)
	}
	n := 0
	for _, f := range again.Files {
		if f.Resolution != "" {
			n++
		}
		if f.Checked {
			t.Error("checked without git")
		}
	}
	if n < len(kept) {
		t.Errorf("%d of %d resolutions used", n, len(kept))
	}
	if more := again.Resolutions(); len(more) > 0 {
		t.Errorf("resolutions kept twice: %v", more)
	}
}

func loadAll(t *testing.T, rs []Resolution) Resolutions {
	t.Helper()
	dir := fstest.MapFS{"resolutions/README.md": {Data: []byte("what this is\n")}}
	for _, r := range rs {
		dir["resolutions/"+r.Name()] = &fstest.MapFile{Data: r.Encode()}
	}
	out, err := LoadResolutions(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(rs) {
		t.Fatalf("%d of %d resolutions read", len(out), len(rs))
	}
	for _, r := range rs {
		if got := out[r.Name()]; got != r {
			t.Errorf("read back %+v, want %+v", got, r)
		}
	}
	return out
}

func TestThreeWayStops(t *testing.T) {
	_, c := readWay(t, "testdata/threeway/context-changed.txtar")
	_, mail := newWay(t, c)
	ps, err := Parse("fix", "x.patch", mail)
	if err != nil {
		t.Fatal(err)
	}
	base, target := tree(t, c.trees["base"]), tree(t, c.trees["target"])
	t.Run("wrong base", func(t *testing.T) {
		_, err := ThreeWay(t.Context(), &ps[0], target, target, MergeOptions{})
		if err == nil || !strings.Contains(err.Error(), "does not fit the tree that it was made for") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m, err := ThreeWay(ctx, &ps[0], base, target, MergeOptions{Git: FindGit(os.Getenv("PATH"))})
		if m != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", m, err)
		}
	})
	t.Run("no such git", func(t *testing.T) {
		_, err := ThreeWay(t.Context(), &ps[0], base, target, MergeOptions{Git: filepath.Join(t.TempDir(), "git")})
		if err == nil || !strings.Contains(err.Error(), "second opinion") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("git disagrees", func(t *testing.T) {
		// A program that gives another merge than git does.
		prog := filepath.Join(t.TempDir(), "git")
		if err := os.WriteFile(prog, []byte("#!/bin/sh\necho something else\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		m, err := ThreeWay(t.Context(), &ps[0], base, target, MergeOptions{Git: prog})
		if m == nil || m.Result != nil || err == nil || conflictKinds(t, err)[0] != GitDisagrees {
			t.Errorf("got %+v, %v", m, err)
		}
	})
	t.Run("binary", func(t *testing.T) {
		zero := func(tr string) *source.Tree {
			f := c.trees[tr]["f.c"]
			return tree(t, map[string]source.File{"f.c": {Mode: f.Mode, Data: append([]byte("\x00\n"), f.Data...)}})
		}
		p := parsed(t, string(mail))
		m, err := ThreeWay(t.Context(), &p[0], zero("base"), zero("target"), MergeOptions{})
		if m == nil || m.Result != nil || len(m.Files) != 0 || err == nil || conflictKinds(t, err)[0] != NoPlace {
			t.Errorf("got %+v, %v", m, err)
		}
	})
	t.Run("nothing to merge", func(t *testing.T) {
		m, err := ThreeWay(t.Context(), &ps[0], base, base, MergeOptions{})
		if err != nil || len(m.Files) > 0 || m.Result == nil {
			t.Errorf("got %+v, %v", m, err)
		}
	})
	t.Run("link instead of the file", func(t *testing.T) {
		m, err := ThreeWay(t.Context(), &ps[0], base,
			tree(t, map[string]source.File{"f.c": link("g.c"), "g.c": file("x\n")}), MergeOptions{})
		if m == nil || err == nil || conflictKinds(t, err)[0] != WrongType {
			t.Errorf("got %+v, %v", m, err)
		}
	})
	t.Run("followed to nothing", func(t *testing.T) {
		m, err := ThreeWay(t.Context(), &ps[0], base, tree(t, map[string]source.File{"g.c": file("x\n")}),
			MergeOptions{Follow: map[string]string{"f.c": "h.c"}})
		if m == nil || err == nil || conflictKinds(t, err)[0] != MissingFile || !strings.Contains(err.Error(), "h.c") {
			t.Errorf("got %+v, %v", m, err)
		}
	})
}
