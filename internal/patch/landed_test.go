package patch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/source"
)

func isLanded(p Placement) bool { return p.Kind == Landed }

// numbered returns lines that all differ.
func countedLines(word string, n int) (s string) {
	for i := range n {
		s += fmt.Sprintf("%s %d\n", word, i)
	}
	return s
}

func TestLandedHunks(t *testing.T) {
	lines := func(s string) []string { return slices.Collect(strings.Lines(s)) }
	text := func(x, y, z string) string {
		return countedLines("a", 9) + x + countedLines("b", 9) + y + countedLines("c", 9) + z + countedLines("d", 9)
	}
	old, now := text("x\n", "y\n", ""), text("X\nX2\n", "", "z\n")
	diff := unified("f", lines(old), lines(now), 3)
	copies := strings.Repeat("x\ny\nz\n", 3)
	for name, tt := range map[string]struct {
		diff, tree, want string // want "": a conflict
		kinds            string
	}{
		"all":                 {diff, now, now, "landed 7, landed 18, landed 27"},
		"all, lines off":      {diff, "top\n" + now, "top\n" + now, "landed 8, landed 19, landed 28"},
		"the first":           {diff, text("X\nX2\n", "y\n", ""), now, "landed 7, offset 18, offset 28"},
		"the insertion":       {diff, text("x\n", "y\n", "z\n"), now, "exact 7, exact 17, landed 27"},
		"the deletion":        {diff, text("x\n", "", ""), now, "exact 7, landed 17, offset 26"},
		"half of a hunk":      {diff, text("X\n", "y\n", ""), "", ""},
		"insertion elsewhere": {diff, text("x\n", "y\n", "") + "z\n", now + "z\n", "exact 7, exact 17, exact 27"},
		"without its context": {diff, "z\n", "", ""},
		"two such places":     {"--- a/f\n+++ b/f\n@@ -9,3 +9,3 @@\n x\n-old\n+y\n z\n", copies, "", ""},
		"before a placed one": {diff, text("x\n", "q\n", "") + now, "", ""},
		"no context":          {"--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+b\n", "a\nb\nc\n", "", ""},
		"no context, the blob": {"diff --git a/f b/f\nindex 1234567.." + blobID([]byte("a\nb\nc\n")) +
			" 100644\n--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+b\n", "a\nb\nc\n", "a\nb\nc\n", "landed 2"},
		"the whole file":  {edited("f", "a", "b"), "b\n", "b\n", "landed 1"},
		"at the end only": {"--- a/f\n+++ b/f\n@@ -3 +3,2 @@\n c\n+d\n", "a\nb\nc\nd\n", "a\nb\nc\nd\n", "landed 3"},
		"not at the end":  {"--- a/f\n+++ b/f\n@@ -3 +3,2 @@\n c\n+d\n", "a\nb\nc\nd\ne\n", "", ""},
		"both stand, preimage": {
			"--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n x\n-y\n+z\n w\n", "0\nx\ny\nw\nx\nz\nw\n",
			"0\nx\nz\nw\nx\nz\nw\n", "exact 2",
		},
		"both stand, postimage": {"--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n x\n-y\n+z\n w\n", "0\nx\nz\nw\nx\ny\nw\n", "", ""},
		"both stand, its blob": {
			"diff --git a/f b/f\nindex 1234567.." + blobID([]byte("0\nx\nz\nw\nx\ny\nw\n")) +
				" 100644\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n x\n-y\n+z\n w\n",
			"0\nx\nz\nw\nx\ny\nw\n", "0\nx\nz\nw\nx\ny\nw\n", "landed 2",
		},
	} {
		got, placed, err := applyOne(t, "f", tt.tree, tt.diff)
		if (err != nil) != (tt.want == "") || got != tt.want {
			t.Errorf("%s: %v, got\n%s", name, err, cmp.Diff(tt.want, got))
		}
		var kinds []string
		for _, p := range placed {
			kinds = append(kinds, fmt.Sprintf("%s %d", p.Kind, p.Got))
		}
		if got := strings.Join(kinds, ", "); got != tt.kinds {
			t.Errorf("%s: placed %s, want %s", name, got, tt.kinds)
		}
		judgeLikeApply(t, map[string]source.File{"f": file(tt.tree)}, parsed(t, tt.diff))
	}
}

func TestLandedFiles(t *testing.T) {
	base := map[string]source.File{
		"a": file("a\n"), "b": file("b\n"), "l": link("a"), "run": {Mode: source.Executable, Data: []byte("r\n")},
		"dir/c": file("c\n"),
	}
	moved := "diff --git a/gone b/a\nsimilarity index 50%\nrename from gone\nrename to a\n--- a/gone\n+++ b/a\n@@ " +
		"-1 +1 @@\n-"
	for name, tt := range map[string]struct {
		series []string
		want   map[string]string // what differs from base; nil: a conflict
		kinds  []Kind
		note   string
	}{
		"created": {
			[]string{created("a", "100644", "a")},
			map[string]string{},
			[]Kind{Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"created link": {
			[]string{created("l", "120000", "a")},
			map[string]string{},
			[]Kind{Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"deleted": {
			[]string{deleted("gone", "x")},
			map[string]string{},
			[]Kind{Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"deleted, in a file": {
			[]string{deleted("a/gone", "x")},
			map[string]string{},
			[]Kind{Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"deleted twice": {[]string{deleted("a", "a") + deleted("a", "a")}, nil, nil, ""},
		"renamed": {
			[]string{renamed("gone", "a")},
			map[string]string{},
			[]Kind{Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"renamed, edited": {
			[]string{moved + "x\n+a\n"},
			map[string]string{},
			[]Kind{Landed, Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"renamed, not edited": {
			[]string{moved + "a\n+x\n"},
			map[string]string{"a": "100644 x\n"},
			[]Kind{Landed, Exact},
			"fix: partly landed: the tree has 1 of the 2 changes of p1 already",
		},
		"copied": {
			[]string{"diff --git a/a b/run\nsimilarity index 100%\ncopy from a\ncopy to run\n"}, nil, nil, "",
		},
		"mode": {
			[]string{"diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"},
			map[string]string{},
			[]Kind{Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"some files": {
			[]string{created("a", "100644", "a") + edited("b", "b", "x")},
			map[string]string{"b": "100644 x\n"},
			[]Kind{Landed, Exact},
			"fix: partly landed: the tree has 1 of the 2 changes of p1 already",
		},
		"one file twice": {
			[]string{edited("a", "x", "y") + edited("a", "y", "a")},
			map[string]string{},
			[]Kind{Landed, Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"below a later patch": {
			[]string{created("a", "100644", "x"), edited("b", "b", "y"), edited("a", "x", "a")},
			map[string]string{"b": "100644 y\n"},
			[]Kind{Landed, Exact, Landed},
			"fix: landed: the tree has all of p1 already",
		},
		"below one that differs": {[]string{created("a", "100644", "x"), edited("a", "y", "a")}, nil, nil, ""},
		"made, then deleted": {
			[]string{created("n", "100644", "x"), deleted("n", "x")},
			map[string]string{},
			[]Kind{Created, Deleted},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			series := parsed(t, tt.series...)
			judgeLikeApply(t, base, series)
			before := tree(t, base)
			res, err := Apply(before, series)
			if tt.want == nil {
				if err == nil {
					t.Fatalf("applied: %+v", res.Placements)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := contents(t, before)
			for p, s := range tt.want {
				want[p] = s
			}
			if d := cmp.Diff(want, contents(t, res.Tree)); d != "" {
				t.Error(d)
			}
			var kinds []Kind
			for _, p := range res.Placements {
				kinds = append(kinds, p.Kind)
			}
			if d := cmp.Diff(tt.kinds, kinds); d != "" {
				t.Error(d)
			}
			if tt.note != "" && !slices.Contains(res.Notes, tt.note) || tt.note == "" && len(res.Notes) > 0 {
				t.Errorf("notes %q, want %q", res.Notes, tt.note)
			}
			checkTouched(t, before, res)
		})
	}
}

// A file that a patch deletes has not gone because it has another name.
func TestDeletionIsNotLanding(t *testing.T) {
	text := countedLines("line", 30)
	gone := func(path string) string {
		h := fmt.Sprintf("diff --git a/%[1]s b/%[1]s\ndeleted file mode 100644\nindex %[2]s..0000000\n--- a/%[1]s\n+++ "+
			"/dev/null\n@@ -1,30 +0,0 @@\n", path, blobID([]byte(text)))
		return h + "-" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n-") + "\n"
	}
	other := created("n", "100644", "n")
	for name, tt := range map[string]struct {
		files  map[string]source.File
		series []string
		moves  []Move // nil: it has landed
	}{
		"renamed": {
			map[string]source.File{"dir/g": file(text)},
			[]string{gone("dir/f")},
			[]Move{{"dir/g", 100}},
		},
		"in another folder": {
			map[string]source.File{"a/f": file(text), "b": file("b\n")},
			[]string{gone("dir/f")},
			[]Move{{"a/f", 100}},
		},
		"and edited": {
			map[string]source.File{"dir/g": file(text + "more\n")},
			[]string{gone("dir/f")},
			[]Move{{"dir/g", 97}},
		},
		"in a series": {
			map[string]source.File{"dir/g": file(text)},
			[]string{gone("dir/f"), gone("dir/e")},
			[]Move{{"dir/g", 100}},
		},
		"gone": {map[string]source.File{"dir/h": file("other\n")}, []string{gone("dir/f")}, nil},
		"the patch has made it": {
			map[string]source.File{"dir/g": file("n\n")},
			[]string{strings.Replace(deleted("dir/f", "n")+other, "b/n", "b/dir/g", -1)},
			nil,
		},
		"another patch has": {
			map[string]source.File{"dir/g": file("n\n")},
			[]string{deleted("dir/f", "n"), strings.ReplaceAll(strings.ReplaceAll(other, "a/n", "a/dir/g"), "b/n", "b/dir/g")},
			nil,
		},
	} {
		res, err := Apply(tree(t, tt.files), parsed(t, tt.series...))
		if tt.moves == nil {
			if err != nil || slices.ContainsFunc(res.Placements, func(p Placement) bool { return p.Kind != Landed }) {
				t.Errorf("%s: %v, %+v", name, err, res)
			}
			continue
		}
		got, _ := Conflicts(err)
		if len(got) != len(tt.series) || got[0].Kind != MissingFile || !slices.Equal(got[0].Moves, tt.moves) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := "deletes a file that is not there; it may be what is now " +
			tt.moves[0].Path; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(),
			"--three-way --follow dir/f="+tt.moves[0].Path) {
			t.Errorf("%s: the message is %v", name, err)
		}
	}
}

// Followed, the renamed file is deleted, unless it was changed since.
func TestFollowRemoval(t *testing.T) {
	base := tree(t, map[string]source.File{"f": file("a\n")})
	p := parsed(t, deleted("f", "a"))[0]
	for name, tt := range map[string]struct {
		files map[string]source.File
		to    string
		kind  Cause
	}{
		"the same": {map[string]source.File{"g": file("a\n"), "h": file("h\n")}, "g", ""},
		"changed":  {map[string]source.File{"g": file("a\nb\n")}, "g", BothChanged},
		"nowhere":  {map[string]source.File{"g": file("a\n")}, "x", MissingFile},
	} {
		m, err := ThreeWay(t.Context(), &p, base, tree(t, tt.files), MergeOptions{Follow: map[string]string{"f": tt.to}})
		got, _ := Conflicts(err)
		switch {
		case tt.kind != "":
			if len(got) != 1 || got[0].Kind != tt.kind {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || len(m.Result.Tree.Files()) != 1:
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A path through a symbolic link is refused, as git does, also where there is nothing to delete.
func TestDeletionThroughLink(t *testing.T) {
	base := tree(t, map[string]source.File{"l": link("d"), "d/f": file("a\n")})
	for _, path := range []string{"l/f", "l/gone"} {
		_, err := Apply(base, parsed(t, deleted(path, "a")))
		if got, _ := Conflicts(err); len(got) != 1 || got[0].Kind != Unsafe {
			t.Errorf("%s: %v", path, err)
		}
		j, err := Judge(parsed(t, deleted(path, "a")), map[string]*source.File{"l": {Mode: source.Symlink}})
		if err != nil || len(j.Conflicts) != 1 || j.Conflicts[0].Kind != Unsafe || j.Held != 0 {
			t.Errorf("%s: %+v, %v", path, j, err)
		}
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "d", "f"), []byte("a\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("d", filepath.Join(dir, "l")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "p"), []byte(deleted(path, "a")), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := gitTry(t, dir, "apply", "p"); err == nil {
			t.Errorf("%s: git applies it", path)
		}
	}
}

// TestReplayNeedsABase: a tree that holds a part of a patch is none to replay it on.
func TestReplayNeedsABase(t *testing.T) {
	p := parsed(t, edited("a", "a", "x")+edited("b", "b", "y"))
	for text, want := range map[string]bool{"a": true, "x": false} {
		bare := tree(t, map[string]source.File{"a": file(text + "\n"), "b": file("b\n")})
		if _, err := Apply(bare, p); err != nil {
			t.Fatal(err)
		}
		if got, err := Replay(bare, nil, &p[0]); err != nil || (got != nil) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestAmbiguousText: a conflict about what may be there already says both places.
func TestAmbiguousText(t *testing.T) {
	_, _, err := applyOne(t, "f", "0\nx\nz\nw\nx\ny\nw\n", "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n x\n-y\n+z\n w\n")
	if err == nil || !strings.Contains(err.Error(),
		"may be there already: it stands at line 5, but line 2 has what it makes\n  next: see whether upstream") {
		t.Errorf("got %v", err)
	}
}

// TestSecondRun applies random series of stacked patches to their own results:
// nothing may change.
func TestSecondRun(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	runs, stacked := 0, 0
	for range 400 {
		now := []string{"begin\n"}
		for i := range 30 + r.IntN(30) {
			now = append(now, fmt.Sprintf("line %d\n", i%(20+r.IntN(100))))
		}
		base := tree(t, map[string]source.File{"f": file(strings.Join(now, ""))})
		var series []string
		for k := range 1 + r.IntN(5) {
			next := slices.Clone(now)
			for range 1 + r.IntN(3) {
				at := r.IntN(len(next))
				gone := r.IntN(min(3, len(next)-at))
				next = slices.Replace(next, at, at+gone, fmt.Sprintf("patch %d, %d\n", k, r.IntN(1000)))
			}
			head, rest, _ := strings.Cut(unified("f", now, next, 3), "\n")
			series = append(series, fmt.Sprintf("%s\nindex %s..%s 100644\n%s", head, blobID([]byte(strings.Join(now, ""))),
				blobID([]byte(strings.Join(next, ""))), rest))
			now = next
		}
		first, err := Apply(base, parsed(t, series...))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Apply(first.Tree, parsed(t, series...))
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(series, ""))
		}
		if again.Tree.ID() != first.Tree.ID() || !slices.Equal(again.Tree.Files(), first.Tree.Files()) ||
			len(again.Touched) > 0 {
			t.Errorf("a second run changes the tree:\n%s", strings.Join(series, ""))
		}
		if i := slices.IndexFunc(again.Placements, func(p Placement) bool { return p.Kind != Landed }); i >= 0 {
			t.Errorf("a second run places %+v", again.Placements[i])
		}
		runs++
		stacked += count(len(series) > 2)
	}
	if runs < 400 || stacked < 100 {
		t.Errorf("%d runs, %d of stacks: this proves little", runs, stacked)
	}
}

// TestLandedOracle applies random patches to trees that hold all or some of
// them. Where something landed, git must be able to take the whole patch back
// from the result; where git can take it back from the tree as it is and cannot
// apply it, it must have landed as a whole. LLPATCH_ORACLE_CASES sets how many.
func TestLandedOracle(t *testing.T) {
	cases := oracleCases(t)
	r := rand.New(rand.NewPCG(9, 10))
	count := map[string]int{}
	const batch = 500
	for first := 0; first < cases; first += batch {
		forth, back, undo := t.TempDir(), t.TempDir(), t.TempDir()
		type item struct {
			name, diff, target, out string
			placed                  []Placement
			err                     error
			tr                      trial
		}
		var items []item
		var all, done strings.Builder
		for i := range min(batch, cases-first) {
			tr := randomTrial(r, []int{3, 3, 1, 5}[r.IntN(4)])
			it := item{name: "f" + strconv.Itoa(i), tr: tr}
			if it.diff = unified(it.name, tr.base, tr.want, tr.context); !strings.Contains(it.diff, "@@") {
				continue
			}
			it.target = halfDone(r, t, tr, it.diff)
			it.out, it.placed, it.err = applyOne(t, it.name, it.target, it.diff)
			for _, dir := range []string{forth, back} {
				if err := os.WriteFile(filepath.Join(dir, it.name), []byte(it.target), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			all.WriteString(it.diff)
			if it.err == nil && slices.ContainsFunc(it.placed, isLanded) {
				if err := os.WriteFile(filepath.Join(undo, it.name), []byte(it.out), 0o644); err != nil {
					t.Fatal(err)
				}
				done.WriteString(it.diff)
			}
			items = append(items, it)
		}
		gitApply(t, forth, all.String())
		gitApply(t, back, all.String(), "-R")
		gitApply(t, undo, done.String(), "-R")
		ok := func(dir, name string) bool {
			_, err := os.Stat(filepath.Join(dir, name+".rej"))
			return errors.Is(err, os.ErrNotExist)
		}
		for _, it := range items {
			landed := it.err == nil && slices.ContainsFunc(it.placed, isLanded)
			whole := landed && !slices.ContainsFunc(it.placed, func(p Placement) bool { return p.Kind != Landed })
			reversible := ok(back, it.name) && !ok(forth, it.name)
			report := func(format string, args ...any) {
				t.Errorf("case %d: %s\n--- patch\n%s--- target\n%s--- result\n%s", first, fmt.Sprintf(format, args...), it.diff,
					it.target, it.out)
			}
			switch {
			case whole && it.out != it.target:
				report("all landed, and the file changes")
			case landed && !ok(undo, it.name):
				report("landed, and git cannot take it back: %+v", it.placed)
			case whole:
				count["whole"]++
			case landed && reversible:
				report("git can take all of it back, and we call a part landed: %+v", it.placed)
			case landed:
				count["partly"]++
			case it.err == nil && reversible:
				report("git can take it back and cannot apply it, and we apply it: %+v", it.placed)
			case it.err == nil:
				count["applied"]++
			case reversible && !open(it.tr.base) && !open(it.tr.want):
				// Git takes the nearer of two places.
				if !explainedBack(t, it.target, it.diff) {
					report("git can take it back, and we refuse: %v", it.err)
				}
				count["ambiguous"]++
			default:
				count["refused"]++
			}
		}
	}
	t.Log(count)
	if count["whole"] < cases/5 || count["partly"] < cases/50 || count["refused"] < cases/50 {
		t.Errorf("the cases do not cover what they should: %v", count)
	}
}

// halfDone returns the base of a trial with some hunks of its patch applied, or
// all of them, and maybe some drift.
func halfDone(r *rand.Rand, t *testing.T, tr trial, diff string) string {
	t.Helper()
	hunks := parsed(t, diff)[0].changes[0].hunks
	txt := newText([]byte(strings.Join(tr.base, "")))
	spots := make([]spot, len(hunks))
	for i := range hunks {
		spots[i] = spot{at: hunks[i].start(), n: len(hunks[i].old), landed: r.IntN(3) == 0}
	}
	out := slices.Collect(strings.Lines(string(splice(txt, hunks, spots))))
	for range r.IntN(3) {
		if len(out) > 0 {
			at := r.IntN(len(out))
			out = slices.Replace(out, at, at+r.IntN(2), fmt.Sprintf("drift %d\n", r.IntN(9)))
		}
	}
	return strings.Join(out, "")
}

// explainedBack reports whether the patch, taken back by our own rules, is
// refused for a reason that git does not have, or is wanted at its very line.
func explainedBack(t *testing.T, target, diff string) bool {
	t.Helper()
	hunks := parsed(t, diff)[0].changes[0].hunks
	txt := newText([]byte(target))
	spots, bad := place(txt, hunks, "", func() string { return "" })
	if slices.ContainsFunc(spots, func(s spot) bool { return s.at == s.want }) {
		return true
	}
	_, none := place(txt, reversed(hunks), "", func() string { return "" })
	return slices.ContainsFunc(slices.Concat(bad, none), func(m misfit) bool {
		return m.kind == Ambiguous || m.kind == OutOfOrder
	})
}
