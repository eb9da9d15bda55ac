package bundle

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

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
	p := build.Plan{HIP: build.HIPFact{Version: "6.4", System: "debian"}}
	i := Info{Revision: 2, Glibc: "2.38"}
	if got, want := Name("b8833", rec, p, i),
		"llama-b8833-llp2-bin-debian-rocm-6.4-gfx1201-glibc2.38-x64.tar.gz"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := rec.SetGFX("gfx12-generic,gfx90a:sramecc+:xnack-"); err != nil {
		t.Fatal(err)
	}
	p.HIP.System, i = "", Info{Revision: 2, DropIn: "libggml-hip.so"}
	if got, want := Name("b8833", rec, p, i),
		"llama-b8833-llp2-backend-linux-rocm-6.4-gfx12-generic-gfx90a-srameccon-xnackoff-x64.tar.gz"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	// With too many for a file's name, parts and temporary names included, it says how many.
	many := "gfx900,gfx906,gfx908,gfx90a:sramecc+:xnack-,gfx942:sramecc+:xnack+,gfx1010,gfx1011,gfx1012,gfx1030,gfx1031,gfx1032,gfx1034,gfx1035,gfx1100,gfx1101,gfx1102,gfx1103,gfx1150,gfx1151,gfx1200,gfx1201"
	i = Info{Revision: 2, Glibc: "2.38"}
	seen := map[string]bool{}
	for _, list := range []string{many, many + ",gfx1152"} {
		if err := rec.SetGFX(list); err != nil {
			t.Fatal(err)
		}
		got := Name("b8833", rec, p, i)
		if seen[got] || len(got) > 157 || !strings.Contains(got, fmt.Sprintf("-rocm-6.4-%d-targets-",
			len(rec.Verify.HIP.Archs))) {
			t.Errorf("%s (%d bytes)", got, len(got))
		}
		seen[got] = true
	}
}
