package patch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// commits is a repository in which each step of a test is a commit.
type commits struct {
	t   *testing.T
	dir string
}

func newCommits(t *testing.T) commits {
	t.Helper()
	c := commits{t, t.TempDir()}
	c.git("init", "-q", "-b", "master")
	c.git("config", "core.autocrlf", "false")
	return c
}

func (c commits) git(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(gitEnv(c.t, c.dir),
		"GIT_AUTHOR_NAME=Jörg O. Müller, Jr", "GIT_AUTHOR_EMAIL=j@example.org", "GIT_AUTHOR_DATE=2026-03-17T02:01:52+05:30",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_COMMITTER_DATE=2026-03-18T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c commits) write(path, text string) {
	c.t.Helper()
	file := filepath.Join(c.dir, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c commits) commit(message string) string {
	c.t.Helper()
	c.git("add", "-A")
	c.git("commit", "-q", "--cleanup=verbatim", "-m", message)
	return c.git("rev-parse", "HEAD")
}

func (c commits) change(id string) *source.Change {
	c.t.Helper()
	ch, err := source.Commit(c.t.Context(), c.dir, id)
	if err != nil {
		c.t.Fatal(err)
	}
	return ch
}

// proves makes the patch, has git apply it to the parent's tree, and compares
// the tree with the commit's. It returns the patch as it is read again.
func (c commits) proves(id string) Patch {
	c.t.Helper()
	ch := c.change(id)
	data, parsed, err := FromCommit(ch, "fix", "x.patch")
	if err != nil {
		c.t.Fatal(err)
	}
	again, _, err := FromCommit(c.change(id), "", "x.patch")
	if err != nil || !bytes.Equal(data, again) {
		c.t.Fatalf("a second time: other bytes (%v)", err)
	}
	file := filepath.Join(c.t.TempDir(), "x.patch")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		c.t.Fatal(err)
	}
	parent := "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // git's empty tree
	if len(ch.Parents) > 0 {
		parent = ch.Parents[0]
	}
	c.git("read-tree", parent)
	c.git("-c", "core.whitespace=nowarn", "apply", "--cached", "--whitespace=nowarn", file)
	if got, want := c.git("write-tree"), c.git("rev-parse", id+"^{tree}"); got != want {
		c.t.Errorf("git makes tree %s of the patch, the commit has %s\n%s", got, want, data)
	}
	c.git("read-tree", "HEAD")
	mail := exec.CommandContext(c.t.Context(), "git", "mailinfo", "-b", filepath.Join(c.t.TempDir(), "msg"), os.DevNull)
	mail.Stdin = bytes.NewReader(data)
	info, err := mail.Output()
	if want := c.git("show", "-s", "--format=Author: %an%nEmail: %ae%nSubject: %s%nDate: %aD", id); err != nil ||
		strings.TrimSpace(string(info)) != want {
		c.t.Errorf("git reads the mail as\n%s\nwant\n%s (%v)", info, want, err)
	}
	ps, err := Parse("fix", "x.patch", data)
	if err != nil || len(ps) != 1 || !reflect.DeepEqual(ps, parsed) {
		c.t.Fatalf("%d patches, not those that came with the bytes, or %v", len(ps), err)
	}
	return ps[0]
}

func lines(n int, end string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d%s", i, end)
	}
	return b.String()
}

func TestFromCommit(t *testing.T) {
	c := newCommits(t)
	c.write("a.txt", lines(60, "\n"))
	c.write("crlf.txt", lines(30, "\r\n"))
	c.write("naïve name.txt", "x")
	c.write("empty", "")
	root := c.commit("root")
	c.proves(root)

	c.write("a.txt", strings.Replace(lines(60, "\n"), "line 3\n", "LINE 3\n", 1)+"no newline")
	c.write("naïve name.txt", "y")
	c.write("deep/er/new.txt", "\n\nnew\n")
	c.write("deep/empty", "")
	p := c.proves(c.commit("[cuda] größe : fix\n\nFrom: not the author <x@example.org>\n\n---\nnot the end\n\ndiff " +
		"--git a/x b/x\nindex 1..2\n" +
		"From 1234567890123456789012345678901234567890 Mon Sep 17\nFrom: quoted\n--- a/x\n+++ b/x\n@@ -1 +1 " +
		"@@\nCo-authored-by: B <b@example.org>\n"))
	if p.Header.Author != "Jörg O. Müller, Jr" || p.Header.Email != "j@example.org" ||
		p.Header.Subject != "[cuda] größe : fix" {
		t.Errorf("header is %+v", p.Header)
	}
	if when, err := p.Header.Time(); err != nil || when.Format("2006-01-02T15:04:05-0700") != "2026-03-17T02:01:52+0530" {
		t.Errorf("date %v, %v", when, err)
	}
	for _, want := range []string{
		"From: not the author", "not the end",
		"From 1234567890123456789012345678901234567890 Mon", "Co-authored-by",
	} {
		if !strings.Contains(p.Header.Body, want) {
			t.Errorf("body lacks %q: %q", want, p.Header.Body)
		}
	}

	c.write("crlf.txt", strings.Replace(lines(30, "\r\n"), "line 7\r\n", "LINE 7\r\nmore\r\n", 1))
	c.proves(c.commit("a CR LF file"))

	c.git("update-index", "--chmod=+x", "a.txt")
	c.git("commit", "-q", "-m", "mode alone")
	c.proves(c.git("rev-parse", "HEAD"))
	if err := os.Chmod(filepath.Join(c.dir, "a.txt"), 0o755); err != nil {
		t.Fatal(err)
	}

	c.git("mv", "a.txt", "moved.txt")
	c.write("moved.txt", lines(59, "\n"))
	c.git("rm", "-q", "empty", "deep/empty")
	c.proves(c.commit("a rename and two deletions"))

	if err := os.Symlink("crlf.txt", filepath.Join(c.dir, "link")); err != nil {
		t.Fatal(err)
	}
	c.proves(c.commit("a link"))
	if err := os.Remove(filepath.Join(c.dir, "link")); err != nil {
		t.Fatal(err)
	}
	c.write("link", "a file now\n")
	c.proves(c.commit("the link becomes a file"))
	if err := os.Remove(filepath.Join(c.dir, "link")); err != nil {
		t.Fatal(err)
	}
	c.write("link/file", "a folder now\n")
	c.proves(c.commit("the file becomes a folder"))
}

func TestFromCommitRefuses(t *testing.T) {
	c := newCommits(t)
	c.write("a", "a\n")
	first := c.commit("first")
	refused := func(id, want string) {
		t.Helper()
		data, _, err := FromCommit(c.change(id), "", "")
		if err == nil || !strings.Contains(err.Error(), want) || data != nil {
			t.Errorf("refused with %v, want %q", err, want)
		}
	}
	c.write("b.bin", "a\x00b")
	refused(c.commit("binary"), "b.bin is binary")

	c.git("checkout", "-q", "-b", "side", first)
	c.write("c", "c\n")
	side := c.commit("side")
	c.git("checkout", "-q", "master")
	c.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	refused(c.git("rev-parse", "HEAD"), "which ends in its parent "+side)

	c.git("commit", "-q", "--allow-empty", "-m", "nothing")
	refused(c.git("rev-parse", "HEAD"), "changes no file")

	c.git("update-index", "--add", "--cacheinfo", "160000,"+first+",sub")
	c.git("commit", "-q", "-m", "submodule")
	refused(c.git("rev-parse", "HEAD"), "sub is a submodule")

	if err := os.Symlink("../../etc/passwd", filepath.Join(c.dir, "out")); err != nil {
		t.Fatal(err)
	}
	c.git("add", "out")
	c.git("commit", "-q", "-m", "a link out of the tree")
	refused(c.git("rev-parse", "HEAD"), "leads out of the tree")
}

// TestFromCommitHistory makes patches of upstream's own commits, and has git
// apply each to the parent's tree. It needs -mirror.
func TestFromCommitHistory(t *testing.T) {
	if *mirror == "" {
		t.Skip("needs -mirror PATH, a git repository with llama.cpp's history")
	}
	index := filepath.Join(t.TempDir(), "index")
	objects := t.TempDir()
	gitIn := func(stdin []byte, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", *mirror}, args...)...)
		// What git writes goes beside the history, which is not ours.
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+index, "GIT_OBJECT_DIRECTORY="+objects,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(*mirror, "objects"))
		cmd.Stdin = bytes.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	list, err := gitIn(nil, "rev-list", "--tags")
	if err != nil {
		t.Fatal(list, err)
	}
	all := strings.Fields(list)
	r := rand.New(rand.NewPCG(9, 9))
	same, refused := 0, map[string]int{}
	for same < *mirrorRuns {
		id := all[r.IntN(len(all))]
		ch, err := source.Commit(t.Context(), *mirror, id)
		if err != nil {
			refused["source"]++
			t.Logf("%s: %v", id, err)
			continue
		}
		data, _, err := FromCommit(ch, "", "")
		if err != nil {
			whys := []string{"is a merge", "is binary", "is a submodule", "changes no file"}
			i := slices.IndexFunc(whys, func(why string) bool { return strings.Contains(err.Error(), why) })
			if i < 0 {
				t.Fatalf("%s: %v", id, err)
			}
			refused[whys[i]]++
			continue
		}
		same++
		if len(ch.Parents) == 0 {
			continue
		}
		// The author, the date and the subject as git reads them.
		want, err := gitIn(nil, "show", "-s", "--no-mailmap", "--format=%an%n%ae%n%at%n%s", id)
		if err != nil {
			t.Fatal(want, err)
		}
		// Reading a mail drops a colon behind a [tag], as git am does.
		at := strings.LastIndexByte(want, '\n') + 1
		want = want[:at] + cleanSubject(want[at:])
		ps, err := Parse("", id, data)
		if err != nil {
			t.Fatal(err)
		}
		h := ps[0].Header
		when, err := h.Time()
		if err != nil {
			t.Fatal(id, err)
		}
		if got := fmt.Sprintf("%s\n%s\n%d\n%s", h.Author, h.Email, when.Unix(), h.Subject); got != want {
			t.Errorf("%s: header\n%s\nwant\n%s", id, got, want)
		}
		if out, err := gitIn(nil, "read-tree", ch.Parents[0]); err != nil {
			t.Fatal(out, err)
		}
		if out, err := gitIn(data, "apply", "--cached", "--whitespace=nowarn", "-"); err != nil {
			t.Errorf("%s: git apply: %v\n%s", id, err, out)
			continue
		}
		got, gerr := gitIn(nil, "write-tree", "--missing-ok")
		tree, terr := gitIn(nil, "rev-parse", id+"^{tree}")
		if gerr != nil || terr != nil || got != tree {
			t.Errorf("%s: git makes tree %s of the patch, the commit has %s (%v, %v)", id, got, tree, gerr, terr)
		}
	}
	t.Logf("%d commits; left out: %v", same, refused)
}
