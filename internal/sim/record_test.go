package sim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The recorder for real cards, put before the simulated runtime, writes the same
// allocations in the same order as the simulation itself.
func TestRecorder(t *testing.T) {
	runtimeDir(t)
	lib := filepath.Join(t.TempDir(), "record.so")
	tl, err := findTools(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), tl.clang, "-x", "c", "-shared", "-fPIC", "-Wall", "-Wextra",
		"-Werror", "-isystem",
		filepath.Join(headers(t), "include"), "-o", lib, "card/record.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"alloc", "mapped", "pinned", "managed"} {
		dir := t.TempDir()
		sim, card := filepath.Join(dir, "sim"), filepath.Join(dir, "card")
		src := "testdata/programs/" + name + ".c"
		cmd := exec.CommandContext(t.Context(), compile(t, src))
		cmd.Env = append(append(Device{Store: true}.Env(sim, ""), programEnv(t, src)...), "LLPATCH_RECORD="+card,
			"LD_PRELOAD="+lib)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		a, b := allocs(t, sim), allocs(t, card)
		if strings.Count(a, "\n") < 2 {
			t.Errorf("%s: too little to compare:\n%s", name, a)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s (-simulated +recorded):\n%s", name, d)
		}
		f, err := os.Open(card)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range ReadTrace(f) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		f.Close()
	}
}

func allocs(t *testing.T, trace string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "../../scripts/sim-allocs", trace).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
