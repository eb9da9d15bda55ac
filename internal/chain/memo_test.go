package chain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is recorded under the same key and still valid is not done again; anything else is,
// and what failed leaves no record.
func TestMemo(t *testing.T) {
	type made struct {
		Text string `json:"text"`
	}
	file := filepath.Join(t.TempDir(), "made.json")
	does, valid := 0, true
	do := func(key string, fails error) (made, error) {
		return Memo(file, key, func(m made) bool { return valid && m.Text == "<done>" }, func() (made, error) {
			does++
			return made{"<done>"}, fails
		})
	}
	for _, c := range []struct {
		name, key string
		valid     bool
		fails     error
		does      int
	}{
		{"first", "a", true, nil, 1},
		{"again", "a", true, nil, 1},
		{"another key", "b", true, nil, 2},
		{"not valid", "b", false, nil, 3},
		{"fails", "c", true, errors.New("no"), 4},
		{"after a failure", "b", true, nil, 5},
	} {
		valid = c.valid
		got, err := do(c.key, c.fails)
		if !errors.Is(err, c.fails) || got.Text != "<done>" || does != c.does {
			t.Errorf("%s: %+v, %v, done %d times, want %d", c.name, got, err, does, c.does)
		}
		if _, err := os.Stat(file); (err == nil) != (c.fails == nil) {
			t.Errorf("%s: the record: %v", c.name, err)
		}
	}
	text, err := os.ReadFile(file)
	if want := "{\n  \"key\": \"b\",\n  \"text\": \"<done>\"\n}\n"; err != nil || string(text) != want {
		t.Errorf("the record is %q, %v", text, err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "}", "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := do("b", nil); err != nil || does != 6 {
		t.Errorf("a record that was cut off: %v, done %d times", err, does)
	}
}
