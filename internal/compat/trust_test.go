package compat

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// A tag that moved, or another upstream's of that name, is told as llpatch apply tells it.
func TestMovedTag(t *testing.T) {
	hist, old, now := drift(t)
	path := hist.write()
	s, err := Folder(writeFiles(t, map[string]string{"1.patch": diffOf(t, "x", map[string]string{"src/f.c": old},
		map[string]string{"src/f.c": now})}))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(git(t, path, "log", "-1", "--format=%H %T", "b3"))
	for name, c := range map[string]struct {
		pin   spec.Pin
		moved bool
	}{
		"as pinned":                {spec.Pin{Commit: f[0], Tree: f[1], Build: 3}, false},
		"the tree, another commit": {spec.Pin{Commit: strings.Repeat("a", 40), Tree: f[1], Build: 3}, false},
		"another tree": {
			spec.Pin{Commit: strings.Repeat("a", 40), Tree: strings.Repeat("b", 40), Build: 3},
			true,
		},
	} {
		h := open(t, path, map[string]spec.Pin{"b3": c.pin})
		_, err := h.Status(t.Context(), Options{}, s, h.Tags)
		m := new(source.Mismatch)
		if is := errors.As(err, &m); is != c.moved || is && (exit.Code(err) != exit.Source ||
			!strings.Contains(err.Error(), "b3 moved upstream") || m.Got != f[0]) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.Status(t.Context(), Options{}, s, h.Tags[:2]); err != nil {
			t.Errorf("%s: other tags: %v", name, err)
		}
	}
}

// What a stranger wrote into names and subjects neither makes a line of its own
// nor reaches the terminal.
func TestHostileNames(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such file names")
	}
	const evil = "a\n  b9  1 tag  exact\x1b[31m\u202e"
	hist := newHistory(t)
	hist.commit("take \x1b]0;owned\x07it", map[string]string{"x": "x\n"})
	hist.tag()
	h := open(t, hist.write())
	p := diffOf(t, "subject \x1b[2J", map[string]string{"src/f.c": "a\n"}, map[string]string{"src/f.c": "b\n"})
	p = strings.ReplaceAll(p, "a/src/f.c b/src/f.c", `"a/`+cQuoted+`" "b/`+cQuoted+`"`)
	p = strings.ReplaceAll(strings.ReplaceAll(p, "--- a/src/f.c", `--- "a/`+cQuoted+`"`), "+++ b/src/f.c", `+++ "b/`+
		cQuoted+`"`)
	s, err := Folder(writeFiles(t, map[string]string{evil + ".patch": p}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	b := &Broken{Stack: r.Stack, Fixes: []BrokenFix{{r.Fixes[0].Fix, r.Fixes[0].Runs}}}
	one := r.Fixes[0].Runs[0].Findings[0].conflict(s.Fixes[0].ID, &s.Fixes[0].Variants[0], evil)
	for name, text := range map[string]string{"table": r.Text(), "error": b.Error(), "conflict": one.Error()} {
		if strings.ContainsAny(text, "\x1b\x07\u202e") || strings.Contains(text, "\n  b9") {
			t.Errorf("%s: %q", name, text)
		}
		if !strings.Contains(text, `\x1b[31m`) {
			t.Errorf("%s: the name is not told: %q", name, text)
		}
	}
	if r.Fixes[0].Runs[0].Findings[0].File != "src/"+evil {
		t.Errorf("JSON has another name: %q", r.Fixes[0].Runs[0].Findings[0].File)
	}
}

// cQuoted is src/ and the name of TestHostileNames as git writes it.
const cQuoted = `src/a\n  b9  1 tag  exact\033[31m\342\200\256`
