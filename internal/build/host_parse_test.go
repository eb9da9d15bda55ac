package build

import (
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestParseHostName(t *testing.T) {
	for text, want := range map[string][2]string{
		"ssh:box":                 {"box", "llpatch"},
		"ssh:me@box:work":         {"me@box", "work"},
		"ssh:me@box:/srv/a b":     {},
		"ssh:box:C:/llpatch":      {"box", "C:/llpatch"},
		"ssh:box:/srv/x/":         {"box", "/srv/x"},
		"ssh:me@[fe80::1]:work/1": {"me@[fe80::1]", "work/1"},
		"ssh:[fe80::1]":           {"[fe80::1]", "llpatch"},
		"box":                     {}, "ssh:": {}, "ssh::x": {}, "ssh:-oProxyCommand=x": {}, "ssh:a b": {}, "ssh:box:": {}, "ssh:box:..": {}, "ssh:box:../x": {},
		"ssh:box:a/../../b": {}, "ssh:box:.": {}, "ssh:box:-rf": {}, `ssh:box:C:\x`: {}, "ssh:box:$HOME": {}, "ssh:box:a'b": {}, "ssh:box:a;b": {}, "ssh:box:é": {},
	} {
		h, err := ParseHost(text, nil)
		if got := [2]string{h.Name, h.Dir}; got != want || (err == nil) != (want[0] != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if got := run.SSH("me@[fe80::1]", "x"); !slices.Contains(got, "me@fe80::1") {
		t.Errorf("%q", got)
	}
}

func FuzzListing(f *testing.F) {
	sum := strings.Repeat("0123456789abcdef", 4)
	f.Add([]byte(sum + " *src/a b\nx src/a b\nl src/l\nto a b\n"))
	f.Add([]byte("\\" + sum + " *src/a\\nb\n"))
	f.Add([]byte("l a\nl b\nto c\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		files, ok := listing(out)
		for name, c := range files {
			if ok && (c.link == "" && len(c.sum) != 64 || c.link != "" && c.sum != "") {
				t.Errorf("%q: %+v", name, c)
			}
		}
	})
}
