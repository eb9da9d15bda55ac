package compat

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

func names(tags []Tag) string {
	var out []string
	for _, t := range tags {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

func TestTagsAndRanges(t *testing.T) {
	hist := newHistory(t)
	for i := range 12 {
		hist.commit("c", map[string]string{"f": fmt.Sprintf("%d\n", i)})
		hist.tag()
	}
	dir := hist.write()
	env := []string{"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org"}
	for _, args := range [][]string{
		{"tag", "-a", "-m", "annotated", "v0.1.0", "refs/tags/b3"},
		{"tag", "v0.2.0", "refs/tags/b4"},
		{"tag", "v0.3.0", "refs/tags/b5"},
		{"tag", "gguf-v0.1", "refs/tags/b4"},
		{"tag", "b007", "refs/tags/b7"},
		{"pack-refs", "--all"},
		{"tag", "-d", "b6"},
	} {
		if _, err := tryGit(t, dir, env, "", args...); err != nil {
			t.Fatal(err)
		}
	}
	lock := map[string]spec.Pin{"v0.1.0": {Build: 5}, "v0.3.0": {Build: 4, Max: 6}}
	h := open(t, dir, lock)
	if got := names(h.Tags); got != "b1 b2 b3 b4 b5 v0.1.0 b7 b8 b9 b10 b11 b12" {
		t.Errorf("tags: %s", got)
	}
	if !slices.Equal(h.Left, []string{"v0.2.0", "v0.3.0"}) {
		t.Errorf("left: %v", h.Left)
	}
	for in, want := range map[string]string{
		"b9..": "b9 b10 b11 b12", "..b2": "b1 b2", "b6..b8": "b7 b8", "b5": "b5 v0.1.0", "v0.1.0..b7": "b5 v0.1.0 b7",
		"b100": "", "b9..b8": "",
		"x..y": "", "b1..v0.2.0": "", "b1..v0.3.0": "", "": names(h.Tags),
	} {
		got, err := h.Range(in)
		if (err != nil) != (want == "") || names(got) != want {
			t.Errorf("Range(%q) = %s, %v, want %s", in, names(got), err, want)
		}
	}
	// The annotated tag is the commit of b3.
	objects, err := h.repo.Objects()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Release() }() // it was only read from
	root := newAsked([]string{"f"}, nil)
	r := newRowReader(objects, root, 1)
	a, err1 := r.row(h.Tags[2].object)
	b, err2 := r.row(h.Tags[5].object)
	if err1 != nil || err2 != nil || a[0] != b[0] || !a[0].there() {
		t.Errorf("b3 has %v (%v), its annotated tag %v (%v)", a, err1, b, err2)
	}
}

// A tag's name may be the beginning of another commit's id: b2034.
func TestTagNameIsACommitID(t *testing.T) {
	hex := regexp.MustCompile(`^b[1-9][0-9]{3}`)
	hist := newHistory(t)
	const commits = 1500
	for i := range commits {
		hist.commit("c", map[string]string{"f": fmt.Sprintf("%d\n", i)})
	}
	dir := hist.write()
	ids := strings.Fields(git(t, dir, "rev-list", "--reverse", "master"))
	at := slices.IndexFunc(ids, func(id string) bool { return hex.MatchString(id) })
	if at < 0 {
		t.Fatal("no commit id begins like a tag: change the text of the commits")
	}
	right := ids[(at+700)%commits]
	name := ids[at][:5]
	git(t, dir, "update-ref", "refs/tags/"+name, right)
	h := open(t, dir)
	if len(h.Tags) != 1 || h.Tags[0].Name != name || h.Tags[0].object.String() != right {
		t.Errorf("tags %v, want %s at %s and not at %s", h.Tags, name, right, ids[at])
	}
}

func TestOpenRefuses(t *testing.T) {
	hist := newHistory(t)
	hist.commit("c", map[string]string{"f": "x\n"})
	if _, err := Open(hist.write(), spec.LlamaCpp, nil); !errors.As(err, new(*NoHistory)) ||
		!strings.Contains(err.Error(), "--unshallow") {
		t.Errorf("without tags: %v", err)
	}
	if _, err := Open(t.TempDir(), spec.LlamaCpp, nil); !errors.As(err, new(*NoHistory)) ||
		!strings.Contains(err.Error(), "is not a git repository") {
		t.Errorf("no repository: %v", err)
	}
}

// unpack writes what a repository has in packs as loose objects to another, and
// removes the packs if it is the same.
func unpack(t *testing.T, from, to string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(from, "objects", "pack", "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packs {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if from == to {
			// git does not unpack what it has in a pack.
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tryGit(t, to, nil, string(data), "unpack-objects", "-q"); err != nil {
			t.Fatal(err)
		}
	}
}

// Loose objects, a work tree and borrowed objects are read too.
func TestOpenForms(t *testing.T) {
	hist, old, now := drift(t)
	bare := hist.write()
	s := declared(t, 0, [2]string{">= 1, < 10", diffOf(t, "x", map[string]string{"src/f.c": old},
		map[string]string{"src/f.c": now})})
	clone := func(args ...string) string {
		dir := filepath.Join(t.TempDir(), "clone")
		git(t, ".", append(append([]string{"clone", "-q"}, args...), bare, dir)...)
		return dir
	}
	loose := t.TempDir()
	git(t, loose, "init", "-q", "--bare")
	unpack(t, bare, loose)
	git(t, loose, "fetch", "-q", bare, "refs/tags/*:refs/tags/*")
	for name, dir := range map[string]string{
		"bare": bare, "work tree": clone(), "shared": clone("--shared"), "loose": loose,
	} {
		h := open(t, dir)
		r, err := h.Status(t.Context(), Options{}, s, h.Tags)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Newest != "b8" {
			t.Errorf("%s: %s", name, runs(r.Fixes[0]))
		}
	}
}

// A partial clone lacks contents: what needs them is not known, the rest is.
func TestMissingBlob(t *testing.T) {
	hist := newHistory(t)
	one := numbered("one", 1, 9)
	hist.commit("a", map[string]string{"f.c": one})
	hist.tag()
	hist.commit("b", map[string]string{"f.c": "lost\n" + one})
	hist.tag()
	dir := hist.write()
	lost := strings.TrimSpace(git(t, dir, "rev-parse", "refs/tags/b2:f.c"))
	unpack(t, dir, dir)
	if err := os.Remove(filepath.Join(dir, "objects", lost[:2], lost[2:])); err != nil {
		t.Fatal(err)
	}
	s := declared(t, 0, [2]string{">= 1, < 3", diffOf(t, "x", map[string]string{"f.c": one},
		map[string]string{"f.c": strings.Replace(one, "one 5", "1 5", 1)})})
	h := open(t, dir)
	cache := t.TempDir()
	for range 2 {
		r, err := h.Status(t.Context(), Options{Cache: cache}, s, h.Tags)
		if err != nil {
			t.Fatal(err)
		}
		if got := runs(r.Fixes[0]); got != "b1 exact, b2 unknown" {
			t.Errorf("runs: %s", got)
		}
		if why := r.Fixes[0].Runs[1].Reason; !strings.Contains(why, "the content of f.c") {
			t.Errorf("reason: %s", why)
		}
		if r.Broken() != nil {
			t.Error("what is not known is said to be broken")
		}
	}
	// Once the content is there, it is judged.
	if _, err := tryGit(t, dir, nil, "lost\n"+one, "hash-object", "-w", "--stdin"); err != nil {
		t.Fatal(err)
	}
	h = open(t, dir)
	r, err := h.Status(t.Context(), Options{Cache: cache}, s, h.Tags)
	if err != nil || runs(r.Fixes[0]) != "b1 exact, b2 offset" {
		t.Errorf("after the content came: %v %v", r, err)
	}
}

// What is in the way of a new file counts, though it is another path.
func TestRowNotesWhatIsInTheWay(t *testing.T) {
	hist := newHistory(t)
	for _, files := range []map[string]string{
		{"other": "x\n"},
		{"dir": "a file\n"},
		{"dir@": "elsewhere"},
		{"dir": "", "dir/new.c/inner": "x\n"},
		{"dir/new.c/inner": "", "Dir/old.c": "x\n"},
		{"Dir/old.c": "", "dir/NEW.c": "x\n"},
		{"dir/NEW.c": "", "dir/new.c": "int x;\n"},
	} {
		hist.commit("c", files)
		hist.tag()
	}
	h := open(t, hist.write())
	p := diffOf(t, "x", map[string]string{"z": "z\n"}, map[string]string{"z": "z\n", "dir/new.c": "int x;\n"})
	s := declared(t, 0, [2]string{">= 1", p})
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	if got := runs(r.Fixes[0]); got != "b1 exact, b2..b6 conflict, b7 landed" {
		t.Errorf("runs: %s", got)
	}
	for _, run := range r.Fixes[0].Runs {
		if run.Verdict == Conflict && run.Findings[0].Cause != patch.Unsafe {
			t.Errorf("%s: %v", run.From, run.Findings)
		}
	}
}

func TestTreeEntryRefuses(t *testing.T) {
	for _, s := range []string{"100644 f", "100644 f\x00short", "f\x00" + strings.Repeat("x", 20), "9 f\x00" +
		strings.Repeat("x", 20), "1234567 f\x00" + strings.Repeat("x", 20)} {
		if _, _, _, _, err := treeEntry([]byte(s)); err == nil {
			t.Errorf("%q is read as a tree's entry", s)
		}
	}
}

func TestParseCommitRefuses(t *testing.T) {
	for _, s := range []string{"", "tree zz\n\nx", "parent " + strings.Repeat("a", 40) + "\n\nx", "tree " +
		strings.Repeat("a", 39) + "\n\nx"} {
		if _, err := parseCommit([]byte(s)); err == nil {
			t.Errorf("%q is read as a commit", s)
		}
	}
}

// A damaged pack is an error that names the object, never a verdict.
func TestCorruptPack(t *testing.T) {
	hist := newHistory(t)
	text := numbered("line", 1, 4000)
	hist.commit("a", map[string]string{"f.c": text})
	hist.tag()
	dir := hist.write()
	git(t, dir, "repack", "-adq")
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	data, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(packs[0], 0o644); err != nil {
		t.Fatal(err)
	}
	s := declared(t, 0, [2]string{">= 1", diffOf(t, "x", map[string]string{"f.c": text},
		map[string]string{"f.c": "new\n" + text})})
	for at := 12; at < len(data)-20; at += max(1, len(data)/60) {
		bad := slices.Clone(data)
		bad[at] ^= 0x41
		if err := os.WriteFile(packs[0], bad, 0o644); err != nil {
			t.Fatal(err)
		}
		h := open(t, dir)
		r, err := h.Status(t.Context(), Options{}, s, h.Tags)
		var c *source.Corrupt
		if err == nil || !errors.As(err, &c) {
			t.Errorf("byte %d damaged: %v, %v", at, r, err)
		}
	}
}
