package compat

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// parts is a history in which upstream takes the three hunks of a patch one by
// one, with untagged commits between, gives one back and takes it again.
func parts(tb testing.TB) (h *history, old, now string) {
	tb.Helper()
	h = newHistory(tb)
	text := func(a, b, c string) string {
		return numbered("one", 1, 9) + a + numbered("two", 1, 9) + b + numbered("three", 1, 9) + c + numbered("four", 1, 9)
	}
	old, now = text("a\n", "b\n", "c\n"), text("A\n", "B\n", "C\n")
	set := func(subject, t string) { h.commit(subject, map[string]string{"src/f.c": t}) }
	set("begin (#1)", old)
	h.tag() // b1
	h.commits(4)
	set("takes the second (#6)", text("a\n", "B\n", "c\n"))
	h.commits(3)
	h.tag() // b9
	set("takes the first (#10)", text("A\n", "B\n", "c\n"))
	set("gives the second back (#11)", text("A\n", "b\n", "c\n"))
	h.tag() // b11
	set("takes the second again (#12)", text("A\n", "B\n", "c\n"))
	h.tag() // b12
	h.commits(1)
	set("takes the third", now)
	h.commits(1)
	h.tag() // b15
	return h, old, now
}

func landed(ls []Landing) string {
	var out []string
	for _, l := range ls {
		out = append(out, fmt.Sprintf("%s %d: %s %d #%d", l.File, l.Hunk, l.Since, l.Build, l.Pull))
	}
	return strings.Join(out, ", ")
}

func TestLandings(t *testing.T) {
	hist, old, now := parts(t)
	path := hist.write()
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	s := declared(t, 0, [2]string{">= 1", p})
	ids := strings.Fields(git(t, path, "rev-list", "--reverse", "master"))
	want := map[string]string{
		"b1":  "",
		"b9":  "src/f.c 2: b9 6 #6",
		"b11": "src/f.c 1: b11 10 #10",
		"b12": "src/f.c 1: b11 10 #10, src/f.c 2: b12 12 #12",
		"b15": "src/f.c 1: b11 10 #10, src/f.c 2: b12 12 #12, src/f.c 3: b15 14 #0",
	}
	h := open(t, path)
	cache := t.TempDir()
	for _, ask := range []string{"", "", "b12..", "b15", "b11"} {
		tags, err := h.Range(ask)
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.Status(t.Context(), Options{Cache: cache}, s, tags)
		if err != nil {
			t.Fatal(err)
		}
		if ask == "" && len(r.Fixes[0].Runs) != 5 {
			t.Fatalf("runs: %+v", r.Fixes[0].Runs)
		}
		for _, run := range r.Fixes[0].Runs {
			if got := landed(run.Landed); got != want[run.From] {
				t.Errorf("%q: %s: %s, want %s", ask, run.From, got, want[run.From])
			}
			for _, l := range run.Landed {
				if l.Commit != ids[l.Build-1] || !strings.Contains(string(p), "@@") || l.PatchLine == 0 {
					t.Errorf("%s: commit %s, want that of build %d, %s", run.From, l.Commit, l.Build, ids[l.Build-1])
				}
				if at := strings.Split(p, "\n")[l.PatchLine-1]; !strings.HasPrefix(at, "@@ ") {
					t.Errorf("line %d of the patch is %q", l.PatchLine, at)
				}
			}
		}
		page, err := r.HTML()
		if line := "src/f.c: hunk 1: since b11, by " + ids[9][:12] + " takes the first (#10)"; err != nil ||
			!strings.Contains(string(page), line) {
			t.Errorf("the page lacks %q: %v", line, err)
		}
	}
	b, err := h.Blame(t.Context(), Options{}, s, "fix", "")
	if err != nil || len(b.Breaks) != 1 {
		t.Fatalf("%v, %v", b, err)
	}
	if got := landed(b.Breaks[0].Landed); got != want["b15"] {
		t.Errorf("blame: %s", got)
	}
	for _, line := range []string{
		"upstream has 3 of its 3 changes from there on\n    src/f.c: hunk 1: since b11, by ",
		"hunk 3: since b15, by " + ids[13][:12] + " takes the third\n",
	} {
		if !strings.Contains(b.Text(), line) {
			t.Errorf("blame lacks %q:\n%s", line, b.Text())
		}
	}
}

// Whole files land, too; what the history does not tell is left open.
func TestLandingsOfFiles(t *testing.T) {
	hist := newHistory(t)
	hist.commit("begin", map[string]string{"a": "a\n", "gone": "x\n", "there": "new\n"})
	hist.tag()
	hist.commits(2)
	hist.commit("a new file (#4)", map[string]string{"new.c": "int x;\n"})
	hist.commit("and one goes (#5)", map[string]string{"gone": ""})
	hist.tag()
	path := hist.write()
	p := diffOf(t, "x", map[string]string{"a": "a\n", "gone": "x\n", "there": "old\n"},
		map[string]string{"a": "a\n", "new.c": "int x;\n", "there": "new\n", "gone": ""})
	s := declared(t, 0, [2]string{">= 1", p})
	const want = "gone 0: b5 5 #5, new.c 0: b5 4 #4, there 1: b1 0 #0"
	h := open(t, path)
	r, err := h.Status(t.Context(), Options{}, s, h.Tags[1:])
	if err != nil {
		t.Fatal(err)
	}
	if got := landed(r.Fixes[0].Runs[0].Landed); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if text := strings.Join(Landings(r.Fixes[0].Runs[0].Landed, true), "\n"); !strings.HasSuffix(text,
		"there: hunk 1: since b1") {
		t.Errorf("text: %s", text)
	}
	// A clone that lacks the commits between the tags.
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, path, "clone", "-q", "--bare", "--depth", "1", "--no-single-branch", "file://"+path, shallow)
	git(t, shallow, "fetch", "-q", "--depth", "1", "origin", "tag", "b1", "tag", "b5")
	h = open(t, shallow)
	r, err = h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	runs := r.Fixes[0].Runs
	if got := landed(runs[len(runs)-1].Landed); got != "gone 0: b5 0 #0, new.c 0: b5 0 #0, there 1: b1 0 #0" {
		t.Errorf("shallow: %s", got)
	}
}
