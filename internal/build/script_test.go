package build

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/run"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// upstream makes a repository of the small upstream with the tag b100, and a
// patch on it; it returns the trees before and after.
func upstream(t *testing.T, dir string) (base, patched string, patch []byte) {
	t.Helper()
	write(t, dir, small)
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "one")
	git(t, dir, "tag", "b100")
	base = git(t, dir, "rev-parse", "HEAD^{tree}")
	// Bytes that a careless script would change: a quote, a dollar, a backslash,
	// a carriage return, no UTF-8, and the word that ends the here-document.
	write(t, dir, map[string]string{
		"greet.c":  "const char *greet(void) { return \"it's $HOME `id` \\\\ \"; }\n",
		"note.txt": "cr\r\nEND_OF_PATCH\n\xff\xfe\n$(rm -rf x)\n",
	})
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "two")
	patched = git(t, dir, "rev-parse", "HEAD^{tree}")
	patch = []byte(git(t, dir, "format-patch", "--stdout", "-1") + "\n")
	git(t, dir, "reset", "-q", "--hard", "b100")
	return base, patched, patch
}

func writeScript(t *testing.T, p Plan, s Script) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Script(&b, s); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.sh")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// The script makes the source, checks it, and builds the bytes that Run builds,
// in any folder, with no llpatch about.
func TestScript(t *testing.T) {
	top := t.TempDir()
	in := smallInput(t, filepath.Join(top, "ours"))
	in.Facts.Env = map[string]string{"HOME": top, "LLPATCH_TEST": "it's"}
	base, patched, patch := upstream(t, filepath.Join(top, "up"))
	in.Tree, in.Series = patched, []string{"greeting"}
	git(t, in.Source, "init", "-q")
	git(t, in.Source, "apply", writeFile(t, patch))
	if err := os.RemoveAll(filepath.Join(in.Source, ".git")); err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, in)
	want := mustRun(t, p)

	file := writeScript(t, p, Script{
		URL: filepath.Join(top, "up"), Ref: "refs/tags/b100", Tree: base,
		Patches: []ScriptPatch{{"b100.patch", patch}},
	})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(in.Source)) || bytes.Contains(text, []byte(in.Dir)) {
		t.Errorf("the script names a folder of this machine:\n%s", text)
	}
	dir := filepath.Join(top, "elsewhere")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(args ...string) (string, error) {
		c := exec.Command("/bin/sh", append([]string{file}, args...)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{
		nil,                                // source and build folder by their default names
		{"llama.cpp-c0ffee00c-llp1"},       // the source that was just made, the build again
		{"src", filepath.Join("src", "b")}, // a build inside the source
	} {
		out, err := sh(args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		bin := lines[len(lines)-1]
		for _, f := range want.Files {
			if f.Link != "" {
				continue
			}
			sum, err := SumFile(filepath.Join(bin, filepath.Base(f.Path)))
			if err != nil || sum != f.SHA256 {
				t.Errorf("%v: %s has sha256 %s, %v; Run made %s", args, f.Path, sum, err, f.SHA256)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".git")); err != nil || len(left) > 0 {
		t.Errorf("left in the source: %v, %v", left, err)
	}
	if out, err := sh("a b", "c"); err == nil || !strings.Contains(out, "must have plain names") {
		t.Errorf("a folder with a blank: %v\n%s", err, out)
	}
}

func writeFile(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// A tag that moved, a patch that gives another tree, and no repository at all
// stop the script before anything is built, and leave no source behind.
func TestScriptStops(t *testing.T) {
	top := t.TempDir()
	in := smallInput(t, filepath.Join(top, "ours"))
	up := filepath.Join(top, "up")
	base, patched, patch := upstream(t, up)
	in.Tree, in.Series = patched, []string{"greeting"}
	p := mustPlan(t, in)
	other := p
	other.Tree = strings.Repeat("9", 40)
	patches := []ScriptPatch{{"b100.patch", patch}}
	for name, c := range map[string]struct {
		plan   Plan
		script Script
		want   string
	}{
		"misfit": {
			p,
			Script{URL: up, Ref: "refs/tags/b100", Tree: base, Patches: append(patches, patches...)},
			"patch does not apply",
		},
		"moved tag": {p, Script{URL: up, Ref: "refs/tags/b100", Tree: patched, Patches: patches}, "b100 has tree " +
			base},
		"other tree": {
			other,
			Script{URL: up, Ref: "refs/tags/b100", Tree: base, Patches: patches},
			"the patched tree is " + patched,
		},
		"no such tag":   {p, Script{URL: up, Ref: "refs/tags/b1", Tree: base}, "refs/tags/b1"},
		"no repository": {p, Script{Tree: base}, "Make it: the tree " + base + " of b100 with the fixes greeting"},
		"bad patch":     {p, Script{URL: up, Ref: "refs/tags/b100", Tree: patched, Patches: nil}, "b100 has tree"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", writeScript(t, c.plan, c.script))
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v\n%s", err, out)
			}
			if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
	for name, data := range map[string]string{"nul": "a\x00b\n", "no end": "diff", "empty": ""} {
		if err := p.Script(&bytes.Buffer{}, Script{
			URL: up, Ref: "x", Tree: base,
			Patches: []ScriptPatch{{"p", []byte(data)}},
		}); err == nil {
			t.Errorf("patch %s: no error", name)
		}
	}
}

// The scripts of real plans, in full.
func TestGoldenScript(t *testing.T) {
	p := mustPlan(t, realInput(t, "b8833"))
	var b bytes.Buffer
	err := p.Script(&b, Script{
		URL: "https://example.com/llama.cpp", Ref: "refs/tags/b8833", Tree: p.Tree,
		Patches: []ScriptPatch{{"b8832.patch", []byte("diff --git a/x b/x\n")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/b8833.sh", b.Bytes())
	if out, err := exec.Command("/bin/sh", "-n", filepath.Join("testdata", "b8833.sh")).CombinedOutput(); err != nil {
		t.Errorf("sh -n: %v\n%s", err, out)
	}
}

func TestWords(t *testing.T) {
	vars := []variable{{"BUILD", "/a/b/build"}, {"SRC", "/a/b"}, {"CC", "/usr/bin/gcc"}}
	for in, want := range map[string]string{
		"/a/b":              `"$SRC"`,
		"/a/b/c":            `"$SRC"/c`,
		"/a/b/build":        `"$BUILD"`,
		"/a/bc":             "/a/bc",
		"/x/a/b":            "/x/a/b",
		"-DCC=/usr/bin/gcc": `-DCC="$CC"`,
		"/usr/bin/gcc-12":   "/usr/bin/gcc-12",
		"-DF=-ffile-prefix-map=/a/b=. -ffile-prefix-map=/a/b/build=build": `-DF=-ffile-prefix-map="$SRC"'=. -ffile-prefix-map='"$BUILD"'=build'`,
		`-DF="-m=/a/b=." x`: `'-DF="-m='"$SRC"'=." x'`,
	} {
		if got := words(in, vars); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		out, err := exec.Command("/bin/sh", "-c", "SRC=/a/b BUILD=/a/b/build CC=/usr/bin/gcc; printf %s "+
			words(in, vars)).Output()
		if err != nil || string(out) != in {
			t.Errorf("sh makes %q of %s, %v", out, run.Quote(in), err)
		}
	}
}
