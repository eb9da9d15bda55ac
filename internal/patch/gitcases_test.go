package patch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// TestGitCases has git apply each patch to the files, and wants the same tree or
// a refusal, too.
func TestGitCases(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	edit := "diff --git a/a b/a\nindex e8823e1..a86ab4f 100644\n--- a/a\n+++ b/a\n@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 4\n"
	cases := map[string]struct {
		diff    string
		applies bool
	}{
		"edits, and copies what was there": {edit + "diff --git a/a b/b\nsimilarity index 90%\ncopy from a\ncopy to " +
			"b\n--- a/a\n+++ b/b\n@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n", true},
		"rewrites, and renames what was": {edit +
			"diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n", true},
		"edits, renames, and edits again": {edit + "diff --git a/a b/b\nsimilarity index 100%\nrename from " +
			"a\nrename to b\n" + strings.ReplaceAll(edit, "two", "deux"), false},
		"renames, and edits": {"diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n" +
			edit, false},
		"only ---": {"diff --git a/a b/a\n--- a/a\n@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 4\n", false},
		"only +++": {"diff --git a/a b/a\n+++ b/a\n@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 4\n", false},
		"only --- of a rename": {"diff --git a/a b/b\nsimilarity index 90%\nrename from a\nrename to b\n--- " +
			"a/a\n@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 4\n", true},
		"only --- of an edit with its mode": {"diff --git a/a b/a\nold mode 100644\nnew mode 100755\n--- a/a\n@@ -1,4 " +
			"+1,4 @@\n 1\n-2\n+two\n 3\n 4\n", false},
		"a name that was cut": {
			"diff --git a/a b/bc\nsimilarity index 100%\nrename from a\nrename to b",
			false,
		},
		"the old mode lost":   {"diff --git a/a b/a\nnew mode 100755\n", false},
		"the same mode twice": {"diff --git a/a b/a\nold mode 100644\nnew mode 100644\n", false},
		"the old mode lost, and an edit": {strings.Replace(edit, "index e8823e1..a86ab4f 100644\n", "new mode 100755\n",
			1), true},
		"a mode that was cut":  {"diff --git a/a b/a\nold mode 100644\nnew mode 100755", false},
		"an edit's lines lost": {edit + "diff --git a/c b/c\n", true},
		"the rename lines lost, then a file": {edit +
			"diff --git a/c b/d\ndiff --git a/c b/c\nold mode 100644\nnew mode 100755\n", false},
		"spaces behind /dev/null": {"diff --git a/n b/n\nnew file mode 100644\n--- /dev/null  \n+++ b/n\n@@ -0,0 +1 @@\n+x\n", true},
		"the way back is damaged": {"diff --git a/bin b/bin\nindex " +
			"d4f7b71e2ab7d5ef0bc5c38c1ee1bf8de2bb1d2b..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 100644\n" +
			"GIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 9\nLcmZQzWMT#Y01f~L\n\n", false},
	}
	files := map[string]source.File{"a": file(ten), "c": file("c\n"), "bin": file("\x00\x01\x02\x03")}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			git(t, dir, "init", "-q")
			for p, f := range files {
				if err := os.WriteFile(filepath.Join(dir, p), f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			git(t, dir, "add", "-A")
			diff := strings.ReplaceAll(tt.diff, "d4f7b71e2ab7d5ef0bc5c38c1ee1bf8de2bb1d2b", blobID(files["bin"].Data))
			if err := os.WriteFile(filepath.Join(dir, "x.patch"), []byte(diff), 0o644); err != nil {
				t.Fatal(err)
			}
			want := "refused"
			_, err := gitTry(t, dir, "apply", "--index", "--whitespace=nowarn", "x.patch")
			if (err == nil) != tt.applies {
				t.Fatalf("git: %v", err)
			}
			if tt.applies {
				want = strings.TrimSpace(git(t, dir, "write-tree"))
			}
			got := "refused"
			series, err := Parse("fix", "x.patch", []byte(diff))
			if err == nil {
				var res *Result
				if res, err = Apply(tree(t, files), series); err == nil {
					got = res.Tree.ID()
				}
			}
			if got != want {
				t.Errorf("%s, git %s; %s", got, want, fmt.Sprint(err))
			}
		})
	}
}
