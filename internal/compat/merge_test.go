package compat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

func withGit(tb testing.TB, cache string) Options {
	tb.Helper()
	git := patch.FindGit(os.Getenv("PATH"))
	if git == "" {
		tb.Fatal("no git")
	}
	return Options{Cache: cache, ThreeWay: &ThreeWay{Git: git}}
}

// near is a history in which the lines beside the patch's change, and then the
// line itself. Only what stands below the context of a hunk merges.
func near(tb testing.TB) (h *history, old, now string) {
	tb.Helper()
	h = newHistory(tb)
	one, two := numbered("one", 1, 20), numbered("two", 1, 20)
	old = one + "the line\n" + two
	now = one + "our line\n" + two
	tagged := func(subject, text string) {
		h.commit(subject, map[string]string{"src/f.c": text, "other.c": subject + "\n"})
		h.tag()
	}
	tagged("begin (#1)", old)
	tagged("above (#2)", "header\n"+old)
	tagged("beside (#3)", strings.Replace(old, "one 19\n", "one nineteen\n", 1))
	tagged("the line (#4)", strings.Replace(old, "the line", "another line", 1))
	tagged("beside, again (#5)", strings.Replace(old, "two 2\n", "two and a half\n", 1))
	tagged("ours, and beside (#6)", strings.Replace(now, "one 19\n", "one nineteen\n", 1))
	return h, old, now
}

func TestThreeWay(t *testing.T) {
	hist, old, now := near(t)
	path := hist.write()
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	s := declared(t, 0, [2]string{">= 1, < 6", p})
	h := open(t, path)
	cache := t.TempDir()
	plain, err := h.Status(t.Context(), Options{Cache: cache}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	before := asJSON(t, plain)
	if strings.Contains(before, "merge") {
		t.Errorf("without the flag: %s", before)
	}
	r, err := h.Status(t.Context(), withGit(t, cache), s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	const want = "b1 exact, b2 offset, b3 merged, b4 conflict, b5 merged, b6 not covered"
	if got := runs(r.Fixes[0]); got != want {
		t.Errorf("runs:\n%s\nwant\n%s", got, want)
	}
	text := r.Text()
	for _, want := range []string{
		"merged       over b2: src/f.c\n",
		"; not merged over b2: src/f.c:21: hunk 1: both changed",
		"declared, and does not fit: b3..b5\n    of these, merges: b3, b5\n",
		"newest tag where all fits: b2\nnewest tag where all fits or merges: b5\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if broken := r.Broken(); broken == nil || len(broken.Fixes[0].Runs) != 3 {
		t.Errorf("a range with merges is as wrong as without them: %v", broken)
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`class="merged"><title>b3: merged</title>`, `<i class="merged"></i>merged</li>`,
		".merged{--c:#", "llpatch apply b3 TARGET --three-way",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// Only asked for; and without it, as if nothing had been kept.
	again, err := h.Status(t.Context(), Options{Cache: cache}, s, h.Tags)
	if err != nil || asJSON(t, again) != before {
		t.Errorf("merges change what is said without the flag: %v", err)
	}
	if page, err = again.HTML(); err != nil || strings.Contains(string(page), `<i class="merged">`) {
		t.Errorf("the legend has merges without the flag: %v", err)
	}
	var back struct {
		ThreeWay bool   `json:"three_way"`
		Newest   string `json:"newest_where_all_fits_or_merges"`
		Fixes    []struct {
			Runs []struct {
				Verdict string
				Merge   *Merge
			}
		}
	}
	if err := json.Unmarshal([]byte(asJSON(t, r)), &back); err != nil {
		t.Fatal(err)
	}
	if m := back.Fixes[0].Runs[2].Merge; !back.ThreeWay || back.Newest != "b5" || m == nil || m.Base != "b2" ||
		m.Files[0] != "src/f.c" || m.Why != "" {
		t.Errorf("JSON: %s", asJSON(t, r))
	}

	// Warm, it reads no object and runs no git.
	if err := os.Rename(filepath.Join(path, "objects"), filepath.Join(path, "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(path, "objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := withGit(t, cache)
	o.ThreeWay.Git = filepath.Join(t.TempDir(), "no git")
	warm, err := h.Status(t.Context(), o, s, h.Tags)
	if err != nil || asJSON(t, warm) != asJSON(t, r) {
		t.Errorf("warm: %v\n%s\nwant\n%s", err, asJSON(t, warm), asJSON(t, r))
	}
}

// A pinned tag is taken before a nearer one, as apply does; and one outside of
// the tags that are asked for serves, too.
func TestThreeWayBases(t *testing.T) {
	hist, old, now := near(t)
	p := diffOf(t, "The fix", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	path := hist.write()
	h := open(t, path, map[string]spec.Pin{"b1": {Build: 1}})
	base := func(s Stack, from string) string {
		t.Helper()
		tags, err := h.Range(from)
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.Status(t.Context(), withGit(t, ""), s, tags)
		if err != nil {
			t.Fatal(err)
		}
		run := r.Fixes[0].Runs[0]
		if run.Merge == nil {
			return string(run.Verdict)
		}
		return strings.TrimSpace(strings.Join([]string{string(run.Verdict), run.Merge.Base, run.Merge.Why}, " "))
	}
	if got := base(declared(t, 0, [2]string{">= 1, < 6", p}), "b3"); got != "merged b1" {
		t.Errorf("pinned: %s", got)
	}
	if got := base(declared(t, 0, [2]string{">= 2, < 6", p}), "b3"); got != "merged b2" {
		t.Errorf("the pinned tag is not of the range: %s", got)
	}
	if got := base(declared(t, 0, [2]string{">= 3, < 6", p}), "b3"); !strings.HasPrefix(got, "conflict  no base") {
		t.Errorf("no tag of the range: %s", got)
	}
	if got := base(declared(t, 0, [2]string{">= 1", p}), "b6"); got != "landed b1" {
		t.Errorf("landed: %s", got)
	}
	// Without git nothing is proven.
	o := withGit(t, "")
	o.ThreeWay.Git = ""
	r, err := h.Status(t.Context(), o, declared(t, 0, [2]string{">= 1", p}), h.Tags[2:3])
	if err != nil || r.Fixes[0].Runs[0].Verdict != Conflict || !strings.Contains(r.Text(), "there is no git to try it") {
		t.Errorf("no git: %v\n%s", err, r.Text())
	}
	// A tag at which the file is another one altogether has no merge.
	tree, err := tryGit(t, path, nil, "", "cat-file", "-p", "b6:src/f.c")
	if err != nil || !strings.Contains(tree, "our line") {
		t.Fatal(err)
	}
}

// Foreign patches say by their index lines what they were made for; those on top
// of others name blobs that no repository has.
func TestThreeWayForeign(t *testing.T) {
	hist, old, now := near(t)
	top := strings.Replace(now, "our line\n", "our line\nand one more\n", 1)
	h := open(t, hist.write())
	full := func(subject, a, b string) string {
		return diffOf(t, subject, map[string]string{"src/f.c": a}, map[string]string{"src/f.c": b})
	}
	short := func(p string) string {
		head, rest, _ := strings.Cut(p, "index ")
		return head + "index " + rest[:9] + ".." + rest[42:51] + rest[82:]
	}
	noIndex := func(p string) string {
		head, rest, _ := strings.Cut(p, "index ")
		_, rest, _ = strings.Cut(rest, "\n")
		return head + rest
	}
	one, two := full("one", old, now), full("two", now, top)
	for name, c := range map[string]struct {
		files map[string]string
		bases string // of b3
		runs  string
	}{
		"full ids": {
			map[string]string{"1.patch": one, "2.patch": two},
			"its index lines, its index lines",
			"b1 exact, b2 offset, b3 merged, b4 conflict, b5 merged, b6 landed; b1 exact, b2 offset, b3 merged, b4 conflict, " +
				"b5..b6 merged",
		},
		"abbreviated": {map[string]string{"1.patch": short(one), "2.patch": short(two)}, "its index lines, its " +
			"index lines", "b1 exact, b2 offset, b3 merged, b4 conflict, b5 merged, b6 landed; b1 exact, b2 offset, b3 " +
			"merged, b4 conflict, b5..b6 merged"},
		"no index lines": {
			map[string]string{"1.patch": noIndex(one), "2.patch": noIndex(two)},
			"b2, b2",
			"b1 exact, b2 offset, b3 merged, b4 conflict, b5 merged, b6 landed; b1 exact, b2 offset, b3 merged, b4 conflict, " +
				"b5..b6 merged",
		},
		"not here": {map[string]string{"2.patch": two}, "", "b1..b5 conflict, b6 conflict"},
	} {
		dir := writeFiles(t, c.files)
		s, err := Folder(dir)
		if err != nil {
			t.Fatal(err)
		}
		cache := t.TempDir()
		r, err := h.Status(t.Context(), withGit(t, cache), s, h.Tags)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got, bases []string
		for _, f := range r.Fixes {
			got = append(got, runs(f))
			for _, run := range f.Runs {
				if run.From == "b3" && run.Merge != nil {
					bases = append(bases, run.Merge.Base)
				}
			}
		}
		if strings.Join(got, "; ") != c.runs && name != "not here" || strings.Join(bases, ", ") != c.bases {
			t.Errorf("%s: over %q: %s", name, bases, strings.Join(got, "; "))
		}
		// What a merge made is the ground of the next patch, also from the cache.
		warm, err := h.Status(t.Context(), withGit(t, cache), s, h.Tags)
		if err != nil || asJSON(t, warm) != asJSON(t, r) {
			t.Errorf("%s, warm: %v\n%s", name, err, asJSON(t, warm))
		}
	}
}

// A repository that lacks blobs has other bases, or none, and says so.
func TestThreeWayLacksBlobs(t *testing.T) {
	hist, old, now := near(t)
	path := hist.write()
	packs, err := filepath.Glob(filepath.Join(path, "objects", "pack", "*.pack"))
	if err != nil || len(packs) > 0 {
		for _, p := range packs {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, ext := range []string{".pack", ".idx"} {
				if err := os.Remove(strings.TrimSuffix(p, ".pack") + ext); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tryGit(t, path, nil, string(data), "unpack-objects", "-q"); err != nil {
				t.Fatal(err)
			}
		}
	}
	lose := func(tag string) {
		id := strings.TrimSpace(git(t, path, "rev-parse", tag+":src/f.c"))
		if err := os.Remove(filepath.Join(path, "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
	}
	p := diffOf(t, "one", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": now})
	s, err := Folder(writeFiles(t, map[string]string{"1.patch": p}))
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	status := func(want, base string) {
		t.Helper()
		h := open(t, path)
		r, err := h.Status(t.Context(), withGit(t, cache), s, h.Tags)
		if err != nil {
			t.Fatal(err)
		}
		if got := runs(r.Fixes[0]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := r.Text(); !strings.Contains(got, base) {
			t.Errorf("no %q in\n%s", base, got)
		}
	}
	lose("b1")
	status("b1 unknown, b2 offset, b3 merged, b4 conflict, b5 merged, b6 landed", "merged over b2")
	lose("b2")
	cache = t.TempDir()
	status("b1..b2 unknown, b3..b6 conflict", "no base: the files that its index lines name are not here")
	// What was lacking is not kept as an answer.
	for _, text := range []string{old, "header\n" + old} {
		if _, err := tryGit(t, path, nil, text, "hash-object", "-w", "--stdin"); err != nil {
			t.Fatal(err)
		}
	}
	status("b1 exact, b2 offset, b3 merged, b4 conflict, b5 merged, b6 landed", "merged over its index lines")
}

// A merged stack is what git makes of the same three ways, file by file, on
// random histories; and what was dropped from memory is merged again.
func TestThreeWayAgreesWithGit(t *testing.T) {
	merged, all := 0, 0
	for seed := range uint64(4) {
		repo, dir := randomStack(t, 100+seed, 16, 12)
		s, err := Folder(dir)
		if err != nil {
			t.Fatal(err)
		}
		h := open(t, repo)
		o := withGit(t, "")
		for i := range s.Fixes {
			// Alone: git am knows no patch that does not fit.
			one := s
			one.Fixes = s.Fixes[i : i+1]
			j := newJudge(h, o, one)
			j.merging = newMerging(o.ThreeWay)
			cells, err := j.run(t.Context(), h.Tags)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, one.Fixes[0].Variants[0].File)
			for k, tag := range h.Tags {
				c := &cells[0][k]
				all++
				if c.verdict != Merged {
					continue
				}
				merged++
				env := []string{"GIT_INDEX_FILE=" + filepath.Join(t.TempDir(), "index")}
				if _, err := tryGit(t, repo, env, "", "read-tree", "refs/tags/"+tag.Name); err != nil {
					t.Fatal(err)
				}
				if out, err := tryGit(t, repo, env, "", "apply", "--cached", "--3way", file); err != nil {
					t.Errorf("%s on %s: we merge over %s, and git does not: %s %v", one.Fixes[0].ID, tag.Name, c.base, out, err)
					continue
				}
				for n, p := range j.all[0].paths {
					got, err := tryGit(t, repo, env, "", "ls-files", "-s", "--", p)
					if err != nil {
						t.Fatal(err)
					}
					is := ""
					if f := strings.Fields(got); len(f) > 1 {
						is = f[1]
					}
					want := c.outcome().After[n]
					if want.there() != (is != "") || want.there() && is != want.ID.String() {
						t.Errorf("%s on %s: %s is %q, and git has %q", one.Fixes[0].ID, tag.Name, p, want.ID, is)
					}
				}
			}
			objects, err := h.repo.Objects()
			if err != nil {
				t.Fatal(err)
			}
			for id, rec := range j.files.from {
				fresh := newSharedContents()
				fresh.from = j.files.from
				if data, err := (&contents{fresh, objects}).get(id); err != nil || blobID(data) != id {
					t.Errorf("%s (merged %v): %v", id, rec.base != nil, err)
				}
			}
			if err := objects.Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d of %d cells merged", merged, all)
	if merged < 20 {
		t.Errorf("only %d of %d cells merged: that proves little", merged, all)
	}
}
