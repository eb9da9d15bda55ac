//go:build linux

package build

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// lay makes a folder hold exactly the files of a tree: path -> text, "-> x" a link,
// "|" a pipe, "/" an empty folder.
func lay(t *testing.T, dir string, tree map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range tree {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if to, ok := strings.CutPrefix(text, "-> "); ok && err == nil {
			err = os.Symlink(to, file)
		} else if text == "|" && err == nil {
			err = syscall.Mkfifo(file, 0o644)
		} else if text == "/" && err == nil {
			err = os.Mkdir(file, 0o755)
		} else if err == nil {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// laid reads a folder as lay has it; a folder with nothing in it is "/".
func laid(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		switch {
		case err != nil || rel == ".":
			return err
		case d.IsDir():
			in, err := os.ReadDir(p)
			if len(in) == 0 {
				tree[rel] = "/"
			}
			return err
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			tree[rel] = "-> " + to
			return err
		case d.Type()&fs.ModeNamedPipe != 0:
			tree[rel] = "|"
			return nil
		}
		text, err := os.ReadFile(p)
		tree[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Whatever a path was in the tree before, it ends up right there.
func TestPathsThatChange(t *testing.T) {
	f := newFar(t)
	plan := mustPlan(t, f.in)
	b := &builder{plan: plan, o: f.o}
	cases := map[string][]map[string]string{
		"a folder, then a file": {{"x/a": "1", "x/b/c": "2", "y": "3"}, {"x": "4", "y": "3"}},
		"a file, then a folder": {{"x": "1", "y": "2"}, {"x/a": "3", "x/b/c": "4", "y": "2"}},
		"the two change places": {{"x/a": "1", "y": "2"}, {"x": "2", "y/a": "1"}, {"x/a": "1", "y": "2"}},
		"a folder below one that stays": {
			{"x/a/b": "1", "x/y": "2"},
			{"x/a": "1", "x/y": "2"},
			{"x/a/b/c": "1", "x/y": "2"},
		},
		"a folder that is gone": {{"x/a/b": "1", "y": "2"}, {"y": "2"}},
		"a name in another case": {
			{"Readme": "1", "Docs/a": "2", "Docs/b": "3"},
			{"README": "1", "docs/a": "2", "docs/B": "3"},
		},
		"names that differ in case":       {{"x/a": "1", "X": "2"}, {"x": "2", "X/a": "1"}},
		"a link to a folder, then a file": {{"x/a": "1", "y": "-> x"}, {"x/a": "1", "y": "2"}},
		"a link to another folder":        {{"x/a": "1", "z/a": "2", "y": "-> x"}, {"x/a": "1", "z/a": "2", "y": "-> z"}},
		"a link, then a folder":           {{"x/a": "1", "y": "-> x"}, {"x/a": "1", "y/a": "2"}},
		"a folder, then a link":           {{"x/a": "1", "y/a": "2"}, {"x/a": "1", "y": "-> x"}},
		"a link to a file, then a file":   {{"x": "1", "y": "-> x"}, {"x": "1", "y": "1"}, {"x": "-> y", "y": "1"}},
		"a link to nowhere":               {{"y": "-> nowhere"}, {"y": "1"}, {"y": "-> else/where"}},
		"a name of llpatch's own":         {{"x/" + removeFile: "1", "x/.llpatch": "2"}, {"x/" + removeFile: "3"}},
		"odd names": {
			{"-rf": "1", "a b\tc": "2", "*": "3", "$HOME": "4", "é": "5"},
			{"-rf/x": "1", "a b\tc/x": "2", "*/x": "3", "$HOME/x": "4", "é/x": "5"},
		},
	}
	for i := range 3 {
		all := map[string]string{}
		for name, trees := range cases {
			for path, text := range trees[min(i, len(trees)-1)] {
				all[name+"/"+path] = text
			}
		}
		lay(t, plan.Source, all)
		if _, err := b.sync(t.Context(), b.conn(), t.TempDir()); err != nil {
			t.Errorf("tree %d: %v", i, err)
		}
		got := laid(t, filepath.Join(f.dir, "src"))
		for name := range cases {
			of := func(tree map[string]string) map[string]string {
				tree = maps.Clone(tree)
				maps.DeleteFunc(tree, func(path, _ string) bool { return !strings.HasPrefix(path, name+"/") })
				return tree
			}
			if got, want := of(got), of(all); !maps.Equal(got, want) {
				t.Errorf("tree %d: %s: got %q, want %q", i, name, got, want)
			}
		}
	}
	// Whatever somebody put in the way there.
	tree := map[string]string{"x": "1", "y/a": "2", "z/a/b": "3"}
	lay(t, plan.Source, tree)
	for name, there := range map[string]map[string]string{
		"folders and pipes": {"src/x/a": "/", "src/x/b": "|", "src/y": "|", "src/z/a": "|"},
		"links": {
			"src/y": "-> ../elsewhere", "src/x": "-> ../elsewhere", "elsewhere/a": "0",
			"plan.sh": "-> elsewhere",
		},
		"a link for the source":     {"src": "-> elsewhere", "elsewhere/x": "0", "plan.sh/a": "0"},
		"a link that leads nowhere": {"src": "-> nowhere", "plan.sh": "-> nowhere"},
		"a file for the source":     {"src": "0", "plan.sh/a": "/"},
		"a pipe for the source":     {"src": "|", "plan.sh/a": "|"},
		"names that cannot be told": {"src/y/a\nb": "0", "src/q": "-> a\nb", "plan.sh/a\nb": "0"},
	} {
		t.Run(name, func(t *testing.T) {
			lay(t, f.dir, there)
			if _, err := b.sync(t.Context(), b.conn(), t.TempDir()); err != nil {
				t.Fatal(err)
			}
			got := laid(t, f.dir)
			for name, text := range tree {
				if got["src/"+name] != text {
					t.Errorf("got %q", got)
				}
			}
			for name := range got {
				if rel, ok := strings.CutPrefix(name, "src/"); ok && tree[rel] == "" {
					t.Errorf("%s is still there", name)
				}
			}
			if st, err := os.Lstat(filepath.Join(f.dir, "plan.sh")); err != nil || !st.Mode().IsRegular() {
				t.Errorf("plan.sh: %v", err)
			}
			for name, text := range there {
				if strings.HasPrefix(name, "elsewhere/") && got[name] != text {
					t.Errorf("%s is %q", name, got[name])
				}
			}
		})
	}
}

// What no program there could tell from something else is refused here.
func TestNamesThatCannotBeCopied(t *testing.T) {
	for want, tree := range map[string]map[string]string{
		`"x/a\nb" cannot be copied to another machine`:                {"x/a\nb": "1"},
		`"a|b" cannot be copied to another machine`:                   {"a|b": "1"},
		`"y" cannot be copied to another machine: it leads to "a\nb"`: {"y": "-> a\nb"},
		`"y" cannot be copied to another machine: it leads to "a\r"`:  {"y": "-> a\r"},
		"": {"x": "1", "y": "-> a b\\c"},
	} {
		dir := t.TempDir()
		lay(t, dir, tree)
		_, err := wanted(t.Context(), dir, "plan.sh", nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
