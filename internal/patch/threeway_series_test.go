package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// TestApplyThreeWay applies a series of which some fit, some merge and one fails.
func TestApplyThreeWay(t *testing.T) {
	_, c := readWay(t, "testdata/threeway/context-changed.txtar")
	repo := t.TempDir()
	git(t, repo, "init", "-q", "-b", "main")
	base := c.trees["base"]
	edit := func(files map[string]source.File, pairs ...string) map[string]source.File {
		out := maps.Clone(files)
		f := out["f.c"]
		text := string(f.Data)
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("no %q", pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		out["f.c"] = source.File{Mode: f.Mode, Data: []byte(text)}
		return out
	}
	one := edit(base, "return 3", "check(3);\n\treturn 3")
	two := edit(one, "check(3)", "check(33)", "return 7", "return 77")
	three := edit(two, "return 8", "return 88")
	commitTree(t, repo, base, "base")
	var series []Patch
	for i, files := range []map[string]source.File{one, two, three} {
		commitTree(t, repo, files, fmt.Sprint("step ", i))
		ps, err := Parse(fmt.Sprint("fix", i), "x.patch",
			[]byte(git(t, repo, "format-patch", "-1", "--stdout", "--full-index")))
		if err != nil {
			t.Fatal(err)
		}
		series = append(series, ps...)
	}
	asked := 0
	bases := func(context.Context, *Patch) (*source.Tree, error) {
		asked++
		return tree(t, base), nil
	}
	o := MergeOptions{Git: FindGit(os.Getenv("PATH"))}
	upstream := edit(base, "int f2(", "long f2(", "return 2;\n}", "return 2;\n} // two", "return 6;\n}",
		"return 6;\n} // six")
	target := tree(t, edit(upstream, "int f8(", "long f8("))

	t.Run("fits", func(t *testing.T) {
		res, merges, err := ApplyThreeWay(t.Context(), tree(t, base), series, bases, o)
		if err != nil || len(merges) > 0 || asked > 0 || res.Tree.ID() != tree(t, three).ID() {
			t.Errorf("%v, %d merges, asked %d times", err, len(merges), asked)
		}
	})
	t.Run("merges", func(t *testing.T) {
		want := edit(upstream, "return 3", "check(33);\n\treturn 3", "return 7", "return 77")
		res, merges, err := ApplyThreeWay(t.Context(), target, series[:2], bases, o)
		if err != nil {
			t.Fatal(err)
		}
		want = edit(want, "int f8(", "long f8(")
		if res.Tree.ID() != tree(t, want).ID() {
			t.Errorf("got %q", contents(t, res.Tree))
		}
		for _, m := range merges {
			if m.Result == nil || len(m.Files) != 1 || !m.Files[0].Checked {
				t.Errorf("merge %+v", m)
			}
		}
		if len(merges) != 2 || len(res.Touched) != 2 {
			t.Errorf("%d merges, touched %v", len(merges), res.Touched)
		}
	})
	t.Run("one fails, the others are judged", func(t *testing.T) {
		target := tree(t, edit(upstream, "return 3", "return 300"))
		res, merges, err := ApplyThreeWay(t.Context(), target, series, bases, o)
		if res != nil || err == nil {
			t.Fatal("no error")
		}
		var fixes []string
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			var c *Conflict
			if !errors.As(e, &c) {
				t.Fatal(e)
			}
			fixes = append(fixes, c.Fix+" after "+c.After)
		}
		if fmt.Sprint(fixes) != "[fix0 after  fix1 after fix0/x.patch]" {
			t.Errorf("conflicts %q: %v", fixes, err)
		}
		if len(merges) < 2 {
			t.Errorf("%d merges", len(merges))
		}
	})
	t.Run("no base", func(t *testing.T) {
		none := func(context.Context, *Patch) (*source.Tree, error) { return nil, nil }
		_, merges, err := ApplyThreeWay(t.Context(), target, series[:1], none, o)
		if len(merges) > 0 || err == nil || conflictKinds(t, err)[0] != NoPlace {
			t.Errorf("%v, %v", merges, err)
		}
	})
	t.Run("another base", func(t *testing.T) {
		other := func(context.Context, *Patch) (*source.Tree, error) {
			return tree(t, map[string]source.File{"f.c": file("nothing\n")}), nil
		}
		_, merges, err := ApplyThreeWay(t.Context(), target, series[:1], other, o)
		if len(merges) != 1 || merges[0].Note == "" || err == nil || conflictKinds(t, err)[0] != NoPlace {
			t.Errorf("%v, %v", merges, err)
		}
	})
	t.Run("base cannot be read", func(t *testing.T) {
		broken := func(context.Context, *Patch) (*source.Tree, error) { return nil, fs.ErrPermission }
		_, _, err := ApplyThreeWay(t.Context(), target, series[:1], broken, o)
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
		}
	})
}
