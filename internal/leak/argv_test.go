//go:build linux

package leak

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is no program is not said to be missing from the PATH.
func TestNoProgram(t *testing.T) {
	o := options(t, "flat")
	o.Dir = t.TempDir()
	file := filepath.Join(o.Dir, "m.gguf")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(o.Dir, "go")
	if err := os.WriteFile(script, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		file: "may not be executed", o.Dir: "is a folder", file + "x": "there is no such file",
		script:    "not a program that this machine can run",
		"m.gguf":  "is not on the PATH; here it is a file that may not be executed",
		"no-such": "there is no such program on the PATH",
	} {
		o.Argv = []string{name}
		var n *NotRun
		if _, err := Run(t.Context(), o); !errors.As(err, &n) || !strings.Contains(err.Error(), why) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlace(t *testing.T) {
	for want, list := range map[string][]string{
		"wine": {"wine prog.exe", "/usr/bin/wine64 C:\\x\\llama-server.EXE -m m.gguf", "nice -n 10 wine prog.exe"},
		"host": {"llama-server", "wine", "llama-server --alias wine", "llama-server -m wine m.gguf", ""},
	} {
		for _, argv := range list {
			if got := place(strings.Fields(argv)); got != want {
				t.Errorf("%s: %s", argv, got)
			}
		}
	}
}

// A run's folder is empty, that of the last run of the program, and nobody else's.
func TestFolder(t *testing.T) {
	parent := t.TempDir()
	file := func(dir string) string { return filepath.Join(dir, "program.log") }
	claimed := func(program string) (string, func()) {
		t.Helper()
		dir, done, err := Folder(parent, program)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file(dir)); err == nil {
			t.Errorf("%s is not empty", dir)
		}
		if err := os.WriteFile(file(dir), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return filepath.Base(dir), done
	}
	for range 3 {
		dir, done := claimed("/usr/bin/p")
		second, doneToo := claimed("p")
		if dir != "p" || second != "p-2" {
			t.Errorf("%s, %s", dir, second)
		}
		done()
		doneToo()
	}
	foreign := filepath.Join(parent, "q")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file(foreign), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{"q": "q-2", "..": "program", "/": "program"} {
		dir, done := claimed(program)
		if dir != want {
			t.Errorf("%s: %s", program, dir)
		}
		done()
	}
	if _, err := os.Stat(file(foreign)); err != nil {
		t.Errorf("a foreign file: %v", err)
	}
}
