package patch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// conflict applies a patch of the file f, which must not fit, and returns the only reason.
func conflict(t *testing.T, before, diff string) *Conflict {
	t.Helper()
	base := tree(t, map[string]source.File{"f": file(before)})
	res, err := Apply(base, parsed(t, diff))
	if err == nil {
		t.Fatalf("applied: %q", contents(t, res.Tree)["f"])
	}
	got := err.(interface{ Unwrap() []error }).Unwrap()
	var c *Conflict
	if len(got) != 1 || !errors.As(got[0], &c) {
		t.Fatalf("got %v", err)
	}
	return c
}

// A line without a newline stays the last of its file, and no line is glued to it.
func TestGlue(t *testing.T) {
	const (
		head = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
		open = "\\ No newline at end of file\n"
	)
	for name, c := range map[string]struct{ diff, fits, after, not string }{
		"the new line, in the middle": {"@@ -2 +2 @@\n-b\n+B\n" + open, "a\nb\n", "a\nB", "a\nb\nc\n"},
		"the file's last line":        {"@@ -1,0 +2 @@\n+b\n", "a\n", "a\nb\n", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			// A hunk that only adds lines goes by its file's blob.
			index := func(text string) string { return "index " + blobID([]byte(text)) + "..1111111 100644\n" }
			patch := func(text string) string { return strings.Replace(head, "---", index(text)+"---", 1) + c.diff }
			got, _, err := applyOne(t, "f", c.fits, patch(c.fits))
			if err != nil || got != c.after {
				t.Errorf("%q, %v", got, err)
			}
			if c := conflict(t, c.not, patch(c.not)); c.Kind != NoPlace {
				t.Errorf("got %v", c)
			}
		})
	}
}

// Two hunks may touch, and must not overlap.
func TestOverlap(t *testing.T) {
	const touching = "diff --git a/f b/f\n--- a/f\n+++ b/f\n" +
		"@@ -2,3 +2,3 @@\n a\n-b\n+B\n c\n" +
		"@@ -5,3 +5,3 @@\n d\n-e\n+E\n f\n"
	got, _, err := applyOne(t, "f", "x\n0\na\nb\nc\nd\ne\nf\ng\n", touching)
	if want := "x\n0\na\nB\nc\nd\nE\nf\ng\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	// The second hunk stands right before the first and behind it.
	c := conflict(t, "x\n0\nd\ne\nf\na\nb\nc\nd\ne\nf\ng\n", touching)
	if c.Kind != Ambiguous || !slices.Equal(c.Places, []int{3, 9}) {
		t.Errorf("got %v", c)
	}
	// It stands in the first alone.
	c = conflict(t, "x\n0\na\nb\nc\nd\ne\ng\n",
		"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -2,5 +2,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -7,3 +7,3 @@\n c\n-d\n+D\n e\n")
	if c.Kind != NoPlace || !strings.Contains(c.Detail, "taken by an earlier hunk") {
		t.Errorf("got %v", c)
	}
}

// The likeliest place of a file that is gone comes first: what is the same, then what has its
// name, then by path.
func TestMoves(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	base := tree(t, map[string]source.File{"a/f": file(text)})
	same, nearly := file(text), file(text+"11\n")
	for name, c := range map[string]struct {
		files map[string]source.File
		want  []Move
	}{
		"the same": {
			map[string]source.File{"z": same, "b/f": same, "a/a": same, "c/f": nearly},
			[]Move{{"b/f", 100}, {"a/a", 100}, {"z", 100}},
		},
		"nearly": {
			map[string]source.File{"a/b": nearly, "z/f": nearly, "y/f": nearly, "x": nearly},
			[]Move{{"y/f", 87}, {"z/f", 87}, {"a/b", 87}},
		},
	} {
		got, err := moves(base, tree(t, c.files), "a/f")
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}
