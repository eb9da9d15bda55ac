package patch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/source"
)

func tree(t testing.TB, files map[string]source.File) *source.Tree {
	t.Helper()
	tr, err := source.New(files)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func file(s string) source.File { return source.File{Mode: source.Regular, Data: []byte(s)} }

func link(s string) source.File { return source.File{Mode: source.Symlink, Data: []byte(s)} }

// parsed returns one patch per text, named p1, p2 …
func parsed(t testing.TB, texts ...string) []Patch {
	t.Helper()
	var out []Patch
	for i, s := range texts {
		ps, err := Parse("fix", fmt.Sprintf("p%d", i+1), []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ps...)
	}
	return out
}

func edited(path, from, to string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1 @@\n-%[2]s\n+%[3]s\n", path, from,
		to)
}

func created(path, mode, text string) string {
	end := "\n"
	if mode == "120000" {
		end = "\n\\ No newline at end of file\n"
	}
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode %[2]s\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1 "+
		"@@\n+%[3]s%[4]s", path, mode, text, end)
}

func deleted(path, text string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\ndeleted file mode 100644\n--- a/%[1]s\n+++ /dev/null\n@@ -1 +0,0 "+
		"@@\n-%[2]s\n", path, text)
}

func renamed(from, to string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[2]s\nsimilarity index 100%%\nrename from %[1]s\nrename to %[2]s\n", from,
		to)
}

// contents returns a tree's files as "mode text".
func contents(t testing.TB, tr *source.Tree) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range tr.Files() {
		f, err := tr.Read(e.Path)
		if err != nil {
			t.Fatal(err)
		}
		out[e.Path] = fmt.Sprintf("%s %s", f.Mode, f.Data)
	}
	return out
}

func TestApplyFiles(t *testing.T) {
	base := map[string]source.File{
		"a": file("a\n"), "b": file("b\n"), "dir/c": file("c\n"), "l": link("a"), "empty": file(""),
		"run": {Mode: source.Executable, Data: []byte("r\n")},
	}
	tests := map[string]struct {
		series []string
		want   map[string]string // what differs from base; "" is gone
		kinds  []Kind
	}{
		"edit, twice in one patch": {
			[]string{edited("a", "a", "x") + edited("a", "x", "y")}, map[string]string{"a": "100644 y\n"}, []Kind{Exact, Exact},
		},
		"create, then edit and delete in later patches": {
			[]string{
				created("new/n", "100755", "n"), edited("new/n", "n", "m"),
				strings.Replace(deleted("new/n", "m"), "100644", "100755", 1),
			},
			map[string]string{},
			[]Kind{Created, Exact, Deleted},
		},
		"delete": {[]string{deleted("dir/c", "c")}, map[string]string{"dir/c": ""}, []Kind{Deleted}},
		"delete an empty file": {
			[]string{"diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n"},
			map[string]string{"empty": ""},
			[]Kind{Deleted},
		},
		"create an empty file": {
			[]string{"diff --git a/e2 b/e2\nnew file mode 100644\nindex 0000000..e69de29\n"},
			map[string]string{"e2": "100644 "},
			[]Kind{Created},
		},
		"mode": {
			[]string{"diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"},
			map[string]string{"a": "100755 a\n"},
			[]Kind{Moded},
		},
		"mode and edit": {
			[]string{"diff --git a/a b/a\nold mode 100644\nnew mode 100755\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+x\n"},
			map[string]string{"a": "100755 x\n"},
			[]Kind{Exact, Moded},
		},
		"rename": {
			[]string{renamed("a", "deep/er/a")},
			map[string]string{"a": "", "deep/er/a": "100644 a\n"},
			[]Kind{Renamed},
		},
		"rename with edit": {
			[]string{"diff --git a/a b/z\nsimilarity index 50%\nrename from a\nrename to z\n--- a/a\n+++ b/z\n@@ -1 +1 " +
				"@@\n-a\n+x\n"},
			map[string]string{"a": "", "z": "100644 x\n"},
			[]Kind{Exact, Renamed},
		},
		"swap": {
			[]string{renamed("a", "b") + renamed("b", "a")},
			map[string]string{"a": "100644 b\n", "b": "100644 a\n"},
			[]Kind{Renamed, Renamed},
		},
		"copy reads the file as it was": {
			[]string{edited("a", "a", "x") + "diff --git a/b b/k\nsimilarity index 100%\ncopy from b\ncopy to k\n"},
			map[string]string{"a": "100644 x\n", "k": "100644 b\n"},
			[]Kind{Exact, Copied},
		},
		"file becomes link": {
			[]string{deleted("a", "a") + created("a", "120000", "b")},
			map[string]string{"a": "120000 b"},
			[]Kind{Deleted, Created},
		},
		"file becomes folder": {
			[]string{deleted("a", "a") + created("a/x", "100644", "x")},
			map[string]string{"a": "", "a/x": "100644 x\n"},
			[]Kind{Deleted, Created},
		},
		"folder becomes file, named first": {
			[]string{created("dir", "100644", "x") + deleted("dir/c", "c")},
			map[string]string{"dir": "100644 x\n", "dir/c": ""},
			[]Kind{Created, Deleted},
		},
		"rename in case only": {[]string{renamed("a", "A")}, map[string]string{"a": "", "A": "100644 a\n"}, []Kind{Renamed}},
		"link edited": {
			[]string{"diff --git a/l b/l\nindex 111..222 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n\\ No newline at end of " +
				"file\n+b\n\\ No newline at end of file\n"},
			map[string]string{"l": "120000 b"},
			[]Kind{Exact},
		},
		"plain diff creates": {
			[]string{"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"}, map[string]string{"n": "100644 n\n"}, []Kind{Created},
		},
		"plain diff from nothing creates": {
			[]string{"--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"}, map[string]string{"n": "100644 n\n"}, []Kind{Created},
		},
		"all CR LF, new file": {
			[]string{strings.ReplaceAll(created("n", "100644", "n"), "\n", "\r\n")},
			map[string]string{"n": "100644 n\n"},
			[]Kind{Created},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := tree(t, base)
			series := parsed(t, tt.series...)
			res, err := Apply(before, series)
			if err != nil {
				t.Fatal(err)
			}
			want := contents(t, before)
			for p, s := range tt.want {
				if want[p] = s; s == "" {
					delete(want, p)
				}
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
			// The same patches, once more and on the same base.
			if again, err := Apply(before, series); err != nil || again.Tree.ID() != res.Tree.ID() {
				t.Errorf("a second run gives %v, %v", again, err)
			}
			checkTouched(t, before, res)
		})
	}
}

// checkTouched follows the recorded blobs from the base to the result.
func checkTouched(t *testing.T, base *source.Tree, res *Result) {
	t.Helper()
	now := map[string]string{}
	for _, e := range base.Files() {
		now[e.Path] = e.Blob
	}
	for _, f := range res.Touched {
		if now[f.Path] != f.Before {
			t.Errorf("%s: before %q, recorded %q", f.Path, now[f.Path], f.Before)
		}
		if now[f.Path] = f.After; f.After == "" {
			delete(now, f.Path)
		}
	}
	want := map[string]string{}
	for _, e := range res.Tree.Files() {
		want[e.Path] = e.Blob
	}
	if d := cmp.Diff(want, now); d != "" {
		t.Error(d)
	}
}

func TestConflicts(t *testing.T) {
	base := map[string]source.File{
		"a": file("a\n"), "dir/c": file("c\n"), "l": link("dir"), "Big/X": file("x\n"), "two": file("1\n2\n"),
	}
	tests := map[string]struct {
		series []string
		want   []string // kind, file and the beginning of the detail
	}{
		"missing":                      {[]string{edited("z", "a", "b")}, []string{"missing file z"}},
		"rename of a missing file":     {[]string{renamed("z", "y")}, []string{"missing file z"}},
		"creates what is there":        {[]string{created("a", "100644", "b")}, []string{"exists a"}},
		"creates it with another mode": {[]string{created("a", "100755", "a")}, []string{"exists a"}},
		"renames onto what is there":   {[]string{renamed("a", "two")}, []string{"exists two"}},
		"creates twice": {
			[]string{created("n", "100644", "a") + created("n", "100644", "b")},
			[]string{"exists n creates n twice"},
		},
		"edits what it removed": {
			[]string{deleted("a", "a") + edited("a", "a", "b")},
			[]string{"missing file a changes a file that it removed before"},
		},
		"deletion leaves lines": {[]string{deleted("two", "1")}, []string{"not empty two"}},
		"deletes other lines": {
			[]string{deleted("two", "x")},
			[]string{"no place two the file is not what the patch deletes"},
		},
		"deletion without its lines": {
			[]string{"diff --git a/a b/a\ndeleted file mode 100644\nindex 111..000\n"},
			[]string{"not empty a"},
		},
		"link as a file": {
			[]string{edited("l", "dir", "a")},
			[]string{"wrong type l l is a symbolic link, and the patch is for a file"},
		},
		"file as a link": {[]string{"diff --git a/a b/a\nindex 111..222 120000\n--- a/a\n+++ b/a\n@@ -1 +1 " +
			"@@\n-a\n+b\n"}, []string{"wrong type a"}},
		"through a link of the tree": {
			[]string{edited("l/c", "c", "d")},
			[]string{"unsafe path l/c l/c leads through l, which is a symbolic link"},
		},
		"creates through a link": {
			[]string{created("l/n", "100644", "n")},
			[]string{"unsafe path l/n l/n leads through the symbolic link l"},
		},
		"link made by an earlier one": {
			[]string{created("k", "120000", "dir"), created("k/n", "100644", "n")},
			[]string{"unsafe path k/n k/n leads through the symbolic link k"},
		},
		"link made by the same patch": {
			[]string{created("k", "120000", "dir") + created("k/n", "100644", "n")},
			[]string{"unsafe path k/n k/n leads through the symbolic link k"},
		},
		"link, then written through": {
			[]string{created("k", "120000", "dir"), edited("k/c", "c", "d")},
			[]string{"unsafe path k/c k/c leads through k, which is a symbolic link"},
		},
		"link out of the tree": {
			[]string{created("k", "120000", "../x")},
			[]string{"unsafe path k symbolic link that leads out of the tree"},
		},
		"absolute link": {
			[]string{created("k", "120000", "/etc/passwd")},
			[]string{`unsafe path k symbolic link to "/etc/passwd"`},
		},
		"file as a folder": {
			[]string{created("a/n", "100644", "n")},
			[]string{"unsafe path a/n a/n needs a folder where a is a file"},
		},
		"folder as a file": {
			[]string{created("dir", "100644", "n")},
			[]string{"unsafe path dir dir is a folder"},
		},
		"case clash": {
			[]string{created("A", "100644", "n")},
			[]string{"unsafe path A A and a differ only in case"},
		},
		"case clash of folders": {
			[]string{created("big/Y", "100644", "n")},
			[]string{"unsafe path big/Y big/Y and Big differ only in case"},
		},
		"case clash within one patch": {
			[]string{created("n", "100644", "n") + created("N", "100644", "n")},
			[]string{"unsafe path n n and N differ only in case"},
		},
		"both hunks and both patches": {
			[]string{edited("a", "x", "y"), edited("z", "a", "b"), edited("two", "9", "8")},
			[]string{"no place a", "missing file z", "no place two"},
		},
		"later one depends on earlier": {[]string{
			edited("a", "x", "y") + created("n", "100644", "n"), edited("a", "y", "z"),
			edited("n", "n", "m"),
		}, []string{"no place a", "no place a after fix/p1", "missing file n after fix/p1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := tree(t, base)
			id := before.ID()
			res, err := Apply(before, parsed(t, tt.series...))
			if res != nil || err == nil {
				t.Fatalf("applied: %v", res)
			}
			var got []*Conflict
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				var c *Conflict
				if !errors.As(e, &c) {
					t.Fatalf("not a conflict: %v", e)
				}
				got = append(got, c)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %v", err)
			}
			for i, c := range got {
				text := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Kind, c.File, c.Detail))
				if c.After != "" {
					text = fmt.Sprintf("%s %s after %s", c.Kind, c.File, c.After)
					if !strings.Contains(c.Error(), "next: mend "+c.After+" first") {
						t.Errorf("text %s", c)
					}
				}
				if !strings.HasPrefix(text, tt.want[i]) {
					t.Errorf("got %q, want %q", text, tt.want[i])
				}
				if !strings.HasPrefix(c.Error(), "apply fix: "+c.File+":") || !strings.Contains(c.Error(), "\n  next: ") {
					t.Errorf("text %s", c)
				}
			}
			if before.ID() != id {
				t.Error("the base has changed")
			}
		})
	}
}

// TestNamesAfterFailure: a patch that is refused leaves no names behind.
func TestNamesAfterFailure(t *testing.T) {
	base := tree(t, map[string]source.File{"a": file("a\n"), "b": file("b\n")})
	// The first patch is refused after its names were tried; the second must find
	// the index as if it had never been there.
	_, err := Apply(base, parsed(t,
		renamed("a", "x/a")+created("x/b", "100644", "n")+created("B", "100644", "n"),
		created("X/c", "100644", "n"), created("A/n", "100644", "n")))
	want := []string{"B and b differ only in case", "A/n and a differ only in case"}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != len(want) {
		t.Fatalf("got %v", err)
	}
	for i, e := range joined.Unwrap() {
		if !strings.Contains(e.Error(), want[i]) {
			t.Errorf("got %v, want %s", e, want[i])
		}
	}
}

func TestModeNote(t *testing.T) {
	base := tree(t, map[string]source.File{"a": {Mode: source.Executable, Data: []byte("a\n")}})
	res, err := Apply(base, parsed(t, "diff --git a/a b/a\nindex 111..222 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, res.Tree)["a"]; got != "100755 b\n" {
		t.Errorf("got %q", got)
	}
	if len(res.Notes) != 1 || res.Notes[0] != "fix/p1: a has mode 100755, the patch was made for 100644" {
		t.Errorf("notes %q", res.Notes)
	}
}

func TestPaths(t *testing.T) {
	p := parsed(t, renamed("b", "c")+created("d", "100644", "x")+deleted("a", "a")+edited("c2", "a", "b"))[0]
	if d := cmp.Diff([]string{"a", "b", "c", "c2", "d"}, p.Paths()); d != "" {
		t.Error(d)
	}
}
