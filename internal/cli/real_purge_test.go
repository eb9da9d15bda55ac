//go:build real

package cli_test

import (
	"errors"
	"fmt"
	"os"
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
func publishedPurge(t *testing.T, b subject, cache string) {
	t.Helper()
	dir := t.TempDir()
	_, stock := bothTrees(t, dir, cache)
	stockLibrary := func() (*sim.Library, error) {
		return sim.Build(t.Context(), sim.Options{
			Src: stock, Out: filepath.Join(dir, "sim"),
			Headers: os.Getenv("CUDA_HEADERS"), NoVMM: true,
		})
	}
	replay := func(name, trim string, want smoke.Verdict, library func() (*sim.Library, error)) {
		t.Helper()
		lib, err := library()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		replayed(t, b.bin, lib, name, trim, want)
	}
	replay("stock", "0", smoke.Passed, stockLibrary)
	replay("the series", "grow", smoke.Passed, func() (*sim.Library, error) { return b.library(t, "sim", "") })
	purge, err := filepath.Abs("../sim/testdata/b8390-purge.patch")
	if err != nil {
		t.Fatal(err)
	}
	sh(t, stock, fmt.Sprintf("GIT_CEILING_DIRECTORIES=%s git apply %s", quoted(dir), quoted(purge)))
	replay("the published purge", "0", smoke.Failed, stockLibrary)
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
			Checks: []spec.Check{{
				Name: "graph-replay", Device: spec.Sim, Args: args,
				Env: map[string]string{"GGML_CUDA_POOL_TRIM": trim},
			}},
		})
		var failed *smoke.FailedChecks
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("%s, %s: %v", name, what, err)
		}
		c := r.Checks[0]
		t.Logf("graph-replay, %s, %s: %s: %s %v", name, what, c.Verdict, c.Detail, c.Figures)
		if c.Verdict != want || want == smoke.Failed && c.Fault != smoke.FaultGraphReplay {
			t.Errorf("%s, %s: %s, want %s: %s", name, what, c.Verdict, want, c.Detail)
		}
	}
}
