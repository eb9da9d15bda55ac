package fork

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		subject, body string
		reports       []string
		commit, want  string
	}{
		{"a", "", nil, "", "a\n\nLlpatch-Fix: x\n"},
		{"", "", nil, "", "x\n\nLlpatch-Fix: x\n"},
		{
			"a", "b",
			[]string{"https://e.example/1"},
			"c0",
			"a\n\nb\n\nLlpatch-Fix: x\nLlpatch-Report: https://e.example/1\nLlpatch-Commit: c0\n",
		},
		{
			"a", "see https://e.example/1",
			[]string{"https://e.example/1"},
			"",
			"a\n\nsee https://e.example/1\n\nLlpatch-Fix: x\n",
		},
		{"a", "b\n\nBug: 1\n more\nReviewed-by: c", nil, "", "a\n\nb\n\nBug: 1\n more\nReviewed-by: c\nLlpatch-Fix: x\n"},
		{"a: b", "", nil, "", "a: b\n\nLlpatch-Fix: x\n"},
	} {
		h := patch.Header{Subject: c.subject, Body: c.body}
		got := message(h, "x", c.reports, c.commit)
		if got != c.want {
			t.Errorf("%q %q gives\n%s\nwant\n%s", c.subject, c.body, got, c.want)
		}
		if f := trailer(got, trailerFix); f != "x" {
			t.Errorf("the fix of %q is %q", got, f)
		}
	}
	const other = "a\r\n\r\nb  \r\nLlpatch-Fixed: no\r\nLlpatch-Fix:  x \r\nLlpatch-Root: u b1\r\n"
	if got, want := plain(other), "a\n\nb\nLlpatch-Fixed: no\n"; got != want {
		t.Errorf("plain: %q, want %q", got, want)
	}
	if got := trailer("a\n\nLlpatch-Root: u b1\nllpatch-fix: x\n Llpatch-Fix: y\n", trailerFix); got != "" {
		t.Errorf("the fix is %q", got)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add("a", "b\n\nBug: 1\n more")
	f.Add("Llpatch-Fix: y", "Llpatch-Fix: z")
	f.Add("", "\r\n\x00")
	f.Fuzz(func(t *testing.T, subject, body string) {
		if strings.ContainsAny(subject, "\r\n") || ourTrailer.MatchString(subject+"\n"+body) {
			return // no header has them
		}
		got := message(patch.Header{Subject: subject, Body: body}, "x", []string{"https://e.example/1"}, "c0")
		if trailer(got, trailerFix) != "x" || trailer(got, trailerCommit) != "c0" {
			t.Errorf("%q has the fix %q", got, trailer(got, trailerFix))
		}
		bare := subject
		if subject == "" {
			bare = "x"
		}
		if want := plain(bare + "\n\n" + body); strings.Join(strings.Fields(plain(got)),
			" ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%q is plainly %q, want %q", got, plain(got), want)
		}
	})
}

func TestRawTime(t *testing.T) {
	for in, want := range map[string]string{
		"1700000000 +0100": "2023-11-14T23:13:20+01:00", "1700000000 -0330": "2023-11-14T18:43:20-03:30",
		"0 +0000":    "1970-01-01T00:00:00Z",
		"1700000000": "2023-11-14T22:13:20Z", "x +0100": "0001-01-01T00:00:00Z", "": "0001-01-01T00:00:00Z",
	} {
		if got := rawTime(in).Format("2006-01-02T15:04:05Z07:00"); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}

const twoVariants = "summary = \"s\"\n\n[[variant]]\nrange = \">= 1, < 5\"\npatch = \"b1.patch\"\n  [[variant]]\n  " +
	"range='>= 5'\n  patch = 'b5.patch' # last\n"

func TestSetRange(t *testing.T) {
	for _, c := range []struct{ name, old, now string }{
		{"b1.patch", `range = ">= 1, < 5"`, `range = ">= 2, < 3"`},
		{"b5.patch", `range='>= 5'`, `range=">= 2, < 3"`},
	} {
		got, err := setRange([]byte(twoVariants), c.name, ">= 2, < 3")
		if want := strings.Replace(twoVariants, c.old, c.now, 1); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, want)
		}
	}
	for _, name := range []string{"b9.patch", "b1.patc.", ""} {
		if got, err := setRange([]byte(twoVariants), name, ">= 2"); err == nil {
			t.Errorf("%q: %s", name, got)
		}
	}
}

func FuzzSetRange(f *testing.F) {
	f.Add([]byte(twoVariants), "b1.patch")
	f.Add([]byte("[a]\nrange = \"$1\"\npatch = \"x\""), "x")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		got, err := setRange(text, name, ">= 2, < 3")
		if err != nil {
			return
		}
		if strings.Count(string(got), "\n") != strings.Count(string(text), "\n") ||
			!strings.Contains(string(got), `">= 2, < 3"`) {
			t.Errorf("%q of %q gives %q", name, text, got)
		}
	})
}

func TestRejected(t *testing.T) {
	for _, c := range []struct {
		out, said, reason string
		lines             []string
	}{
		{"To hub\n!\ta:b\t[remote rejected] (hook declined)\nDone\n", "remote: no  \nerror: failed to push some " +
			"refs to 'hub'", "a:b [remote rejected] (hook declined)", []string{"remote: no"}},
		{
			"!\ta:b\t[rejected] (atomic push failed)\n!\tc:d\t[rejected] (stale info)\n", "", "c:d [rejected] (stale info)",
			nil,
		},
		{"", "fatal: no way", "", []string{"fatal: no way"}},
	} {
		reason, lines := rejected(c.out, c.said)
		if reason != c.reason || !reflect.DeepEqual(lines, c.lines) {
			t.Errorf("%q, %q: %q %q", c.out, c.said, reason, lines)
		}
	}
}

func FuzzMails(f *testing.F) {
	const one = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: A " +
		"<a@e.example>\nSubject: [PATCH] s\n\n---\ndiff --git a/f b/f\n" +
		"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
	f.Add([]byte(one))
	f.Add([]byte(one + one))
	f.Add([]byte("Subject: s\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := mails("dir/x.mbox", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "dir/x.mbox") {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		if err := name(all, chain.Workspace{Repo: &spec.Repo{}}, ""); err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if len(m.ps) == 0 || !fixID.MatchString(m.id) {
				t.Errorf("%q with %d patches", m.id, len(m.ps))
			}
		}
	})
}

func TestState(t *testing.T) {
	r := &Repo{own: t.TempDir()}
	if s, err := r.load(); s != nil || err != nil {
		t.Fatal(s, err)
	}
	to, err := tag.Parse("b8833")
	if err != nil {
		t.Fatal(err)
	}
	want := &rebasing{
		To: to, Branch: "b", From: "f", Done: []Moved{{Old: "o", How: Merged, Files: []string{"x"}}},
		Stop: &halt{"c", []string{"y"}}, Left: true, Follow: map[string]string{"a": "b"},
	}
	if err := r.save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := r.load(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	if err := os.WriteFile(r.stateFile(), []byte(`{"done": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.load(); err == nil || !strings.Contains(err.Error(), "rebase.json") {
		t.Errorf("a damaged state: %v", err)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"branch": "b", "done": [{"old": "o"}], "to": "b8833", "stop": {"commit": "c"}}`))
	f.Add([]byte(`{"done": null, "when": "2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &Repo{own: t.TempDir()}
		if err := os.MkdirAll(filepath.Dir(r.stateFile()), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.stateFile(), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := r.load(); err == nil {
			if err := r.save(s); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRecover ends what a run had ready from every state that a kill can leave.
func TestRecover(t *testing.T) {
	files := []string{
		"patches/new/fix.toml", "patches/new/b1.patch", "patches/old/fix.toml", "patches/old/b2.patch",
		"patches/series", "resolutions/a",
	}
	for done := range len(files) + 1 {
		dir := t.TempDir()
		put := func(name, text string) {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		put("patches/old/fix.toml", "was")
		put("patches/series", "was")
		put(ready+"/patches/x", "") // a folder that lists it is there to the end
		for i, name := range files {
			if i < done {
				put(name, "is")
			} else {
				put(ready+"/"+name, "is")
			}
		}
		for range 2 {
			if err := Recover(dir); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range files {
			if got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || string(got) != "is" {
				t.Errorf("after %d: %s is %q, %v", done, name, got, err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, ready)); !os.IsNotExist(err) {
			t.Errorf("after %d: %v", done, err)
		}
	}
}
