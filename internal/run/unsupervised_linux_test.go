package run_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program whose main does not call Supervise starts itself as its own
// supervisor: that must end with the first, and say why.
func TestSuperviseForgotten(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "unsupervised")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe,
		"./testdata/unsupervised").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe).CombinedOutput()
	if ctx.Err() != nil || err == nil || !strings.Contains(string(out), "run.Supervise") {
		t.Fatalf("%v, %v:\n%s", err, ctx.Err(), out)
	}
}
