package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a bundle takes in follows a link of its own folder, and no other.
func TestClosureLinks(t *testing.T) {
	for to, want := range map[string]string{
		"app-1": "app app-1", "../app-1": "", "sub/app-1": "", "/app-1": "", "app": "", "..": "", ".": "",
	} {
		dir := t.TempDir()
		bin := filepath.Join(dir, "bin")
		for _, file := range []string{"app-1", "bin/app-1", "bin/sub/app-1"} {
			put(t, filepath.Join(dir, file), "text")
		}
		if err := os.Symlink(to, filepath.Join(bin, "app")); err != nil {
			t.Fatal(err)
		}
		got, err := closure(bin, []string{"app", "app-1"}, []string{"app"}, nil)
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("a link to %s: %v, %v", to, got, err)
		}
	}
}
