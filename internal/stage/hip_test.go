package stage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
)

func TestHIPLibs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	library(t, at("lib/libofrocm64.so.6"), "int a;", "-Wl,-soname,libofrocm64.so.6")
	library(t, at("lib/librocblas.so.4"), "int a;", "-Wl,-soname,librocblas.so.4", "-Wl,--no-as-needed",
		at("lib/libofrocm64.so.6"))
	needs := []*binary.File{{Name: "libggml-hip.so", Needed: []string{
		"libc.so.6", "librocblas.so.4", "libnowhere.so.1",
		"libggml-base.so",
	}}, {Name: "libggml-base.so"}}
	l, err := HIPLibraries(at("out"), needs, build.HIPFact{Version: "6.4", Libs: []string{at("lib")}})
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
	if !slices.Equal(l.HostEnv, []string{"LD_LIBRARY_PATH=" + at("out")}) || len(l.How) != 1 ||
		!strings.Contains(l.How[0], "libnowhere.so.1 is neither on this machine") {
		t.Errorf("%+v", l)
	}
	if l, err := HIPLibraries(at("out"), needs, build.HIPFact{}); err != nil || l.HostEnv != nil {
		t.Errorf("a build without HIP: %+v, %v", l, err)
	}
}
