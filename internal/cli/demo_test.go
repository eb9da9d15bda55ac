package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// make demo ends with what was made, what passed and what to do next, of the tag
// that was really taken; and where the release fails, with nothing of the kind.
func TestDemoSums(t *testing.T) {
	script, err := filepath.Abs("../../scripts/demo")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bin/llpatch": "#!/bin/sh\n[ \"$*\" = 'release b9 linux-cpu --nearest' ] && echo " +
			"dist/b7/linux-cpu/llama.tar.gz\n",
		"dist/b7/linux-cpu/llama.tar.gz": "an archive",
		"dist/b7/linux-cpu/smoke.md": "# Smoke\n\n17 checks: 16 passed, 0 failed, 0 could not run, 1 not run (no card " +
			"here). 9.1 s.\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	demo := func(tag string) (string, error) {
		c := exec.Command("sh", script, tag)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := demo("b9")
	if err != nil {
		t.Fatal(err, out)
	}
	for _, want := range []string{
		"made      dist/b7/linux-cpu/llama.tar.gz (",
		"checked   17 checks: 16 passed, 0 failed, 0 could not run, 1 not run (no card here), on",
		"report    dist/b7/linux-cpu/smoke.html", "explain b7 linux-cpu",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if out, err := demo("b8"); err == nil || strings.Contains(out, "demo:") {
		t.Errorf("a release that failed: %v\n%s", err, out)
	}
}
