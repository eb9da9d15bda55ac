package compat

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/patch"
)

func TestFolder(t *testing.T) {
	one := diffOf(t, "First of all", map[string]string{"f": "a\n"}, map[string]string{"f": "b\n"})
	two := diffOf(t, "Second", map[string]string{"f": "b\n"}, map[string]string{"f": "c\n"})
	for name, c := range map[string]struct {
		files map[string]string
		want  string // ids, or a part of the error
		bad   bool
	}{
		"by name": {
			map[string]string{"2.patch": two, "10.patch": one, "README": "x", "sub/3.patch": two},
			"10 2",
			false,
		},
		"diff": {map[string]string{"x.diff": one}, "x", false},
		"series": {map[string]string{
			"series": "b.patch\n\n# c.patch\nsub/a.patch -p1 # why\n", "b.patch": one,
			"sub/a.patch": two, "c.patch": two,
		}, "b sub/a", false},
		"series of CR LF": {map[string]string{"series": "b.patch\r\n", "b.patch": one}, "b", false},
		"nothing":         {map[string]string{"README": "x"}, "has no series file", true},
		"empty series":    {map[string]string{"series": "# none\n", "b.patch": one}, "lists no patch", true},
		"series without":  {map[string]string{"series": "gone.patch\n"}, "gone.patch", true},
		"series twice": {
			map[string]string{"series": "b.patch\nb.patch\n", "b.patch": one},
			"series:2: b.patch is listed twice", true,
		},
		"series leaves":    {map[string]string{"series": "../b.patch\n"}, "series:1:", true},
		"series option":    {map[string]string{"series": "b.patch -p0\n", "b.patch": one}, "-p0 is not supported", true},
		"no patch at all":  {map[string]string{"a.patch": "hello\n"}, "there is no diff", true},
		"every bad one":    {map[string]string{"a.patch": "hello\n", "b.patch": one, "c.patch": "hello\n"}, "c.patch", true},
		"leaves the tree":  {map[string]string{"a.patch": strings.ReplaceAll(one, "/f", "/../f")}, "refused", true},
		"a patch of mails": {map[string]string{"all.patch": one + two}, "all", false},
	} {
		s, err := Folder(writeFiles(t, c.files))
		if c.bad {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want an error with %q", name, err, c.want)
			}
			continue
		}
		var ids []string
		for _, f := range s.Fixes {
			ids = append(ids, f.ID)
		}
		if err != nil || strings.Join(ids, " ") != c.want || !s.Foreign {
			t.Errorf("%s: %v %v, want %s", name, ids, err, c.want)
		}
	}
	dir := writeFiles(t, map[string]string{"a.patch": "hello\n"})
	_, err := Folder(dir)
	// A path that is there, wherever the user stands.
	if e := new(patch.ParseError); !errors.As(err, &e) || e.Name != filepath.Join(dir, "a.patch") {
		t.Errorf("the error has no type: %v", err)
	}
	s, err := Folder(writeFiles(t, map[string]string{"a.patch": one}))
	if err != nil || s.Fixes[0].Summary != "First of all" {
		t.Errorf("summary %q, %v", s.Fixes[0].Summary, err)
	}
}

// Fixes that share no path are judged apart; those that may meet are not.
func TestSplit(t *testing.T) {
	patches := map[string]string{
		"1.patch": diffOf(t, "x", map[string]string{"a": "1\n"}, map[string]string{"a": "2\n"}),
		"2.patch": diffOf(t, "x", map[string]string{"b": "1\n"}, map[string]string{"b": "2\n"}),
		"3.patch": diffOf(t, "x", map[string]string{"a": "1\n", "c": "1\n"}, map[string]string{"a": "2\n", "c": "2\n"}),
		"4.patch": diffOf(t, "x", map[string]string{"z": "1\n"}, map[string]string{"z": "1\n", "B/new": "2\n"}),
		"5.patch": diffOf(t, "x", map[string]string{"d": "1\n"}, map[string]string{"d": "2\n"}),
	}
	s, err := Folder(writeFiles(t, patches))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, part := range newJudge(nil, Options{}, s).parts {
		var ids []string
		for _, i := range part {
			ids = append(ids, s.Fixes[i].ID)
		}
		got[strings.Join(ids, " ")] = true
	}
	if len(got) != 3 || !got["1 3"] || !got["2 4"] || !got["5"] {
		t.Errorf("parts: %v", got)
	}
}
