package chain

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// The root's library is in the programs where a feature that looks for its header is on, and
// its terms come from the root.
func TestLinked(t *testing.T) {
	root := t.TempDir()
	lib := buildenv.Library{Name: "OpenSSL 3.5.5", Header: "openssl/ssl.h", Crate: "openssl-src"}
	var c Checked
	c.Site.Root = &buildenv.Decl{Library: &lib}
	c.Site.root = &buildenv.Entered{Info: buildenv.Info{Root: root}}
	c.Recipe.Optional = []spec.Optional{
		{Option: "LLAMA_OPENSSL", Header: "openssl/ssl.h"},
		{Option: "OTHER", Header: "other.h"},
	}
	of := func(options ...build.Option) map[string][]byte {
		t.Helper()
		c.Plan.Options = options
		got, err := c.linked()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	on := build.Option{Name: "LLAMA_OPENSSL", Value: "ON"}
	c.Plan.Options = []build.Option{on}
	if _, err := c.linked(); err == nil || !strings.Contains(err.Error(),
		"the terms of OpenSSL 3.5.5, which is linked in: ") {
		t.Errorf("no terms: %v", err)
	}
	terms := filepath.Join(root, lib.Terms())
	if err := os.MkdirAll(filepath.Dir(terms), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(terms, []byte("free"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := of(on); len(got) != 1 || string(got[lib.Name]) != "free" {
		t.Errorf("%q", got)
	}
	for _, options := range [][]build.Option{
		{{Name: "LLAMA_OPENSSL", Value: "OFF"}},
		{{Name: "OTHER", Value: "ON"}},
		{{Name: "GGML_NATIVE", Value: "ON"}},
	} {
		if got := of(options...); len(got) > 0 {
			t.Errorf("%v: %q", options, got)
		}
	}
	c.Site.library, c.Site.linkable, c.Site.Root = c.Site.root, c.Site.Root, nil
	if got := of(on); len(got) != 1 {
		t.Errorf("the toolchain's: %q", got)
	}
	c.Site.library = nil
	if got := of(on); len(got) > 0 {
		t.Errorf("no root: %q", got)
	}
}

// Where the library of a toolchain is not there, the facts say why, and nothing else stops.
func TestFindLibrary(t *testing.T) {
	lib := buildenv.Library{
		Name: "X 4", Header: "x.h", Crate: "x", Version: "1.2.3", SHA256: strings.Repeat("0", 64),
		Dir: ".", Steps: [][]string{{"/usr/bin/no-such-program"}},
	}
	d := buildenv.Decl{Name: "x", Arch: "amd64", Library: &lib, Lock: &buildenv.Lock{
		Kind: buildenv.Rust, Suite: "1.2.3",
		Arch: "amd64",
	}}
	e := Workspace{
		Cache: t.TempDir(), Repo: &spec.Repo{Buildenvs: map[string]buildenv.Decl{"x": d}},
		Log: slog.New(slog.DiscardHandler),
	}
	o := Order{Recipe: spec.Recipe{Optional: []spec.Optional{{Option: "X", Header: "x.h"}}}}
	for want, s := range map[string]*Site{
		"llpatch env create x makes it": {},
		"/usr/bin/no-such-program":      {Machine: Machine{Builds: true}},
	} {
		s.Toolchain.Library = "x"
		if err := s.findLibrary(t.Context(), e, o); err != nil || s.library != nil ||
			!strings.Contains(s.Facts.Library.Why, want) {
			t.Errorf("%v: %+v, want %q", err, s.Facts.Library, want)
		}
	}
	s := &Site{Toolchain: spec.Toolchain{Library: "x"}}
	if err := s.findLibrary(t.Context(), e, Order{}); err != nil || s.Facts.Library.Name != "" {
		t.Errorf("a recipe that has no use for it: %v, %+v", err, s.Facts.Library)
	}
}
