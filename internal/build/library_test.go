package build

import (
	"slices"
	"strings"
	"testing"
)

// The library of a toolchain is found by CMake where it lies, here or in a root, and decides
// what the plan is by its version alone; where it is not there, the reason is told.
func TestToolchainLibrary(t *testing.T) {
	in := inputFor(t, "win7-cpu", "b8833")
	in.Facts.Headers = nil
	plan := func(change func(*Input)) Plan {
		t.Helper()
		c := in
		change(&c)
		p, err := NewPlan(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	value := func(p Plan, name string) string {
		i := slices.IndexFunc(p.Options, func(o Option) bool { return o.Name == name })
		if i < 0 {
			return ""
		}
		return p.Options[i].Value
	}
	const roots = "CMAKE_FIND_ROOT_PATH"
	without := plan(func(*Input) {})
	lib := LibraryFact{Name: "OpenSSL 3.5.5", Header: "openssl/ssl.h", Dir: "/cache/x/root"}
	here := plan(func(in *Input) { in.Facts.Library = lib })
	if without.HTTPS() || !here.HTTPS() || value(here, roots) != "/cache/x/root;"+value(without, roots) ||
		value(here, "OPENSSL_USE_STATIC_LIBS") != "ON" || len(here.Off) >= len(without.Off) {
		t.Errorf("%s, off %q", value(here, roots), here.Off)
	}
	inside := plan(func(in *Input) { in.Facts.Library, in.Facts.Root = lib, &RootFact{Name: "r"} })
	if got := value(inside, roots); !strings.HasPrefix(got, InsideLibrary+";") {
		t.Error(got)
	}
	if f := inside.Folders(); len(f) != 3 || f[2].Outside != lib.Dir || f[2].Inside != InsideLibrary ||
		len(without.Folders()) != 2 {
		t.Errorf("%+v", f)
	}
	moved, newer := lib, lib
	moved.Dir, newer.Name = "/elsewhere", "OpenSSL 3.5.6"
	for _, c := range []struct {
		lib  LibraryFact
		same bool
	}{{moved, true}, {newer, false}, {LibraryFact{}, false}} {
		if p := plan(func(in *Input) { in.Facts.Library = c.lib }); (p.Digest == here.Digest) != c.same {
			t.Errorf("%+v: digest the same: %v", c.lib, p.Digest == here.Digest)
		}
	}
	gone := plan(func(in *Input) { in.Facts.Library = LibraryFact{Name: lib.Name, Header: lib.Header, Why: "no cargo"} })
	if gone.HTTPS() || gone.Digest != without.Digest || !slices.ContainsFunc(gone.Off, func(s string) bool {
		return strings.HasSuffix(s, ": no cargo")
	}) {
		t.Errorf("%q", gone.Off)
	}
}

// FindOpenSSL keeps what it found under other names for MinGW.
func TestOpenSSLFound(t *testing.T) {
	p := Plan{Options: []Option{{Name: "LLAMA_OPENSSL", Value: "ON"}}}
	for entry, found := range map[string]bool{
		"OPENSSL_SSL_LIBRARY=/usr/lib/libssl.so": true, "SSL_EAY=/lib/libssl.a": true,
		"OPENSSL_SSL_LIBRARY=OPENSSL_SSL_LIBRARY-NOTFOUND": false, "SSL_EAY=": false,
	} {
		name, value, _ := strings.Cut(entry, "=")
		err := p.checkOptions(nil, map[string]string{"LLAMA_OPENSSL": "ON", name: value})
		if (err == nil) != found {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
