package patch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/source"
)

// judgeLikeApply judges a unit on the files that it touches and requires Apply's
// answer on the whole tree.
func judgeLikeApply(t *testing.T, files map[string]source.File, unit []Patch) *Judgement {
	t.Helper()
	touched := map[string]*source.File{}
	for i := range unit {
		for _, p := range unit[i].Paths() {
			if f, ok := files[p]; ok {
				touched[p] = &f
			}
		}
	}
	before := maps.Clone(touched)
	j, err := Judge(unit, touched)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(before, touched) {
		t.Error("Judge changes the files that it is given")
	}
	base := tree(t, files)
	res, err := Apply(base, unit)
	conflicts, other := conflictsOf(err)
	if other != nil {
		t.Fatal(other)
	}
	// Where a file went is seen in the whole tree only.
	for _, c := range conflicts {
		if c.Kind == MissingFile && c.Moves != nil {
			c.Moves, c.Detail = nil, ""
		}
	}
	if d := cmp.Diff(conflicts, j.Conflicts); d != "" {
		t.Errorf("conflicts (-Apply +Judge):\n%s", d)
	}
	if err != nil {
		open := slices.ContainsFunc(conflicts, func(c *Conflict) bool { return c.Proposal == nil })
		if open && j.Files != nil {
			t.Error("a unit with conflicts leaves files")
		}
		if len(unit) == 1 && !open && j.Files == nil {
			t.Errorf("proposals for all conflicts, and no files: %v", err)
		}
		return j
	}
	if d := cmp.Diff(res.Placements, j.Placements); d != "" {
		t.Errorf("placements (-Apply +Judge):\n%s", d)
	}
	changes := map[string]*source.File{}
	for p, f := range j.Files {
		if _, ok := base.Stat(p); ok || f != nil {
			changes[p] = f
		}
	}
	got, err := base.With(changes)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(contents(t, res.Tree), contents(t, got)); d != "" {
		t.Errorf("files (-Apply +Judge):\n%s", d)
	}
	return j
}

func TestJudgeIsApply(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	fits, not := 0, 0
	for range 3000 {
		tr := randomTrial(r, 3)
		diff := unified("f", tr.base, tr.want, tr.context)
		if !strings.Contains(diff, "@@") {
			continue
		}
		j := judgeLikeApply(t, map[string]source.File{"f": file(strings.Join(tr.target, ""))}, parsed(t, diff))
		if len(j.Conflicts) == 0 {
			fits++
		} else {
			not++
		}
	}
	if fits < 500 || not < 500 {
		t.Errorf("%d fit, %d do not: this proves little", fits, not)
	}
	base := map[string]source.File{
		"a": file("a\n"), "b": file("b\n"), "dir/c": file("c\n"), "l": link("a"),
		"run": {Mode: source.Executable, Data: []byte("r\n")},
	}
	for i, unit := range [][]string{
		{edited("a", "a", "x") + edited("a", "x", "y")},
		{
			created("new/n", "100755", "n"), edited("new/n", "n", "m"),
			strings.Replace(deleted("new/n", "m"), "100644", "100755", 1),
		},
		{deleted("dir/c", "c"), created("dir/c", "100644", "new")},
		{renamed("a", "b") + renamed("b", "a")},
		{renamed("a", "A")},
		{deleted("a", "a") + created("a/x", "100644", "x")},
		{created("dir", "100644", "x") + deleted("dir/c", "c")},
		{"diff --git a/run b/run\nold mode 100755\nnew mode 100644\n"},
		{edited("a", "z", "y"), edited("a", "a", "x")},
		{edited("gone", "a", "b"), edited("b", "b", "c")},
		{created("a", "100644", "a"), deleted("a", "b")},
		{edited("l", "a", "b")},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { judgeLikeApply(t, base, parsed(t, unit...)) })
	}
}

// What stands in the way of a path counts though the patch does not name it.
func TestJudgeInTheWay(t *testing.T) {
	p := parsed(t, created("dir/n", "100644", "n"))
	for _, path := range []string{"dir", "Dir/x", "dir/N", "dir/n/x"} {
		f := file("x\n")
		j, err := Judge(p, map[string]*source.File{path: &f})
		if err != nil || len(j.Conflicts) != 1 || j.Conflicts[0].Kind != Unsafe {
			t.Errorf("%s: %+v, %v", path, j, err)
		}
	}
	if j, err := Judge(p, nil); err != nil || len(j.Conflicts) != 0 {
		t.Errorf("nothing in the way: %+v, %v", j, err)
	}
}

func TestJudgeCounts(t *testing.T) {
	lines := func(word string) (s string) {
		for i := range 10 {
			s += fmt.Sprintf("%s %d\n", word, i)
		}
		return s
	}
	three := func(x, y, z string) string { return lines("a") + x + lines("b") + y + lines("c") + z + lines("d") }
	old, now := three("x\n", "y\n", ""), three("X\n", "", "z\n")
	three3 := unified("f", strings.SplitAfter(strings.TrimSuffix(old, "\n"), "\n"),
		strings.SplitAfter(strings.TrimSuffix(now, "\n"), "\n"), 3)
	moved := "diff --git a/f b/g\nsimilarity index 50%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1 +1 " +
		"@@\n-a\n+x\n"
	for name, tt := range map[string]struct {
		patch               string
		files               map[string]string
		changes, held, rest int
		fits                bool
	}{
		"all held":          {three3, map[string]string{"f": now}, 3, 3, 0, true},
		"held, lines off":   {three3, map[string]string{"f": "top\n" + now}, 3, 3, 0, true},
		"one held":          {three3, map[string]string{"f": three("x\n", "", "")}, 3, 1, 2, true},
		"one lost":          {three3, map[string]string{"f": three("q\n", "", "")}, 3, 1, 1, false},
		"none":              {three3, map[string]string{"f": "q\n"}, 3, 0, 0, false},
		"no file":           {three3, nil, 3, 0, 0, false},
		"created":           {created("f", "100644", "n"), map[string]string{"f": "n\n"}, 1, 1, 0, true},
		"created otherwise": {created("f", "100644", "n"), map[string]string{"f": "m\n"}, 1, 0, 0, false},
		"created, and edit": {
			created("f", "100644", "n") + edited("g", "a", "b"),
			map[string]string{"f": "n\n", "g": "a\n"},
			2, 1, 1, true,
		},
		"deleted": {deleted("f", "n"), nil, 1, 1, 0, true},
		"deleted, and more": {
			deleted("f", "n") + edited("g", "a", "b"),
			map[string]string{"f": "n\n", "g": "b\n"},
			2, 1, 1,
			true,
		},
		"renamed":          {renamed("f", "g"), map[string]string{"g": "n\n"}, 1, 1, 0, true},
		"renamed, edited":  {moved, map[string]string{"g": "x\n"}, 2, 2, 0, true},
		"renamed, not yet": {moved, map[string]string{"f": "z\n"}, 2, 0, 1, false},
		"mode": {
			"diff --git a/f b/f\nold mode 100755\nnew mode 100644\n" + edited("g", "a", "b"),
			map[string]string{"f": "n\n", "g": "b\n"},
			2, 2, 0, true,
		},
	} {
		files := map[string]*source.File{}
		for p, s := range tt.files {
			f := file(s)
			files[p] = &f
		}
		j, err := Judge(parsed(t, tt.patch), files)
		if err != nil {
			t.Fatal(err)
		}
		if (len(j.Conflicts) == 0) != tt.fits || j.Changes != tt.changes || j.Held != tt.held || j.Rest != tt.rest {
			t.Errorf("%s: %d changes, %d held, %d with a place (%d conflicts), want %d, %d, %d", name, j.Changes, j.Held,
				j.Rest, len(j.Conflicts), tt.changes, tt.held, tt.rest)
		}
	}
}

func TestPreimage(t *testing.T) {
	p := parsed(t, edited("a", "old", "new"))
	before, after := Preimage(p, p[0].changes[0].hunks[0].line)
	if !cmp.Equal(before, []string{"old\n"}) || !cmp.Equal(after, []string{"new\n"}) {
		t.Errorf("%q, %q", before, after)
	}
	if before, after := Preimage(p, 1); before != nil || after != nil {
		t.Errorf("where no hunk begins: %q, %q", before, after)
	}
}
