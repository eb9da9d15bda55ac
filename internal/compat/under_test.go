package compat

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// stacked is a history in which upstream takes a fix A, then a fix B that changes
// the lines of A, and then goes on; and one that stays ours between them.
func stacked(tb testing.TB) (dir, patches string) {
	tb.Helper()
	text := func(a, b, mine string) string {
		return numbered("one", 1, 12) + a + numbered("two", 1, 12) + mine + numbered("three", 1, 12) + b +
			numbered("four", 1, 12)
	}
	const a0, a1, a2 = "old();\n", "first();\nsecond();\n", "first();\nthird();\nsecond();\n"
	old, m0, m1 := "b\n", "mine\n", "MINE\n"
	h := newHistory(tb)
	tagged := func(subject, f string) {
		h.commit(subject, map[string]string{"f.c": f})
		h.tag()
	}
	tagged("begin (#1)", text(a0, old, m0))                               // b1
	tagged("takes A (#2)", text(a1, old, m0))                             // b2
	tagged("drifts (#3)", "top\n"+text(a1, old, m0))                      // b3
	tagged("takes B (#4)", "top\n"+text(a2, "B\n", m0))                   // b4
	tagged("drifts again (#5)", "top\ntop\n"+text(a2, "B\n", m0))         // b5
	tagged("goes on (#6)", text("first();\nfourth();\n", "B\n", m0))      // b6
	tagged("gives B back (#7)", text(a1, old, m0))                        // b7
	tagged("takes both at once (#8)", text(a0, old, m0)+"end\n")          // b8
	tagged("and here they are (#9)", "top\n"+text(a2, "B\n", m0)+"end\n") // b9
	diff := func(was, is string) string {
		return diffOf(tb, "x", map[string]string{"f.c": was}, map[string]string{"f.c": is})
	}
	return h.write(), writeFiles(tb, map[string]string{
		"1a.patch":    diff(text(a0, old, m0), text(a1, old, m0)),
		"2mine.patch": diff(text(a1, old, m0), text(a1, old, m1)),
		"3b.patch":    diff(text(a1, old, m1), text(a2, "B\n", m1)),
	})
}

func TestHiddenUnderAnother(t *testing.T) {
	repo, dir := stacked(t)
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, repo)
	cache := t.TempDir()
	want := []string{
		"b1 exact, b2 landed, b3..b5 landed, b6 conflict, b7 landed, b8 exact, b9 landed",
		"b1..b2 exact, b3..b5 offset, b6..b8 exact, b9 offset",
		"b1..b2 exact, b3 offset, b4..b5 landed, b6 conflict, b7..b8 exact, b9 landed",
	}
	want[0] = strings.Replace(want[0], "b2 landed, b3..b5 landed", "b2..b5 landed", 1)
	want[1] = "b1..b2 exact, b3..b5 offset, b6..b8 exact, b9 offset"
	for _, how := range []string{"cold", "warm"} {
		r, err := h.Status(t.Context(), Options{Cache: cache}, s, h.Tags)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range r.Fixes {
			if got := runs(f); got != want[i] {
				t.Errorf("%s: %s:\n%s\nwant\n%s", how, f.Fix, got, want[i])
			}
		}
		// A came with b2, and stayed; B is why it is not to be seen.
		a := r.Fixes[0]
		if got := landed(a.Runs[1].Landed); got != "f.c 1: b2 2 #2" {
			t.Errorf("%s: A landed %s", how, got)
		}
		if got := landed(a.Runs[len(a.Runs)-1].Landed); got != "f.c 1: b9 9 #9" {
			t.Errorf("%s: A landed again %s", how, got)
		}
	}
	// Merging does not put A on top of itself.
	r, err := h.Status(t.Context(), withGit(t, cache), s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range r.Fixes {
		if got := runs(f); got != want[i] {
			t.Errorf("merging: %s:\n%s\nwant\n%s", f.Fix, got, want[i])
		}
	}
	// The commit that took both is what ends A, and it landed with it.
	b, err := h.Blame(t.Context(), Options{}, s, "1a", "b8")
	if err != nil || len(b.Breaks) != 1 || b.Breaks[0].Verdict != Landed || b.Breaks[0].Build != 9 {
		t.Errorf("blame: %+v, %v", b, err)
	}
}

// Every tag of the matrix says of each fix what applying the whole series to the
// whole tree says.
func TestStatusIsWhatApplyDoes(t *testing.T) {
	repo, dir := stacked(t)
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	var series []patch.Patch
	for _, f := range s.Fixes {
		series = append(series, f.Variants[0].Patches...)
	}
	h := open(t, repo)
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	for k, tag := range h.Tags {
		text := git(t, repo, "show", tag.Name+":f.c")
		tree, err := source.New(map[string]source.File{"f.c": {Mode: source.Regular, Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := patch.Apply(tree, series)
		var got []string
		if err != nil {
			conflicts, ok := patch.Conflicts(err)
			if !ok {
				t.Fatal(err)
			}
			for _, c := range conflicts {
				got = append(got, c.Fix+" conflict")
			}
		} else {
			for _, p := range res.Placements {
				got = append(got, p.Fix+" "+string(p.Kind))
			}
		}
		var want []string
		for _, f := range r.Fixes {
			v := f.verdicts[k]
			if err != nil && !v.broken() {
				continue // Apply tells of conflicts only
			}
			want = append(want, f.Fix+" "+string(v))
		}
		// B has two hunks.
		if a, b := unique(got), unique(want); a != b {
			t.Errorf("%s: apply says %s, status %s", tag.Name, a, b)
		}
	}
}

func unique(words []string) string {
	var out []string
	for i, w := range words {
		if i == 0 || w != words[i-1] {
			out = append(out, w)
		}
	}
	return strings.Join(out, ", ")
}
