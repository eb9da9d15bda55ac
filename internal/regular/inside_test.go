package regular

import "testing"

func TestInside(t *testing.T) {
	for _, c := range []struct {
		at, to, where string
		ok            bool
	}{
		{"a", "b", "b", true},
		{"a/b", "../c", "c", true},
		{"a/b", "../..", "..", false},
		{"a", "..", "..", false},
		{"a", "../x", "../x", false},
		{"a/b/c", "../../..x", "..x", true},
		{"a", "/etc", "etc", false},
		{"a", "", ".", false},
		{"a", `..\x`, `..\x`, false},
		{"a/b", "..", ".", true},
		{"a", "x/../../y", "../y", false},
	} {
		if where, ok := Inside(c.at, c.to); where != c.where || ok != c.ok {
			t.Errorf("%s -> %s: %s, %v", c.at, c.to, where, ok)
		}
	}
}
