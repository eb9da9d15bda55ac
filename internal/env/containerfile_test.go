//go:build linux

package env

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a Containerfile runs makes the same root as Create.
func TestContainerfile(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	made, err := Create(t.Context(), d, m.options())
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "lock"), []byte(d.Lock.String()), 0o644))
	root := filepath.Join(dir, "root")
	runIt := func() (string, error) {
		// As a Containerfile has it: lines that end in a backslash are joined.
		text := strings.ReplaceAll(d.unpackScript(), "\n", " \\\n\t")
		c := exec.Command("sh", "-c", text)
		c.Env = append(os.Environ(), "ROOT="+root, "LOCK="+filepath.Join(dir, "lock"), "MIRROR="+m.url)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := runIt(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := func(root string) []string {
		var kept []string
		for _, l := range strings.Split(tree(t, root), "\n") {
			if !strings.HasPrefix(l, "d") { // an excluded folder that is empty is no matter
				kept = append(kept, l)
			}
		}
		return kept
	}
	if a, b := lines(made.Root), lines(root); !slices.Equal(a, b) {
		t.Errorf("create:\n%s\ncontainer:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	// A package with another hash ends it.
	must(t, os.RemoveAll(root))
	must(t, os.WriteFile(m.file("libtiny"), []byte("other"), 0o644))
	if out, err := runIt(); err == nil {
		t.Errorf("a wrong package goes through: %s", out)
	}
	if text := d.Containerfile(); !strings.Contains(text, "FROM debian:tiny-slim AS unpack\n") || strings.Contains(text, m.url) {
		t.Error(text)
	}
}

func TestExpand(t *testing.T) {
	got := fmt.Sprint(expand([]string{"a/{b,c}/{d,e}", "f"}))
	if got != "[a/b/d a/b/e a/c/d a/c/e f]" {
		t.Error(got)
	}
}
