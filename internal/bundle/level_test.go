package bundle

import "testing"

// What an earlier llpatch wrote is still read.
func TestReadInfoLevel(t *testing.T) {
	for text, want := range map[string]int{
		`{"tag": "b8833", "series": {}, "level": 3}`:                3,
		`{"tag": "b8833", "series": {}, "revision": 2}`:             2,
		`{"tag": "b8833", "series": {}, "revision": 2, "level": 3}`: 2,
	} {
		i, err := ReadInfo([]byte(text))
		if err != nil || i.Revision != want {
			t.Errorf("%s: %d, %v", text, i.Revision, err)
		}
	}
	if _, err := ReadInfo([]byte(`{"tag": "b8833", "series": {}, "level": "x"}`)); err == nil {
		t.Error("a level that is no number is read")
	}
}
