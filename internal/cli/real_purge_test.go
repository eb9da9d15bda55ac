//go:build real

package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// publishedPurge is the negative control of the check graph-replay: the purge
// that was published with upstream issue 22075, in words of our own, must be
// caught launching graphs over memory that it freed; the stock build and ours
// must not.
func publishedPurge(t *testing.T, dist string) {
	stock := filepath.Join(dist, "stock", "src")
	replay := func(name, src, out, trim string, want smoke.Verdict) {
		t.Helper()
		lib, err := sim.Build(t.Context(), sim.Options{Src: src, Out: out, Headers: os.Getenv("CUDA_HEADERS"), NoVMM: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		replayed(t, filepath.Join(dist, "stage", "llama-b8390"), lib, name, trim, want)
	}
	replay("stock", stock, filepath.Join(dist, "sim", "stock"), "0", smoke.Passed)
	replay("the series", filepath.Join(dist, "src"), filepath.Join(dist, "sim", "patched"), "grow", smoke.Passed)
	purge, err := filepath.Abs("../sim/testdata/b8390-purge.patch")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "git", "apply", purge)
	c.Dir = stock
	c.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+dist)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	replay("the published purge", stock, filepath.Join(dist, "sim", "stock"), "0", smoke.Wrong)
}

// replayed runs graph-replay on a dense model in three slots and on a mixture of
// experts in one: a dense model's graph is captured anew after a prompt there.
func replayed(t *testing.T, bin string, lib *sim.Library, name, trim string, want smoke.Verdict) {
	t.Helper()
	for what, args := range map[string]map[string]any{
		"dense, 3 slots":    {"for": "10s"},
		"a mixture, 1 slot": {"for": "3s", "slots": 1, "experts": 8, "model": "q8_0"},
	} {
		r, err := smoke.Run(t.Context(), smoke.Options{
			Bin: bin, Work: t.TempDir(), Device: spec.Sim, SimEnv: lib.Env(),
			Checks: []spec.Check{{Name: "graph-replay", Device: spec.Sim, Args: args, Env: map[string]string{"GGML_CUDA_POOL_TRIM": trim}}},
		})
		var failed *smoke.Failed
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("%s, %s: %v", name, what, err)
		}
		c := r.Checks[0]
		t.Logf("graph-replay, %s, %s: %s: %s %v", name, what, c.Verdict, c.Detail, c.Figures)
		if c.Verdict != want || want == smoke.Wrong && c.Fault != smoke.FaultGraphReplay {
			t.Errorf("%s, %s: %s, want %s: %s", name, what, c.Verdict, want, c.Detail)
		}
	}
}
