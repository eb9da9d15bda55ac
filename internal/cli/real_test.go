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
// without a way to GitHub would, and uses what came out. Its fixes are proven by
// make proof and make broken-fixes.
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
	t.Logf("cold: %.1f s in all; cmake %.1f s, ninja %.1f s, smoke %.1f s, llpatch's own %.1f s: %.2f %% of "+
		"cmake and ninja",
		cold.Seconds(), built.Artifacts.ConfigureSeconds, built.Artifacts.BuildSeconds, smoked.Report.Seconds, own,
		100*own/tools)
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
	if info.Tree != "f4f156dc575fe331750c66b02d9e1e8152696d46" || info.Patched == info.Tree || len(info.Series.In) == 0 ||
		info.Glibc == "" {
		t.Errorf("BUILD_INFO: tree %s, patched %s, %d fixes, glibc %q", info.Tree, info.Patched, len(info.Series.In),
			info.Glibc)
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
	smokeTests(t, root, elsewhere)
	recordEvidence(t, elsewhere)
	t.Setenv("LLPATCH_CACHE", filepath.Join(dir, "cache"))
	askShapes(t, "gemma4", "--build", built.Artifacts.Dir)
	brokenKernel(t, built.Artifacts.Dir)
}

// smokeTests runs what internal/smoke's own tests want of a real build.
func smokeTests(t *testing.T, root, bin string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "test", "./internal/smoke", "-count", "1", "-v", "-run", "^TestReal",
		"-args", "-llama-server", filepath.Join(bin, "llama-server"))
	c.Dir = root
	out, err := c.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("--- SKIP")) || !bytes.Contains(out, []byte("--- PASS")) {
		t.Errorf("go test ./internal/smoke: %v\n%s", err, out)
	}
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
