package patch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// FuzzParse reads anything without a crash. What is read holds together: paths
// that passed the gate, hunks that have the lines they count. It may then be
// tried on a tree, which stays as it is.
func FuzzParse(f *testing.F) {
	patches, err := filepath.Glob("testdata/triples/*.patch")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range patches {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("From " + id40 + " Mon Sep 17 00:00:00 2001\r\nFrom: =?utf-8?q?=C3=A4?= <a@b>\r\nSubject: [PATCH 1/2] " +
		"=?utf-8?B?eA==?=\r\n y\r\n\r\nb\r\n---\r\n" + tinyDiff + "-- \n2.39.5\n\n"))
	f.Add([]byte("Description: x\n y\n .\n z\nBug: 1\n---\n" + renamed("a", "b") + created("l", "120000", "a")))
	f.Add([]byte("diff --git \"a/\\303\\244\\\\\" \"b/\\303\\244\\\\\"\nold mode 100644\nnew mode 100755\n"))
	f.Add([]byte("diff --git a/m b/m\nindex " + id40 + ".." + id40 +
		" 100644\nGIT binary patch\nliteral 0\nHcmV?d00001\n\ndelta 5\nHcmV?d00001\n\n"))
	f.Add([]byte("Content-Transfer-Encoding: quoted-printable\nFrom: a@b\n\n=41=\n---\n" + tinyDiff))
	base := tree(f, map[string]source.File{
		"f.txt": file("line 1\nline 2\n"), "a": file("a\n"), "f": file("a\n"),
		"d/l": link("../a"),
	})
	id := base.ID()
	f.Fuzz(func(t *testing.T, data []byte) {
		series, err := Parse("fix", "x.patch", data)
		if err != nil {
			return
		}
		for _, p := range series {
			if len(p.changes) == 0 {
				t.Error("a patch without a change")
			}
			for i := range p.changes {
				c := &p.changes[i]
				for _, path := range []string{c.old, c.new} {
					if path != "" && checkPath(path) != nil {
						t.Errorf("%q passed the gate", path)
					}
				}
				for k := range c.hunks {
					h := &c.hunks[k]
					if strings.Join(h.old, "") != h.oldText || h.line < 1 || h.newLines != strings.Count(h.newText, "\n")+
						tail(h.newText) {
						t.Errorf("hunk %+v", h)
					}
				}
			}
		}
		res, err := Apply(base, series)
		if base.ID() != id {
			t.Error("the base has changed")
		}
		if err == nil {
			for _, e := range res.Tree.Files() {
				if checkPath(e.Path) != nil {
					t.Errorf("%q came into the tree", e.Path)
				}
			}
		}
	})
}

// tail is 1 if the text ends without a newline.
func tail(s string) int {
	if s == "" || strings.HasSuffix(s, "\n") {
		return 0
	}
	return 1
}

// FuzzPlace makes a patch from two texts and applies it to a third. Where it
// applies, every preimage stood where it was replaced, in order and apart, and
// taking the changes back gives the third text again.
func FuzzPlace(f *testing.F) {
	f.Add("a\nb\nc\nd\n", "a\nb\nx\nd\n", "0\na\nb\nc\nd\n", byte(3))
	f.Add("a\na\na\na\n", "a\na\nb\na\na\n", "a\na\na\na\na\na", byte(1))
	f.Add("a\nb", "b\na", "a\nb\n", byte(0))
	f.Add("a\r\nb\r\n\f\n", "a\r\n\f\n", "a\r\nb\r\n\f\n", byte(2))
	f.Fuzz(func(t *testing.T, a, b, target string, context byte) {
		if len(a)+len(b)+len(target) > 3000 {
			return
		}
		split := func(s string) []string {
			var lines []string
			for l := range strings.Lines(s) {
				lines = append(lines, l)
			}
			return lines
		}
		diff := unified("f", split(a), split(b), int(context%6))
		if !strings.Contains(diff, "\n@@ ") {
			return
		}
		series, err := Parse("fix", "x.patch", []byte(diff))
		if err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
		hunks := series[0].changes[0].hunks
		for _, src := range []string{a, target} {
			txt := newText([]byte(src))
			spots, bad := place(txt, hunks, blobID([]byte(a)), func() string { return blobID([]byte(src)) })
			if len(bad) > 0 {
				if src == a {
					t.Errorf("does not fit what it was made from: %+v\n%s", bad, diff)
				}
				continue
			}
			out := splice(txt, hunks, spots)
			if src == a && string(out) != b {
				t.Errorf("gives %q, want %q\n%s", out, b, diff)
			}
			var back bytes.Buffer
			done, grown, next := 0, 0, 0
			for i, s := range spots {
				if s.at < next || !txt.at(&hunks[i], s.at) {
					t.Fatalf("hunk %d at %d\n%s", i, s.at, diff)
				}
				next = s.at + len(hunks[i].old)
				start := txt.offset(s.at) + grown
				back.Write(out[done:start])
				if !bytes.HasPrefix(out[start:], []byte(hunks[i].newText)) {
					t.Fatalf("hunk %d is not in %q\n%s", i, out, diff)
				}
				back.WriteString(hunks[i].oldText)
				done = start + len(hunks[i].newText)
				grown += len(hunks[i].newText) - len(hunks[i].oldText)
			}
			back.Write(out[done:])
			if back.String() != src {
				t.Errorf("taken back gives %q, want %q\n%s", back.String(), src, diff)
			}
		}
	})
}
