package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/spec"
)

// drift is a history in which a patch of src/f.c meets everything that can
// happen to it, in builds 1 to 9.
func drift(tb testing.TB) (h *history, old, now string) {
	tb.Helper()
	h = newHistory(tb)
	one, two := numbered("one", 1, 20), numbered("two", 1, 20)
	old = one + "old first\n" + two + "old second\n" + numbered("three", 1, 10)
	now = one + "new first\n" + two + "new second\n" + numbered("three", 1, 10)
	tagged := func(subject string, files map[string]string) {
		h.commit(subject, files)
		h.tag()
	}
	tagged("begin (#1)", map[string]string{"other.c": "x\n"})
	tagged("add f (#2)", map[string]string{"src/f.c": old})
	tagged("a header (#3)", map[string]string{"src/f.c": "header\n" + old})
	tagged("unrelated (#4)", map[string]string{"other.c": "y\n"})
	tagged("upstream takes a part (#5)", map[string]string{"src/f.c": "header\n" +
		strings.Replace(old, "old first", "new first", 1)})
	tagged("and back (#6)", map[string]string{"src/f.c": "header\n" + old})
	tagged("changes the line (#7)", map[string]string{"src/f.c": strings.Replace(old, "old second", "other second", 1)})
	tagged("upstream takes all (#8)", map[string]string{"src/f.c": now})
	tagged("moves the file (#9)", map[string]string{"src/f.c": "", "lib/f.c": now})
	return h, old, now
}

func TestStatus(t *testing.T) {
	hist, old, now := drift(t)
	h := open(t, hist.write())
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	s := declared(t, 0, [2]string{">= 1, < 10", p})
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	want := "b1 missing file, b2 exact, b3..b4 offset, b5 partly landed, b6 offset, b7 conflict, b8 landed, b9 " +
		"missing file"
	if got := runs(r.Fixes[0]); got != want {
		t.Errorf("runs:\n%s\nwant\n%s", got, want)
	}
	if r.Newest != "b8" {
		t.Errorf("newest = %q, want b8", r.Newest)
	}
	const text = `llama.cpp: 1 fix on 9 tags of PATH, b1..b9

fix: A fix
  b1      1 tag   missing file   src/f.c: missing file (wants a file that comes with b2)
  b2      1 tag   exact
  b3..b4  2 tags  offset         up to 1 line off
  b5      1 tag   partly landed  upstream has 1 of its 2 changes
  b6      1 tag   offset         up to 1 line off
  b7      1 tag   conflict       src/f.c:39: hunk 2: no place
  b8      1 tag   landed         upstream has it
  b9      1 tag   missing file   src/f.c: missing file (wants a file that is now lib/f.c, unchanged)
  v1.patch declared >= 1, < 10, fits b2..b6
    declared, and does not fit: b1, b7, b9

newest tag where all fits: b8
`
	got := strings.ReplaceAll(r.Text(), h.Path, "PATH")
	if diff := cmp.Diff(text, got); diff != "" {
		t.Error(diff)
	}
	broken := r.Broken()
	if broken == nil {
		t.Fatal("a declared range with conflicts is not broken")
	}
	if len(broken.Fixes) != 1 || len(broken.Fixes[0].Runs) != 3 {
		t.Errorf("broken = %v", broken)
	}
	for _, want := range []string{"fix (v1.patch) on b7: src/f.c:39: hunk 2: no place", "on b9: src/f.c: missing file"} {
		if !strings.Contains(broken.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, broken)
		}
	}
}

func TestDeclaredRanges(t *testing.T) {
	hist, old, now := drift(t)
	h := open(t, hist.write())
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	q := diffOf(t, "The fix", map[string]string{"lib/f.c": now}, map[string]string{"lib/f.c": now + "more\n"})
	s := declared(t, 9, [2]string{">= 2, < 4", p}, [2]string{">= 6, < 7", p}, [2]string{">= 7, < 9", q})
	s.Fixes[0].Defect.Since, s.Fixes[0].Defect.Commit, s.Fixes[0].Defect.Why = 2, strings.Repeat("c", 40),
		"it brings the fault"
	s.Fixes[0].Defect.FixedBy = strings.Repeat("d", 40)
	s.Fixes[0].Defect.Partly = []spec.Cure{{Build: 3, Commit: strings.Repeat("e", 40), What: "half of it is gone"}}
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := runs(r.Fixes[0]), "b1 not there yet, b2 exact, b3 offset, b4..b5 not covered, b6 offset, b7..b8 "+
		"missing file, b9 cured by upstream"; got != want {
		t.Errorf("runs:\n%s\nwant\n%s", got, want)
	}
	var reasons []string
	for _, run := range r.Fixes[0].Runs {
		if run.Reason != "" {
			reasons = append(reasons, run.Reason)
		}
	}
	if diff := cmp.Diff([]string{
		"the defect came with build 2 (commit cccccccccccc)", "no variant is declared for it",
		"upstream cured the defect in build 9 (commit dddddddddddd)",
	}, reasons); diff != "" {
		t.Error(diff)
	}
	want := []Proof{
		{Patch: "v1.patch", Declared: ">= 2, < 4", Fits: []Span{{"b2", "b6", 5}}, Beyond: []Span{{"b4", "b6", 3}}},
		{Patch: "v2.patch", Declared: ">= 6, < 7", Fits: []Span{{"b2", "b6", 5}}, Beyond: []Span{{"b2", "b5", 4}}},
		{
			Patch: "v3.patch", Declared: ">= 7, < 9", Fits: []Span{{"b9", "b9", 1}}, Fails: []Span{{"b7", "b8", 2}},
			Beyond: []Span{{"b9", "b9", 1}},
		},
	}
	if diff := cmp.Diff(want, r.Fixes[0].Variants); diff != "" {
		t.Error(diff)
	}
	if r.Newest != "b9" || r.Broken() == nil {
		t.Errorf("newest %q, broken %v", r.Newest, r.Broken())
	}
	const text = `  the defect came with build 2 (commit cccccccccccc): it brings the fault
  a part was cured in build 3 (commit eeeeeeeeeeee): half of it is gone
`
	if !strings.Contains(r.Text(), text) {
		t.Errorf("the text lacks\n%s:\n%s", text, r.Text())
	}
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`class="not-there-yet"><title>b1: not there yet`, `class="not-covered"><title>b4..b5: not covered`,
		`class="cured-by-upstream"><title>b9: cured by upstream`,
		`<i class="not-covered"></i>not covered`, `a part was cured in build 3 (commit eeeeeeeeeeee): half of it is gone`,
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(string(html), "</i>not for this target") {
		t.Error("the page's legend names a case that only a target has")
	}
}

// Every verdict has its colour in the page.
func TestColours(t *testing.T) {
	r := Report{Tags: []Tag{{Name: "b1"}}, Fixes: []Status{{Runs: []Run{{From: "b1", To: "b1", Tags: 1, Verdict: Exact}}}}}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if !strings.Contains(string(page), "."+class(v)+"{--c:#") {
			t.Errorf("%s has no colour", v)
		}
	}
}

// A target leaves fixes out whatever the tag is.
func TestStatusOfTarget(t *testing.T) {
	hist, old, now := drift(t)
	h := open(t, hist.write())
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	s := declared(t, 0, [2]string{">= 2, < 4", p})
	repo := &spec.Repo{Fixes: []spec.Fix{{
		ID: "fix", Upstream: spec.LlamaCpp, OS: []string{"win7"},
		Variants: []spec.Variant{{Upstream: spec.LlamaCpp}},
	}}}
	rec := spec.Recipe{Name: "t", Upstream: spec.LlamaCpp, OS: "linux", Fixes: spec.FixList{All: true}}
	r, err := h.Status(t.Context(), Options{}, s.For(repo, rec), h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	if got := runs(r.Fixes[0]); got != "b1..b9 not for this target" || r.Newest != "b9" ||
		r.Fixes[0].Runs[0].Reason != "it is for win7, and the target for linux" {
		t.Errorf("runs %s, newest %s, because %q", got, r.Newest, r.Fixes[0].Runs[0].Reason)
	}
	rec.OS = "win7"
	if r, err = h.Status(t.Context(), Options{}, s.For(repo, rec), h.Tags); err != nil ||
		strings.Contains(runs(r.Fixes[0]), "target") {
		t.Errorf("runs %s, %v", runs(r.Fixes[0]), err)
	}
}

// Verdicts of a stack depend on what the earlier patches did.
func TestStackChains(t *testing.T) {
	base := numbered("line", 1, 30)
	first := strings.Replace(base, "line 10\n", "line 10\nadded by the first\n", 1)
	second := strings.Replace(first, "added by the first", "changed by the second", 1)
	hist := newHistory(t)
	hist.commit("one", map[string]string{"f.c": base})
	hist.tag()
	hist.commit("two", map[string]string{"f.c": strings.Replace(base, "line 10\n", "line ten\n", 1)})
	hist.tag()
	dir := writeFiles(t, map[string]string{
		"first.patch":  diffOf(t, "first", map[string]string{"f.c": base}, map[string]string{"f.c": first}),
		"second.patch": diffOf(t, "second", map[string]string{"f.c": first}, map[string]string{"f.c": second}),
		"series":       "# the order\nfirst.patch\nsecond.patch -p1 # on top\n",
	})
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, hist.write())
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	if got := runs(r.Fixes[0]) + "; " + runs(r.Fixes[1]); got != "b1 exact, b2 conflict; b1 exact, b2 conflict" {
		t.Errorf("runs: %s", got)
	}
	if last := r.Fixes[1].Runs[1]; last.After != "first" || !strings.Contains(last.why(), "mend first first") {
		t.Errorf("the second patch does not name the first: %+v", last)
	}
	if r.Broken() != nil {
		t.Error("a foreign stack declares nothing, and is said to be broken")
	}
}

// What is for one system alone is judged without what is for another; what is for any counts as
// broken where it fits one of them only.
func TestStackSystems(t *testing.T) {
	base := numbered("line", 1, 30)
	with := func(s string) string { return strings.Replace(base, "line 10\n", s, 1) }
	both := func(s string) string { return strings.Replace(with("line X\n"), "line X\n", s, 1) }
	hist := newHistory(t)
	hist.commit("one", map[string]string{"f.c": base})
	hist.tag()
	dir := writeFiles(t, map[string]string{
		"ten.patch": diffOf(t, "ten", map[string]string{"f.c": base}, map[string]string{"f.c": with("line ten\n")}),
		"x.patch":   diffOf(t, "x", map[string]string{"f.c": base}, map[string]string{"f.c": with("line X\n")}),
		"on-x.patch": diffOf(t, "on x", map[string]string{"f.c": with("line X\n")},
			map[string]string{"f.c": both("line XI\n")}),
		"other.patch": diffOf(t, "other", map[string]string{"f.c": base},
			map[string]string{"f.c": strings.Replace(base, "line 25\n", "line\n", 1)}),
		"series": "ten.patch\nx.patch\non-x.patch\nother.patch\n",
	})
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, hist.write())
	for _, c := range []struct {
		systems [3][]string
		want    string
	}{
		{[3][]string{}, "b1 exact b1 conflict b1 conflict b1 exact"},
		{[3][]string{{"win7"}, {"linux"}, {"linux"}}, "b1 exact b1 exact b1 exact b1 exact"},
		{[3][]string{{"win7"}, {"linux"}, nil}, "b1 exact b1 exact b1 conflict b1 exact"},
	} {
		for i, systems := range c.systems {
			s.Fixes[i].OS = systems
		}
		r, err := h.Status(t.Context(), Options{}, s, h.Tags)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range r.Fixes {
			got = append(got, runs(f))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %s, want %s", c.systems, got, c.want)
		}
	}
}

func TestReportJSONAndHTML(t *testing.T) {
	hist, old, now := drift(t)
	h := open(t, hist.write())
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	s := declared(t, 0, [2]string{">= 1, < 10", p})
	s.Fixes[0].Summary = `</script><script>alert("x")</script>`
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Newest string `json:"newest_where_all_fits"`
		Fixes  []struct {
			Runs []struct {
				From, To, Verdict string
				Findings          []struct {
					File, Cause string
					Line, Hunk  int
				}
			}
		}
	}
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	run := back.Fixes[0].Runs[5]
	if back.Newest != "b8" || run.From != "b7" || run.Verdict != "conflict" || run.Findings[0].File != "src/f.c" ||
		run.Findings[0].Line != 39 || run.Findings[0].Hunk != 2 {
		t.Errorf("JSON: %s", data)
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<rect x="6" width="1" height="1" class="conflict"><title>b7: conflict</title>`,
		"other second", "b8",
	} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"http://", "https://", `alert("x")</script>`, "ZgotmplZ"} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// A random matrix must give git's answers in every cell.
func TestAgreesWithGit(t *testing.T) {
	cells, ambiguous, fits := 0, 0, 0
	for seed := range uint64(3) {
		repo, dir := randomStack(t, seed, 18, 12)
		s, err := Folder(dir)
		if err != nil {
			t.Fatal(err)
		}
		h := open(t, repo)
		n, a := agree(t, h, s, dir, h.Tags)
		cells, ambiguous = cells+n, ambiguous+a
		r, err := h.Status(t.Context(), Options{}, s, h.Tags)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range r.Fixes {
			for _, v := range st.verdicts {
				if v.Fits() {
					fits++
				}
			}
		}
	}
	t.Logf("%d cells, %d fit, %d ambiguous", cells, fits, ambiguous)
	if cells < 500 || fits < cells/10 || fits > cells*9/10 || ambiguous > cells/10 {
		t.Errorf("%d cells, %d fit, %d ambiguous: the matrix proves little", cells, fits, ambiguous)
	}
}

// What is only ambiguous is told apart: the patches behind it are judged on what
// git apply makes, and the newest tag of a stack may be one but for that.
func TestAmbiguous(t *testing.T) {
	function := func(name, line string) string {
		return "int " + name + "(void) {\n" + numbered("same", 1, 6) + line + numbered("more", 1, 6) + "}\n\n"
	}
	end := numbered("end", 1, 9)
	old := function("f", "old\n") + end
	mine, more := function("f", "mine\n")+strings.Replace(end, "end 4", "END", 1), function("f", "mine, and more\n")+
		strings.Replace(end, "end 4", "END", 1)
	hist := newHistory(t)
	for i, text := range []string{old, "// top\n" + function("e", "old\n") + old, "// top\n" + function("e", "mine\n") +
		old, ""} {
		hist.commit(fmt.Sprint("commit ", i), map[string]string{"src/f.c": text, "x": fmt.Sprint(i)})
		hist.tag()
	}
	dir := writeFiles(t, map[string]string{
		"1.patch": diffOf(t, "one", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": mine}),
		"2.patch": diffOf(t, "two", map[string]string{"src/f.c": mine}, map[string]string{"src/f.c": more}),
	})
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, hist.write())
	cache := t.TempDir()
	for _, how := range []string{"cold", "warm"} {
		r, err := h.Status(t.Context(), Options{Cache: cache}, s, h.Tags)
		if err != nil {
			t.Fatal(err)
		}
		if one, two := runs(r.Fixes[0]), runs(r.Fixes[1]); one != "b1 exact, b2 ambiguous, b3 offset, b4 missing file" ||
			two != "b1 exact, b2 offset, b3 ambiguous, b4 missing file" {
			t.Errorf("%s: %s; %s", how, one, two)
		}
		if r.Newest != "b1" || r.NewestBut != "b3" {
			t.Errorf("%s: newest %q, but for ambiguity %q", how, r.Newest, r.NewestBut)
		}
		if is := asJSON(t, r); !strings.Contains(is, `"proposal"`) {
			t.Errorf("%s: %s", how, is)
		}
		if r, err = h.Status(t.Context(), Options{Cache: cache}, s, h.Tags[:2]); err != nil || r.Newest != "b1" ||
			r.NewestBut != "b2" {
			t.Errorf("%s: newest %q, but for ambiguity %q, %v", how, r.Newest, r.NewestBut, err)
		}
		text := r.Text()
		for _, want := range []string{
			"src/f.c:6: hunk 1: ambiguous among 2 places; git apply takes line 6, ",
			"; against it: the hunks of the file that have one place moved by +17, as at line 22",
			"newest tag where all fits: b1\nnewest tag where all fits but for ambiguity: b2\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the text lacks %q:\n%s", how, want, text)
			}
		}
	}
	if n, a := agree(t, h, s, dir, h.Tags); n != 8 || a != 2 {
		t.Errorf("%d cells compared with git, %d ambiguous", n, a)
	}
}

// A conflict is about what upstream changed, not about what it took.
func TestHeldFindingsComeLast(t *testing.T) {
	_, old, now := drift(t)
	hist := newHistory(t)
	hist.commit("takes one, changes the other", map[string]string{
		"src/f.c": strings.Replace(strings.Replace(old, "old first", "new first", 1), "old second", "other second", 1),
	})
	hist.tag()
	h := open(t, hist.write())
	p := diffOf(t, "x", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	r, err := h.Status(t.Context(), Options{}, declared(t, 0, [2]string{">= 1", p}), h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	run := r.Fixes[0].Runs[0]
	if len(run.Findings) != 2 || run.Findings[0].Hunk != 2 || run.Findings[0].Held || !run.Findings[1].Held {
		t.Errorf("findings: %+v", run.Findings)
	}
	if got := run.why(); got != "src/f.c:39: hunk 2: no place; upstream has 1 of its 2 changes" {
		t.Errorf("why: %s", got)
	}
	if got := r.Text(); !strings.Contains(got, "newest tag where all fits: none; the most fit b1: 0 of 1\n") {
		t.Errorf("text:\n%s", got)
	}
}
