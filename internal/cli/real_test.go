//go:build real

package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/smoke"
)

// TestReal releases b8390 for linux-cpu from the npm package, as a user
// without a way to GitHub would, and uses what came out.
func TestReal(t *testing.T) {
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	llpatch := func(args ...string) (string, time.Duration) {
		t.Helper()
		start := time.Now()
		c := exec.CommandContext(t.Context(), self, append([]string{"-C", root}, args...)...)
		c.Dir = dir
		c.Env = append(os.Environ(), "LLPATCH_CACHE="+filepath.Join(dir, "cache"), "CCACHE_DISABLE=1")
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("llpatch %v: %v", args, err)
		}
		return strings.TrimSpace(string(out)), time.Since(start)
	}
	archive, cold := llpatch("release", "b8390", "linux-cpu", "--locked")
	var built chain.Built
	readJSON(t, filepath.Join(filepath.Dir(archive), "artifacts.json"), &built)
	var smoked struct{ Report smoke.Report }
	readJSON(t, filepath.Join(filepath.Dir(archive), "smoke.json"), &smoked)
	tools := built.Artifacts.ConfigureSeconds + built.Artifacts.BuildSeconds
	own := cold.Seconds() - tools - smoked.Report.Seconds
	t.Logf("cold: %.1f s in all; cmake %.1f s, ninja %.1f s, smoke %.1f s, llpatch's own %.1f s: %.2f %% of cmake and ninja",
		cold.Seconds(), built.Artifacts.ConfigureSeconds, built.Artifacts.BuildSeconds, smoked.Report.Seconds, own, 100*own/tools)
	again, warm := llpatch("release", "b8390", "linux-cpu", "--locked", "--offline")
	t.Logf("cold %v, again %v, %s", cold.Round(time.Second), warm.Round(10*time.Millisecond), filepath.Base(archive))
	if again != archive {
		t.Errorf("the second run gives %s, the first gave %s", again, archive)
	}

	// What a downloader does: an empty folder elsewhere, nothing of the build in the environment.
	elsewhere := t.TempDir()
	do := func(name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = elsewhere
		c.Env = []string{"PATH=/usr/bin:/bin", "LANG=C"}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	do("tar", "xzf", archive)
	elsewhere = filepath.Join(elsewhere, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
	do("sha256sum", "--quiet", "-c", "SHA256SUMS")
	for _, prog := range []string{"llama-server", "llama-cli", "llama-bench", "llama-quantize"} {
		if _, err := os.Stat(filepath.Join(elsewhere, prog)); err != nil {
			t.Error(err)
		}
	}
	if v := do("./llama-server", "--version"); !strings.Contains(v, "version: 8390 (b6c83aad5-llp") {
		t.Errorf("llama-server --version: %s", v)
	}
	var info bundle.Info
	data := readJSON(t, filepath.Join(elsewhere, "BUILD_INFO.json"), &info)
	if info.Tree != "f4f156dc575fe331750c66b02d9e1e8152696d46" || info.Patched == info.Tree || len(info.Series.In) == 0 || info.Glibc == "" {
		t.Errorf("BUILD_INFO: tree %s, patched %s, %d fixes, glibc %q", info.Tree, info.Patched, len(info.Series.In), info.Glibc)
	}
	for _, c := range info.Checks {
		if c.Verdict != "passed" {
			t.Errorf("check %s: %s", c.Name, c.Verdict)
		}
	}
	if len(info.Checks) < 5 {
		t.Errorf("only %d checks", len(info.Checks))
	}
	if bytes.Contains(data, []byte(root)) || bytes.Contains(data, []byte(dir)) {
		t.Error("BUILD_INFO.json names a folder of the build machine")
	}
	loadModels(t, elsewhere)
	recordEvidence(t, elsewhere)
	brokenKernel(t, built.Artifacts.Dir)
	if os.Getenv("CUDA_HEADERS") == "" {
		t.Log("NOT RUN: the proofs on the simulated device, for want of CUDA_HEADERS (scripts/cuda-headers makes that folder)")
		return
	}
	lines, took := llpatch("smoke", "b8390", "linux-cpu", "--locked", "--offline", "--device", "sim")
	t.Logf("proofs, %v:\n%s", took.Round(time.Second), lines)
	for _, in := range info.Series.In {
		if !strings.Contains(lines, "passed: "+in.Fix+" b8390") {
			t.Errorf("no proof of %s", in.Fix)
		}
	}
	breakable := subject{
		tag: "b8390", src: filepath.Join(filepath.Dir(archive), "src"), bin: filepath.Join(filepath.Dir(archive), "stage", "llama-b8390"),
		dir: filepath.Dir(archive), build: 8390, fixes: repository(t),
	}
	brokenFixes(t, breakable, "sim", "", oneEach(), false)
	publishedPurge(t, filepath.Dir(archive))
	if os.Getenv("HIP_HEADERS") == "" {
		t.Log("NOT RUN: the proofs on the simulated HIP device, for want of HIP_HEADERS (scripts/hip-headers makes that folder)")
		return
	}
	lines, took = llpatch("smoke", "b8390", "linux-cpu", "--locked", "--offline", "--device", "sim-hip")
	t.Logf("proofs on HIP, %v:\n%s", took.Round(time.Second), lines)
	for _, proof := range []string{
		"graph-cache-lru", "graph-cache-lru (three slots)", "graph-cache-lru (a dense model, wholly on the device)", "ubatch-pool-purge",
		"managed-fallback", "managed-fallback (the cache, GGML_CUDA_ALLOC_FALLBACK_MANAGED)", "managed-fallback (the pool, GGML_CUDA_POOL_USE_MANAGED)",
		"managed-fallback (the pool, not asked)",
	} {
		if !strings.Contains(lines, "passed: "+proof+" b8390 on the simulated HIP device") {
			t.Errorf("no proof of %s", proof)
		}
	}
	brokenFixes(t, breakable, "sim-hip", os.Getenv("HIP_HEADERS"), oneEach(), false)
}

func readJSON(t *testing.T, name string, v any) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return data
}
