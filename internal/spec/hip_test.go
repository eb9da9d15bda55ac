package spec_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestSetGFX(t *testing.T) {
	for list, want := range map[string]struct {
		archs []string
		fault string
	}{
		"gfx1201":                        {archs: []string{"gfx1201"}},
		"gfx1200,gfx1201,gfx1200":        {archs: []string{"gfx1200", "gfx1201"}},
		"gfx12-generic":                  {archs: []string{"gfx12-generic"}},
		"gfx9-4-generic,gfx10-3-generic": {archs: []string{"gfx9-4-generic", "gfx10-3-generic"}},
		"gfx90a:sramecc+:xnack-,gfx90c":  {archs: []string{"gfx90a:sramecc+:xnack-", "gfx90c"}},
		"":                               {fault: `"" is not a target`},
		"native":                         {fault: `"native" is not a target`},
		"1201":                           {fault: `"1201" is not a target`},
		"gfx1201;gfx906":                 {fault: "is not a target"},
		"gfx1201, gfx906":                {fault: `" gfx906" is not a target`},
		"gfx90a:xnack":                   {fault: "is not a target"},
		"gfx1201,":                       {fault: `"" is not a target`},
	} {
		own := &spec.HIP{Files: []string{"x.so"}, Archs: []string{"gfx906"}}
		rec := spec.Recipe{Name: "r", Verify: spec.Verify{HIP: own}}
		err := rec.SetGFX(list)
		if want.fault != "" {
			if err == nil || !strings.Contains(err.Error(), want.fault) {
				t.Errorf("%q: %v, want %q", list, err, want.fault)
			}
			continue
		}
		if err != nil || !slices.Equal(rec.Verify.HIP.Archs, want.archs) || rec.Verify.HIP.Files[0] != "x.so" ||
			own.Archs[0] != "gfx906" {
			t.Errorf("%q: %+v, %v", list, rec.Verify.HIP, err)
		}
	}
	if err := new(spec.Recipe).SetGFX("gfx1201"); err == nil {
		t.Error("a recipe without device code takes targets")
	}
}

// What a recipe for HIP must say.
func TestHIPRefused(t *testing.T) {
	const file = "recipes/rocm-gfx1201.toml"
	for name, c := range map[string]struct{ old, with, want string }{
		"no targets":     {`archs = ["gfx1201"]`, ``, "verify.hip says no archs"},
		"no such target": {`archs = ["gfx1201"]`, `archs = ["sm_86"]`, `"sm_86" is not a target as clang writes it`},
		"twice":          {`archs = ["gfx1201"]`, `archs = ["gfx1201", "gfx1201"]`, "gfx1201 is named twice"},
		"no files":       {`files = ["libggml-hip.so"]` + "\narchs", `archs`, "verify.hip says no files"},
		"another backend": {
			`backends  = ["hip", "cpu"]`, `backends  = ["cuda", "cpu"]`,
			"verify.hip is for recipes that build the backend hip",
		},
		"nothing asked": {
			"[verify.hip]\nfiles = [\"libggml-hip.so\"]\narchs = [\"gfx1201\"]\n", "",
			"it builds the backend hip and has no verify.hip",
		},
		"no such script": {
			`check    = "check-rocm.sh"`, `check    = "check-other.sh"`,
			"check script recipes/check-other.sh",
		},
		"it reads none": {
			`check    = "check-rocm.sh"`, `check    = "check-lost.sh"`,
			"check script recipes/check-lost.sh reads recipes/none.sh: ",
		},
		"a script's path": {
			`check    = "check-rocm.sh"`, `check    = "../check-rocm.sh"`,
			"is not the plain name of a .sh file",
		},
	} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.old) {
			t.Fatalf("%s: %s has no %q", name, file, c.old)
		}
		lost := &fstest.MapFile{Data: []byte(". ./none.sh\n")}
		over := overlay{os.DirFS("../.."), fstest.MapFS{
			"recipes/check-lost.sh": lost,
			file:                    &fstest.MapFile{Data: []byte(strings.Replace(string(text), c.old, c.with, 1))},
		}}
		if _, err := spec.Load(over); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
