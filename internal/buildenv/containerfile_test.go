//go:build linux

package buildenv

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
	root, out, err := runScript(t, m, d)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if a, b := withoutFolders(t, made.Root), withoutFolders(t, root); !slices.Equal(a, b) {
		t.Errorf("create:\n%s\ncontainer:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	// A package with another hash ends it.
	must(t, os.WriteFile(m.file("libtiny"), []byte("other"), 0o644))
	if _, out, err := runScript(t, m, d); err == nil {
		t.Errorf("a wrong package goes through: %s", out)
	}
	if text := d.Containerfile(); !strings.Contains(text, "FROM debian:tiny-slim AS unpack\n") ||
		strings.Contains(text, m.url) {
		t.Error(text)
	}
}

// runScript runs what a Containerfile of d runs, and returns the root that it makes.
func runScript(t *testing.T, m *mirror, d Decl) (root, out string, err error) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "lock"), []byte(d.Lock.String()), 0o644))
	root = filepath.Join(dir, "root")
	// As a Containerfile has it: lines that end in a backslash are joined.
	text := strings.ReplaceAll(d.unpackScript(), "\n", " \\\n\t")
	c := exec.Command("sh", "-c", text)
	c.Env = append(os.Environ(), "ROOT="+root, "LOCK="+filepath.Join(dir, "lock"), "MIRROR="+m.url)
	said, err := c.CombinedOutput()
	return root, string(said), err
}

// withoutFolders lists a root; an excluded folder that is empty is no matter.
func withoutFolders(t *testing.T, root string) []string {
	t.Helper()
	var kept []string
	for _, l := range strings.Split(tree(t, root), "\n") {
		if !strings.HasPrefix(l, "d") {
			kept = append(kept, l)
		}
	}
	return kept
}

func TestExpand(t *testing.T) {
	got := fmt.Sprint(expand([]string{"a/{b,c}/{d,e}", "f"}))
	if got != "[a/b/d a/b/e a/c/d a/c/e f]" {
		t.Error(got)
	}
}
