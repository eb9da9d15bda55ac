package compat

import (
	"strings"
	"testing"
)

// TestAround compares the tags around each one with what Status says of all.
func TestAround(t *testing.T) {
	hist, old, now := drift(t)
	h := open(t, hist.write())
	first, second := strings.Replace(old, "old first", "new first", 1),
		strings.Replace(now, "new second", "newest second", 1)
	s, err := Folder(writeFiles(t, map[string]string{
		"1.patch": diffOf(t, "one", map[string]string{"src/f.c": old}, map[string]string{"src/f.c": first}),
		"2.patch": diffOf(t, "other", map[string]string{"other.c": "y\n"},
			map[string]string{"other.c": "z\n", "src/new/a": "1\n"}),
		"3.patch": diffOf(t, "on one", map[string]string{"src/f.c": first}, map[string]string{"src/f.c": now}),
		"4.patch": diffOf(t, "on both", map[string]string{"src/f.c": now, "src/new/a": "1\n"},
			map[string]string{"src/f.c": second, "src/new/a": "2\n"}),
		"5.patch": diffOf(t, "alone", nil, map[string]string{"LICENSE": "x\n"}),
		"6.patch": diffOf(t, "in the way", nil, map[string]string{"SRC/new": "x\n"}),
	}))
	if err != nil {
		t.Fatal(err)
	}
	all, err := h.Status(t.Context(), Options{}, s, h.Tags)
	if err != nil {
		t.Fatal(err)
	}
	fits := 0
	for at := range h.Tags {
		got, err := h.Around(t.Context(), Options{}, s, at)
		if err != nil {
			t.Fatal(err)
		}
		for i, st := range all.Fixes {
			want := [2]int{-1, -1}
			if st.verdicts[at].Fits() {
				fits++
				want = [2]int{at, at}
				for ; want[0] > 0 && st.verdicts[want[0]-1].Fits(); want[0]-- {
				}
				for ; want[1]+1 < len(h.Tags) && st.verdicts[want[1]+1].Fits(); want[1]++ {
				}
			}
			if got[i] != want {
				t.Errorf("%s at %s: %v, want %v (%v)", st.Fix, h.Tags[at].Name, got[i], want, st.verdicts)
			}
		}
	}
	if fits < 20 {
		t.Errorf("only %d cells fit", fits)
	}
	if n := needed(newJudge(h, Options{}, s), []int{4}); len(n) != 1 {
		t.Errorf("the fix that is alone needs %v", n)
	}
	if n := needed(newJudge(h, Options{}, s), []int{5}); len(n) != 5 {
		t.Errorf("the file in the way of a folder needs %v", n)
	}
}
