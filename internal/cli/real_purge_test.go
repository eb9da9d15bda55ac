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
	replay := func(name, src, out, trim string) *smoke.Report {
		t.Helper()
		lib, err := sim.Build(t.Context(), sim.Options{Src: src, Out: out, Headers: os.Getenv("CUDA_HEADERS"), NoVMM: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := smoke.Run(t.Context(), smoke.Options{
			Bin: filepath.Join(dist, "stage", "llama-b8390"), Work: t.TempDir(), Device: spec.Sim, SimEnv: lib.Env(),
			Checks: []spec.Check{{Name: "graph-replay", Device: spec.Sim, Env: map[string]string{"GGML_CUDA_POOL_TRIM": trim}}},
		})
		var failed *smoke.Failed
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("graph-replay, %s: %s: %s", name, r.Checks[0].Verdict, r.Checks[0].Detail)
		return r
	}
	for name, r := range map[string]*smoke.Report{
		"stock":      replay("stock", stock, filepath.Join(dist, "sim", "stock"), "0"),
		"the series": replay("the series", filepath.Join(dist, "src"), filepath.Join(dist, "sim", "patched"), "ubatch"),
	} {
		if r.Checks[0].Verdict != smoke.Passed {
			t.Errorf("%s: %s: %s", name, r.Checks[0].Verdict, r.Checks[0].Detail)
		}
	}
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
	r := replay("the published purge", stock, filepath.Join(dist, "sim", "stock"), "0")
	if r.Checks[0].Verdict != smoke.Wrong || r.Checks[0].Fault != smoke.FaultGraphReplay {
		t.Errorf("the published purge was not caught: %s: %s", r.Checks[0].Verdict, r.Checks[0].Detail)
	}
}
