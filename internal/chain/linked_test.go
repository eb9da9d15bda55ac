package chain

import (
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
	c.site.Root = &buildenv.Decl{Library: &lib}
	c.site.root = &buildenv.Entered{Info: buildenv.Info{Root: root}}
	c.Recipe.Optional = []spec.Optional{{Option: "LLAMA_OPENSSL", Header: "openssl/ssl.h"}, {Option: "OTHER", Header: "other.h"}}
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
	if _, err := c.linked(); err == nil || !strings.Contains(err.Error(), "the terms of OpenSSL 3.5.5, which is linked in: ") {
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
	for _, options := range [][]build.Option{{{Name: "LLAMA_OPENSSL", Value: "OFF"}}, {{Name: "OTHER", Value: "ON"}}, {{Name: "GGML_NATIVE", Value: "ON"}}} {
		if got := of(options...); len(got) > 0 {
			t.Errorf("%v: %q", options, got)
		}
	}
	c.site.Root = nil
	if got := of(on); len(got) > 0 {
		t.Errorf("no root: %q", got)
	}
}
