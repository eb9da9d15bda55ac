package binary_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	inspect "github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// The oracle is binutils' objdump -T.
func TestSymbolsAgreeWithObjdump(t *testing.T) {
	dir := link(t)
	for _, name := range []string{"prog", "libgreet.so.1"} {
		f, err := inspect.Inspect(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("objdump", "-T", filepath.Join(dir, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		var exports []string
		by := map[string][]string{}
		for _, m := range regexp.MustCompile(`(?m)^[0-9a-f]+ .{7} (\S+)\s+[0-9a-f]+\s+\(?(\S*?)\)?\s+(\S+)$`).FindAllStringSubmatch(string(out), -1) {
			section, version, symbol := m[1], m[2], m[3]
			if section != "*UND*" {
				exports = append(exports, symbol)
				continue
			}
			if family, number, _ := strings.Cut(version, "_"); number != "" && f.Versions[family] == number {
				by[family] = append(by[family], symbol)
			}
		}
		slices.Sort(exports)
		if diff := cmp.Diff(exports, inspect.Names(f.Exports())); diff != "" || f.ExportCount != len(exports) ||
			name != "prog" && len(exports) == 0 {
			t.Errorf("%s exports: %s", name, diff)
		}
		for family, names := range by {
			slices.Sort(names)
			if diff := cmp.Diff(names[:min(len(names), 8)], f.VersionsBy[family]); diff != "" {
				t.Errorf("%s, needing %s %s: %s", name, family, f.Versions[family], diff)
			}
		}
		if len(by["GLIBC"]) == 0 || len(by["GLIBCXX"]) == 0 {
			t.Errorf("%s: objdump says only %v", name, by)
		}
	}
}

// Relative relocations in DT_RELR ask for glibc 2.36 by a version that is no number.
func TestRelativeRelocationsNeedGlibc(t *testing.T) {
	dir := link(t, "-Wl,-z,pack-relative-relocs", "-pie")
	f, err := inspect.Inspect(filepath.Join(dir, "prog"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Versions["GLIBC"] != "2.36" {
		t.Errorf("needs GLIBC %s, want 2.36", f.Versions["GLIBC"])
	}
	_, err = inspect.Verify(dir, []string{"prog", "libgreet.so.1"},
		spec.Verify{Limits: buildenv.Limits{GlibcMax: "2.35"}, Needed: []string{"*"}})
	if err == nil || !strings.Contains(err.Error(), "needs GLIBC_2.36 for GLIBC_ABI_DT_RELR, above the 2.35") {
		t.Errorf("%v", err)
	}
}

// A library that needs nothing has no table of versions.
func TestInspectWithoutVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libx.so")
	src := filepath.Join(filepath.Dir(path), "x.c")
	if err := os.WriteFile(src, []byte("int answer(void) { return 42; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-nostdlib", "-o", path, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := inspect.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"answer"}, inspect.Names(f.Exports())); diff != "" || len(f.Needed) > 0 {
		t.Errorf("%v %s", f.Needed, diff)
	}
}
