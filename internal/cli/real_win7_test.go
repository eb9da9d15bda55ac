//go:build real

package cli_test

import (
	"archive/zip"
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

// TestFullWindows7 releases b8390 for Windows 7 from the npm package, with MinGW and
// wine, and looks at what came out as a downloader would.
func TestFullWindows7(t *testing.T) {
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	llpatch := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), self, append([]string{"-C", root}, args...)...)
		c.Dir = dir
		c.Env = append(os.Environ(), "LLPATCH_CACHE="+filepath.Join(dir, "cache"), "CCACHE_DISABLE=1")
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("llpatch %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	start := time.Now()
	archive := llpatch("release", "b8390", "win7-cpu", "--locked")
	cold := time.Since(start)
	var built chain.Built
	readJSON(t, filepath.Join(filepath.Dir(archive), "artifacts.json"), &built)
	var smoked struct{ Report smoke.Report }
	readJSON(t, filepath.Join(filepath.Dir(archive), "smoke.json"), &smoked)
	t.Logf("cold %v: ninja %.0f s, checks %.0f s", cold.Round(time.Second), built.Artifacts.BuildSeconds,
		smoked.Report.Seconds)
	if !strings.Contains(smoked.Report.Wine, "6.1.7601") {
		t.Errorf("the report says of wine: %q", smoked.Report.Wine)
	}
	if again := llpatch("release", "b8390", "win7-cpu", "--locked", "--offline"); again != archive {
		t.Errorf("the second run gives %s, the first gave %s", again, archive)
	}

	elsewhere := t.TempDir()
	packed, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	if err := os.CopyFS(elsewhere, packed); err != nil {
		t.Fatal(err)
	}
	sh(t, elsewhere, "sha256sum --quiet -c SHA256SUMS")
	if out := llpatch("inspect", "--os", "win7", elsewhere); !strings.Contains(out, "nothing is missing on win7") ||
		strings.Contains(out, "unknown") {
		t.Errorf("llpatch inspect: %s", out)
	}
	if dlls, err := filepath.Glob(filepath.Join(elsewhere, "ggml-cpu-*.dll")); err != nil || len(dlls) != 7 {
		t.Errorf("processors' variants: %v, %v", dlls, err)
	}
	var info bundle.Info
	readJSON(t, filepath.Join(elsewhere, "BUILD_INFO.json"), &info)
	if info.Windows != "win7" || len(info.Checks) < 10 {
		t.Errorf("for %q, with %d checks", info.Windows, len(info.Checks))
	}
	for _, c := range info.Checks {
		if c.Verdict != "passed" || c.Place != "wine" {
			t.Errorf("check %s: %s, place %s", c.Name, c.Verdict, c.Place)
		}
	}
	if left := sh(t, dir, "grep -lsz '^WINEPREFIX="+dir+"' /proc/[0-9]*/environ || true"); left != "" {
		t.Errorf("wine's processes are left: %s", left)
	}
}
