package compat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// commits adds untagged commits that change another file.
func (h *history) commits(n int) {
	for range n {
		h.commit(fmt.Sprintf("unrelated (#%d)", 9000+h.n), map[string]string{"other.c": fmt.Sprintf("%d\n", h.n)})
	}
}

func TestBlame(t *testing.T) {
	one, two := numbered("one", 1, 20), numbered("two", 1, 20)
	old := one + "the line\n" + two
	hist := newHistory(t)
	hist.commit("begin", map[string]string{"src/f.c": old, "other.c": "x\n"})
	hist.tag()
	hist.commits(13)
	broke := hist.commit("backend : say it differently (#1234)",
		map[string]string{"src/f.c": one + "another line\n" + two})
	hist.commits(9)
	hist.tag()
	hist.commit("revert", map[string]string{"src/f.c": old})
	hist.tag()
	hist.commits(3)
	landed := hist.commit("take it", map[string]string{"src/f.c": one + "our line\n" + two})
	hist.tag()
	hist.commit("revert again (#77) by hand", map[string]string{"src/f.c": old})
	hist.tag()
	moved := hist.commit("move (#4321)", map[string]string{"src/f.c": "", "lib/deep/f.c": old})
	hist.commits(2)
	hist.tag()
	dir := hist.write()
	h := open(t, dir)
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": one + "our line\n" + two})
	s := declared(t, 0, [2]string{">= 1", p})
	b, err := h.Blame(t.Context(), Options{Cache: t.TempDir()}, s, "fix", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Breaks) != 3 {
		t.Fatalf("%d breaks:\n%s", len(b.Breaks), b.Text())
	}
	ids := strings.Fields(git(t, dir, "rev-list", "--reverse", "master"))
	for i, want := range []struct {
		build, pull int
		good, bad   string
		verdict     Verdict
	}{
		{broke, 1234, "b1", "b24", Conflict},
		{landed, 0, "b25", "b29", Landed},
		{moved, 4321, "b30", "b33", MissingFile},
	} {
		k := b.Breaks[i]
		if k.Build != want.build || k.Commit != ids[want.build-1] || k.Pull != want.pull || k.Good.Name != want.good ||
			k.Bad.Name != want.bad || k.Verdict != want.verdict {
			t.Errorf("break %d: %+v, want %+v", i, k, want)
		}
	}
	if want := time.Unix(1700000000+60*int64(broke), 0).UTC(); !b.Breaks[0].Time.Equal(want) {
		t.Errorf("time %v, want %v", b.Breaks[0].Time, want)
	}
	if got := strings.Join(b.Breaks[0].Diff, "\n"); !strings.Contains(got, "\n-the line\n+another line\n") ||
		strings.Contains(got, "one 10") {
		t.Errorf("diff:\n%s", got)
	}
	if n := len(b.Breaks[1].Conflicts); n != 0 {
		t.Errorf("what landed has %d conflicts", n)
	}
	if got := b.Breaks[2].Moved; got != "src/f.c is now lib/deep/f.c, unchanged" {
		t.Errorf("moved: %s", got)
	}
	text := b.Text()
	for _, want := range []string{
		"fix (v1.patch) fits b1, and not b24: conflict", "commit  " + ids[broke-1] + " (build 15, 2023-11-14)",
		"pull    #1234",
		"-the line", "+another line", "declared for >= 1", "upstream has 1 of its 1 changes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}

	b, err = h.Blame(t.Context(), Options{}, s, "fix", "b24")
	if err != nil || len(b.Breaks) != 1 || b.Breaks[0].Build != landed {
		t.Errorf("from b24: %+v, %v", b, err)
	}
	if _, err := h.Blame(t.Context(), Options{}, s, "none", ""); !errors.As(err, new(*spec.Unknown)) ||
		!strings.Contains(err.Error(), "there are: fix") {
		t.Errorf("unknown fix: %v", err)
	}
	if _, err := h.Blame(t.Context(), Options{}, s, "fix", "b999"); err == nil {
		t.Error("a tag behind the last is taken")
	}
}

// Breaks of a variant before its own range do not matter to anybody.
func TestBlameVariants(t *testing.T) {
	hist, old, now := drift(t)
	h := open(t, hist.write())
	p := diffOf(t, "x", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	q := diffOf(t, "x", map[string]string{"src/f.c": old},
		map[string]string{"src/f.c": strings.ReplaceAll(now, "new", "newer")})
	s := declared(t, 0, [2]string{">= 2, < 5", p}, [2]string{">= 6, < 7", q})
	b, err := h.Blame(t.Context(), Options{}, s, "fix", "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range b.Breaks {
		got = append(got, fmt.Sprintf("%s %s %d %s", k.Patch, k.Subject, k.Pull, k.Verdict))
	}
	want := []string{
		"v1.patch changes the line (#7) 7 conflict",
		"v2.patch changes the line (#7) 7 conflict",
	}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPull(t *testing.T) {
	for subject, want := range map[string]int{
		"CUDA: use LRU (#21611)": 21611, "x (#1) y": 0, "x (#1) (#22)": 22, "x #1": 0, "x (#12) ": 12, "(#99999999999)": 0,
		"": 0,
	} {
		if got := pull(subject); got != want {
			t.Errorf("pull(%q) = %d, want %d", subject, got, want)
		}
	}
}

func TestNearby(t *testing.T) {
	unified := []byte("diff f f\n--- f\n+++ f\n@@ -1,3 +1,4 @@\n a\n+x\n b\n c\n@@ -40,2 +41,1 @@\n-d\n e\n@@ -90 " +
		"+90,2 @@\n f\n+g\n")
	for line, want := range map[int]string{
		1: "@@ -1,3 +1,4 @@", 39: "@@ -40,2 +41,1 @@", 60: "@@ -40,2 +41,1 @@",
		500: "@@ -90 +90,2 @@",
	} {
		if got := nearby(unified, line, 2); len(got) == 0 || got[0] != want {
			t.Errorf("line %d: %q, want %s", line, got, want)
		}
	}
	if got := nearby(nil, 1, 2); got != nil {
		t.Errorf("of no diff: %q", got)
	}
}
