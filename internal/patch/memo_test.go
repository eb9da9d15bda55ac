package patch

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// sameMerge applies a patch three ways with a memo and without, and requires the
// same tree, or the same conflicts.
func sameMerge(t *testing.T, memo *Memo, p *Patch, base, target *source.Tree, o MergeOptions) (merged bool) {
	t.Helper()
	try := func(o MergeOptions) string {
		bases := func(context.Context, *Patch) (*source.Tree, error) { return base, nil }
		res, merges, err := ApplyThreeWay(t.Context(), target, []Patch{*p}, bases, o)
		var b strings.Builder
		for _, m := range merges {
			for _, f := range m.Files {
				fmt.Fprintf(&b, "%s %s\n", f.Path, f.Merged)
			}
		}
		if err == nil {
			merged = len(merges) > 0
			return b.String() + res.Tree.ID()
		}
		conflicts, err := conflictsOf(err)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range conflicts {
			fmt.Fprintf(&b, "%s %s:%d hunk %d\n", c.Kind, c.File, c.Line, c.Hunk)
		}
		return b.String()
	}
	want := try(o)
	o.Memo = memo
	for _, how := range []string{"first", "again"} {
		if got := try(o); got != want {
			t.Errorf("%s: with a memo\n%s\nwithout\n%s", how, got, want)
		}
	}
	if _, err := Apply(target, []Patch{*p}); err != nil {
		if o.Misfits, err = conflictsOf(err); err != nil {
			t.Fatal(err)
		}
		if got := try(o); got != want {
			t.Errorf("with known misfits\n%s\nwithout\n%s", got, want)
		}
	}
	return merged
}

// TestMemo merges random files, several to a patch, over bases that come again.
func TestMemo(t *testing.T) {
	git := FindGit(os.Getenv("PATH"))
	if git == "" {
		t.Fatal("no git on the PATH")
	}
	r := rand.New(rand.NewPCG(11, 12))
	memo := NewMemo()
	merged, conflicts := 0, 0
	for round := range 60 {
		base, ours := map[string]source.File{}, map[string]source.File{}
		var diff strings.Builder
		for _, name := range []string{"a", "b"} {
			tr := randomTrial(r, 3)
			base[name], ours[name] = file(strings.Join(tr.base, "")), file(strings.Join(tr.want, ""))
			if d := unified(name, tr.base, tr.want, 3); strings.Contains(d, "@@") {
				diff.WriteString(d)
			}
		}
		if diff.Len() == 0 {
			continue
		}
		ps, err := Parse("fix", fmt.Sprint(round), []byte(diff.String()))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			target := maps.Clone(base)
			for name, f := range target {
				lines := slices.Collect(strings.Lines(string(f.Data)))
				for range r.IntN(3) {
					if len(lines) > 0 {
						at := r.IntN(len(lines))
						lines = slices.Replace(lines, at, at+r.IntN(2), fmt.Sprintf("drift %d\n", r.IntN(9)))
					}
				}
				target[name] = file(strings.Join(lines, ""))
			}
			if sameMerge(t, memo, &ps[0], tree(t, base), tree(t, target), MergeOptions{Git: git, NeedGit: true}) {
				merged++
			} else {
				conflicts++
			}
		}
		if round%20 == 19 {
			memo.size = maxMemo + 1 // what it keeps is let go of
		}
	}
	if merged < 30 || conflicts < 30 {
		t.Errorf("%d merged, %d not: this proves little", merged, conflicts)
	}
}
