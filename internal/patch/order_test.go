package patch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// twins is a file of two functions with the same body, and between them what the
// argument says.
func twins(top, between, line string) []string {
	body := "{\n" + countedLines("    w", 4) + line + countedLines("    v", 4) + "}\n\n"
	return slices.Collect(strings.Lines(top + "void f()\n" + body + between + "void g()\n" + body))
}

// Two functions with the same body, the same edit in both: the order of the hunks
// leaves each of them one place.
func TestOrderedHunks(t *testing.T) {
	diff := unified("f", twins("", "", "    old\n"), twins("", "", "    new\n"), 3)
	for name, c := range map[string]struct{ top, between string }{
		"a line above":    {"// top\n", ""},
		"lines between":   {"", "// between\n// more\n"},
		"far down":        {strings.Repeat("// top\n", 40), ""},
		"as it was":       {"", ""},
		"above and below": {"// top\n", "// between\n"},
	} {
		before, after := twins(c.top, c.between, "    old\n"), twins(c.top, c.between, "    new\n")
		got, _, err := applyOne(t, "f", strings.Join(before, ""), diff)
		if err != nil || got != strings.Join(after, "") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		judgeLikeApply(t, map[string]source.File{"f": file(strings.Join(before, ""))}, parsed(t, diff))
		// And a second run finds that all of it has landed.
		again, placed, err := applyOne(t, "f", got, diff)
		if err != nil || again != got || slices.ContainsFunc(placed, func(p Placement) bool { return p.Kind != Landed }) {
			t.Errorf("%s, again: %v, %+v", name, err, placed)
		}
	}
}

// A file of thousands of equal blocks, each with the same edit, and a line above: to
// look at every place of every hunk beside every other hunk would take hours.
func TestManyEqualHunks(t *testing.T) {
	const n = 4000
	var diff strings.Builder
	diff.WriteString("diff --git a/f b/f\n--- a/f\n+++ b/f\n")
	head, tail := countedLines("v", 4), countedLines("w", 4)
	for i := range n {
		at := i*9 + 2
		fmt.Fprintf(&diff, "@@ -%d,7 +%d,7 @@\n v 1\n v 2\n v 3\n-old\n+new\n w 0\n w 1\n w 2\n", at, at)
	}
	before := "top\n" + strings.Repeat(head+"old\n"+tail, n)
	got, _, err := applyOne(t, "f", before, diff.String())
	if err != nil || got != strings.ReplaceAll(before, "old", "new") {
		t.Errorf("%d bytes of %d, %v", len(got), len(before), err)
	}
}

// Where git apply puts the hunks against their order, or where the order leaves
// several places, the file is ambiguous.
func TestOrderIsNotGits(t *testing.T) {
	const (
		head = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
		one  = "@@ -3,3 +3,3 @@\n a\n-b\n+B\n c\n"
		two  = "@@ -7,3 +7,3 @@\n a\n-b\n+C\n c\n"
	)
	block := "a\nb\nc\n"
	for name, c := range map[string]struct {
		before, diff, detail string
		places               []int
	}{
		"three for two": {"1\n" + block + block + block, one + two, "", []int{2, 5}},
		"git swaps them": {"1\n" + block + "5\n6\n7\n8\n9\n" + block, "@@ -9,3 +9,3 @@\n a\n-b\n+B\n c\n" +
			"@@ -20,3 +20,3 @@\n a\n-b\n+C\n c\n", "git apply puts the hunks elsewhere", []int{2, 10}},
		"none in order": {block + block + "x\ny\nz\n" + block, "@@ -20,3 +20,3 @@\n x\n-y\n+Y\n z\n" +
			"@@ -40,3 +40,3 @@\n a\n-b\n+B\n c\n@@ -50,3 +50,3 @@\n a\n-b\n+C\n c\n", "with none of them", []int{1, 4, 10}},
	} {
		_, _, err := applyOne(t, "f", c.before, head+c.diff)
		if err == nil {
			t.Errorf("%s: applied", name)
			continue
		}
		got, _ := Conflicts(err)
		if got[0].Kind != Ambiguous || !strings.Contains(got[0].Detail, c.detail) || !slices.Equal(got[0].Places, c.places) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
	// Swapped, the same edit is the same file.
	edit := "\n a\n-b\n+B\n c\n"
	got, _, err := applyOne(t, "f", "1\n"+block+"5\n6\n7\n8\n9\n"+block, head+"@@ -9,3 +9,3 @@"+edit+"@@ -20,3 +20,3 @@"+
		edit)
	if want := "1\na\nB\nc\n5\n6\n7\n8\n9\na\nB\nc\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
}

// What git apply would take is proposed, with what speaks for it and against it;
// settled, the patch has one place, whatever tool applies it.
func TestSettle(t *testing.T) {
	text := func(top string, line string) []string {
		var out []string
		for _, name := range []string{"f", "g", "h"} {
			out = append(out, "int "+name+"(void) {\n")
			for i := range 12 {
				if name == "g" && i == 6 {
					out = append(out, line)
					continue
				}
				out = append(out, fmt.Sprintf("    same %d\n", i))
			}
			out = append(out, "}\n\n")
		}
		out = append(out, "the end\n", "a\n", "b\n", "c\n")
		return slices.Collect(strings.Lines(top + strings.Join(out, "")))
	}
	base, want := text("", "    same 6\n"), text("", "    mine\n")
	want[len(want)-3] = "A\n"
	for name, c := range map[string]struct {
		down, section string
		sound         bool
		say           []string
	}{
		"both": {"// top\n", "int g(void) {", true, []string{"the other hunk of the file that has one place " +
			"moved by +1 too", "it alone lies in what @@ names: “int g(void) {”"}},
		"only the shift": {"// top\n", "", true, []string{"moved by +1 too"}},
		"another's name": {"// top\n", "int h(void) {", false, []string{
			"for it: the other hunk",
			"against it: line 36 lies in what @@ names",
		}},
		"another shift": {
			strings.Repeat("// top\n", 14), "", false,
			[]string{"against it: the hunks of the file that have one place moved by +14, as at line 34"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			diff := unified("f", base, want, 3)
			diff = strings.Replace(diff, " @@\n", " @@ "+c.section+"\n", 1)
			mail := "From " + id40 + " Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] x\n\n---\n" + diff
			p := parsed(t, mail)[0]
			target := tree(t, map[string]source.File{"f": file(strings.Join(text(c.down, "    same 6\n"), ""))})
			_, err := Apply(target, []Patch{p})
			got, _ := Conflicts(err)
			if len(got) != 1 || got[0].Proposal == nil {
				t.Fatalf("got %v", err)
			}
			if got[0].Proposal.Sound() != c.sound {
				t.Errorf("sound %v: %s", !c.sound, got[0].Proposal)
			}
			for _, s := range c.say {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("does not say %q: %v", s, err)
				}
			}
			out, settled, err := Settle(target, &p, []byte(mail))
			if err != nil || len(settled) != 1 {
				t.Fatalf("%v, %v", settled, err)
			}
			again := parsed(t, string(out))
			if again[0].Header.Subject != "x" {
				t.Errorf("the message is lost:\n%s", out)
			}
			res, err := Apply(target, again)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte(strings.Join(text(c.down, "    same 6\n"), "")),
				0o644); err != nil {
				t.Fatal(err)
			}
			gitApply(t, dir, diff)
			git, err := os.ReadFile(filepath.Join(dir, "f"))
			if err != nil {
				t.Fatal(err)
			}
			if now := strings.TrimPrefix(contents(t, res.Tree)["f"], "100644 "); now != string(git) {
				t.Errorf("git makes another file:\n%s", now)
			}
			f, err := target.Read("f")
			if err != nil {
				t.Fatal(err)
			}
			for i := range again[0].changes[0].hunks {
				if n := len(newText(f.Data).find(&again[0].changes[0].hunks[i])); n != 1 {
					t.Errorf("hunk %d has %d places:\n%s", i+1, n, out)
				}
			}
			// What fits comes back as it is.
			if same, settled, err := Settle(target, &again[0], out); err != nil || settled != nil ||
				string(same) != string(out) {
				t.Errorf("%v, %v", settled, err)
			}
		})
	}
	// A hunk that is nowhere is not settled by others' places.
	p := parsed(t, unified("f", base, want, 3))[0]
	lost := tree(t, map[string]source.File{"f": file(strings.Join(text("// top\n", "    same 6\n")[:46], ""))})
	if out, _, err := Settle(lost, &p, nil); err == nil {
		t.Errorf("settled:\n%s", out)
	}
}

// A random file of which a hunk gets more context: every hunk stands once, and the
// diff still makes the one file of the other.
func TestUniqueHunks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	wider := 0
	for range 300 {
		tr := repeatedTrial(r, 3)
		before, after := file(strings.Join(tr.base, "")), file(strings.Join(tr.want, ""))
		var plain, diff bytes.Buffer
		writeFile(&plain, modify, "f", "f", &before, &after, false)
		writeFile(&diff, modify, "f", "f", &before, &after, true)
		if bytes.Equal(before.Data, after.Data) {
			continue
		}
		got, _, err := applyOne(t, "f", string(before.Data), diff.String())
		if err != nil || got != string(after.Data) {
			t.Fatalf("%v\n%s", err, diff.String())
		}
		txt := newText(before.Data)
		hunks := parsed(t, diff.String())[0].changes[0].hunks
		for i := range hunks {
			if n := len(txt.find(&hunks[i])); n != 1 {
				t.Errorf("hunk %d has %d places:\n%s", i+1, n, diff.String())
			}
		}
		wider += count(diff.Len() > plain.Len())
	}
	if wider < 100 {
		t.Errorf("%d diffs got more context: this proves little", wider)
	}
}
