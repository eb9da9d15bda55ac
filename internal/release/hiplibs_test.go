package release

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

func TestHIPLibs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	library(t, at("lib/libofrocm64.so.6"), "int a;", "-Wl,-soname,libofrocm64.so.6")
	library(t, at("lib/librocblas.so.4"), "int a;", "-Wl,-soname,librocblas.so.4", "-Wl,--no-as-needed", at("lib/libofrocm64.so.6"))
	needs := []*binary.File{{Name: "libggml-hip.so", Needed: []string{"libc.so.6", "librocblas.so.4", "libnowhere.so.1", "libggml-base.so"}}, {Name: "libggml-base.so"}}
	l, err := hipLibs(at("out"), needs, build.HIPFact{Version: "6.4", Libs: []string{at("lib")}})
	if err != nil {
		t.Fatal(err)
	}
	// A library that another needs is led to as well, and none that the system has.
	for _, name := range []string{"librocblas.so.4", "libofrocm64.so.6"} {
		if to, err := os.Readlink(at("out/" + name)); err != nil || to != at("lib/"+name) {
			t.Errorf("%s leads to %s, %v", name, to, err)
		}
	}
	if entries, _ := os.ReadDir(at("out")); len(entries) != 2 {
		t.Errorf("%v", entries)
	}
	if !slices.Equal(l.host, []string{"LD_LIBRARY_PATH=" + at("out")}) || len(l.how) != 1 || !strings.Contains(l.how[0], "libnowhere.so.1 is neither on this machine") {
		t.Errorf("%+v", l)
	}
	if l, err := hipLibs(at("out"), needs, build.HIPFact{}); err != nil || l.host != nil {
		t.Errorf("a build without HIP: %+v, %v", l, err)
	}
}

func TestCanStart(t *testing.T) {
	for _, c := range []struct{ floor, here, want string }{
		{"2.38", "2.43", ""},
		{"2.38", "2.38", ""},
		{"", "2.31", ""},
		{"2.38", "", ""},
		{"2.43", "2.36", "the programs need glibc 2.43 and this machine has 2.36"},
	} {
		if err := canStart(c.floor, c.here); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if v, err := hostGlibc(t.Context(), "EM_X86_64"); err != nil || binary.Less(v, "2.17") {
		t.Errorf("this machine's glibc is %q, %v", v, err)
	}
}

// The name says whose system, which ROCm, which cards and which glibc.
func TestHIPBundleName(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := repo.Recipe("rocm-gfx1201")
	if err != nil {
		t.Fatal(err)
	}
	b := &Built{Level: 2, Plan: build.Plan{HIP: build.HIPFact{Version: "6.4", System: "debian"}}}
	name, err := tag.Parse("b8833")
	if err != nil {
		t.Fatal(err)
	}
	c := &Chain{Recipe: rec, Tree: &source.Tree{Tag: name}}
	if got, want := c.bundleName(b, "2.38"), "llama-b8833-llp2-bin-debian-rocm-6.4-gfx1201-glibc2.38-x64"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := c.Recipe.SetGFX("gfx12-generic,gfx90a:sramecc+:xnack-"); err != nil {
		t.Fatal(err)
	}
	b.Plan.HIP.System, c.drop = "", "libggml-hip.so"
	if got, want := c.bundleName(b, ""), "llama-b8833-llp2-backend-linux-rocm-6.4-gfx12-generic-gfx90a-srameccon-xnackoff-x64"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	// With too many for a file's name, parts and temporary names included, it says how many.
	many := "gfx900,gfx906,gfx908,gfx90a:sramecc+:xnack-,gfx942:sramecc+:xnack+,gfx1010,gfx1011,gfx1012,gfx1030,gfx1031,gfx1032,gfx1034,gfx1035,gfx1100,gfx1101,gfx1102,gfx1103,gfx1150,gfx1151,gfx1200,gfx1201"
	seen := map[string]bool{}
	for _, list := range []string{many, many + ",gfx1152"} {
		if err := c.Recipe.SetGFX(list); err != nil {
			t.Fatal(err)
		}
		got := c.bundleName(b, "2.38")
		if seen[got] || len(got) > 150 || !strings.Contains(got, fmt.Sprintf("-rocm-6.4-%d-targets-", len(c.Recipe.Verify.HIP.Archs))) {
			t.Errorf("%s (%d bytes)", got, len(got))
		}
		seen[got] = true
	}
}
