package compat

import (
	"strings"
	"testing"
)

// A patch that deletes a file has not landed where that comes later, or has another name.
func TestDeletionsOverHistory(t *testing.T) {
	hist := newHistory(t)
	text := numbered("line", 1, 40)
	for i, files := range []map[string]string{
		{"x": "x\n", "old/g.c": text + "h\n"},                     // b1: before the file, and under another name
		{"src/f.c": text, "src/g.c": text + "g\n", "old/g.c": ""}, // b2
		{"src/f.c": "", "lib/h.c": text},                          // b3: renamed
		{"lib/h.c": "", "src/f.c": text},                          // b4: and back
		{"src/f.c": "", "lib/f.c": "other\n"},                     // b5: gone; a file of its name is another
		{"src/g.c": "", "lib/g.c": text + "edited\ng\n"},          // b6: renamed and edited
	} {
		hist.commit("commit "+strings.Repeat("i", i), files)
		hist.tag()
	}
	h := open(t, hist.write())
	one := diffOf(t, "one", map[string]string{"src/f.c": text}, map[string]string{"src/f.c": ""})
	both := diffOf(t, "both", map[string]string{"src/f.c": text, "x": "x\n"}, map[string]string{"src/f.c": "", "x": "y\n"})
	edited := diffOf(t, "edited", map[string]string{"src/g.c": text + "g\n"}, map[string]string{"src/g.c": ""})
	s, err := Folder(writeFiles(t, map[string]string{"1.patch": one, "2.patch": edited}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"b1 not there yet, b2 exact, b3 missing file, b4 exact, b5..b6 landed",
		"b1 missing file, b2..b5 exact, b6 missing file",
	} {
		if got := runs(r.Fixes[i]); got != want {
			t.Errorf("runs:\n%s\nwant\n%s", got, want)
		}
	}
	text = r.Text()
	for _, want := range []string{
		"nothing to delete: src/f.c comes with b2",
		"src/f.c: missing file (deletes a file that is now lib/h.c, unchanged)",
		"src/g.c: missing file (deletes a file that comes with b2, and is old/g.c before)",
		"src/g.c: missing file (deletes a file that was removed; lib/g.c is new and has its name)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	// Beside another change it is a conflict, before the file is there and after.
	if s, err = Folder(writeFiles(t, map[string]string{"1.patch": both})); err != nil {
		t.Fatal(err)
	}
	for _, tags := range [][]Tag{h.Tags, h.Tags[:1], h.Tags[2:3]} {
		if r, err = h.Status(t.Context(), Options{}, s, tags); err != nil {
			t.Fatal(err)
		}
		for _, run := range r.Fixes[0].Runs {
			switch run.From {
			case "b1", "b3":
				if run.Verdict != MissingFile || len(run.Findings) != 1 || run.Held != 0 {
					t.Errorf("%s: %+v", run.From, run)
				}
			case "b5":
				if run.Verdict != Partly || len(run.Landed) != 1 || run.Landed[0].Since != "b5" {
					t.Errorf("%s: %+v", run.From, run)
				}
			}
		}
	}
}
