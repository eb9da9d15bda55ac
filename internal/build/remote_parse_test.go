package build

import (
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestParseRemoteName(t *testing.T) {
	for text, want := range map[string][2]string{
		"ssh:box":                 {"box", "llpatch"},
		"ssh:me@box:work":         {"me@box", "work"},
		"ssh:me@box:/srv/a b":     {},
		"ssh:box:C:/llpatch":      {"box", "C:/llpatch"},
		"ssh:box:/srv/x/":         {"box", "/srv/x"},
		"ssh:me@[fe80::1]:work/1": {"me@[fe80::1]", "work/1"},
		"ssh:[fe80::1]":           {"[fe80::1]", "llpatch"},
		"box":                     {}, "ssh:": {}, "ssh::x": {}, "ssh:-oProxyCommand=x": {}, "ssh:me@-oProxyCommand=x": {},
		"ssh:a b": {}, "ssh:box:": {}, "ssh:box:..": {}, "ssh:box:../x": {},
		"ssh:box:a/../../b": {}, "ssh:box:.": {}, "ssh:box:-rf": {}, `ssh:box:C:\x`: {}, "ssh:box:$HOME": {},
		"ssh:box:a'b": {}, "ssh:box:a;b": {}, "ssh:box:é": {},
	} {
		h, err := ParseRemote(text, nil)
		if got := [2]string{h.Name, h.Dir}; got != want || (err == nil) != (want[0] != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if got := run.SSH("me@[fe80::1]", "x"); !slices.Contains(got, "me@fe80::1") {
		t.Errorf("%q", got)
	}
}

// A listing that cannot be read to its end is none.
func TestListing(t *testing.T) {
	file := strings.Repeat("0123456789abcdef", 4) + " *src/a\n"
	for out, want := range map[string]bool{
		"": true, file: true, file + "x src/a\r\n": true, file + "l src/b\nto a": true,
		file + strings.Repeat("m", 70<<10) + "\n": false, file + "l src/b\n": false, file + "x src/b\n": false, file +
			"l ../b\nto a\n": false, file + "\n": false,
	} {
		if files, ok := listing([]byte("Welcome\n" + listWord + "\n" + out)); ok != want {
			t.Errorf("%.90q: %v, %v", out, files, ok)
		}
	}
	if _, ok := listing([]byte(file)); ok {
		t.Error("a listing without its first line")
	}
}

// What the machine says of itself decides whether llpatch can look around there.
func TestHello(t *testing.T) {
	for _, c := range []struct{ out, os, here, want string }{
		{"welcome\nllpatch-host Linux x86_64\n/srv/x\n", "linux", "linux/amd64", ""},
		{
			"llpatch-host Linux aarch64\n/srv/x\n", "linux", "linux/amd64",
			"its processor is aarch64, and llpatch, which looks around there, is for amd64",
		},
		{"llpatch-host Linux x86_64\n/srv/x\n", "linux", "darwin/amd64", "this llpatch is for darwin"},
		{"llpatch-host Linux x86_64\n/srv/x\n", "windows", "linux/amd64", "it is no Windows machine"},
		{"llpatch-host Windows ARM64 8 1024\r\nC:/x\r\n", "windows", "linux/amd64", ""},
		{"llpatch-host Linux x86_64\n", "linux", "linux/amd64", "it is no Linux machine"},
		{"$ ", "linux", "linux/amd64", `it says "$"`},
	} {
		sys := posix
		if c.os == box.os {
			sys = box
		}
		goos, arch, _ := strings.Cut(c.here, "/")
		says, err := (&remoteConn{sys: sys}).parseHello([]byte(c.out), goos, arch)
		if c.want == "" && (err != nil || says.dir == "") || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q as %s from %s: %+v, %v; want %q", c.out, c.os, c.here, says, err, c.want)
		}
	}
}

// What comes in the place of facts is shown.
func TestParseAnswer(t *testing.T) {
	for out, want := range map[string]string{
		"no such command: probe-inside": `"no such command: probe-inside"`, `warning: {"facts":`: `"warning: {`, "": `""`,
		`motd {"facts":{"cores":7}}`: "",
	} {
		a, err := parseAnswer([]byte(out))
		if want == "" && (err != nil || a.Facts.Cores != 7) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v", out, a, err)
		}
	}
}

func FuzzListing(f *testing.F) {
	sum := strings.Repeat("0123456789abcdef", 4)
	f.Add([]byte("hello\n" + listWord + "\n" + sum + " *src/a b\nx src/a b\nl src/l\nto a b\n"))
	f.Add([]byte(listWord + "\n\\" + sum + " *src/a\\nb\n"))
	f.Add([]byte(listWord + "\nl a\nl b\nto c\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		files, ok := listing(out)
		for name, c := range files {
			if ok && (c.link == "" && len(c.sum) != 64 || c.link != "" && c.sum != "") {
				t.Errorf("%q: %+v", name, c)
			}
		}
	})
}
