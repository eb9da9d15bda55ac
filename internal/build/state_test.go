package build

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
)

func TestRemovedOption(t *testing.T) {
	in := smallInput(t, t.TempDir())
	mustRun(t, mustPlan(t, in))
	in.Recipe.CMake = nil
	p := mustPlan(t, in)
	mustRun(t, p)
	cache, err := readCache(filepath.Join(p.Dir, "CMakeCache.txt"))
	if err != nil || cache["SMALL_LOUD"] != "OFF" {
		t.Errorf("SMALL_LOUD is %q, %v", cache["SMALL_LOUD"], err)
	}
}

// A clock that went back: what was built lies in the future, and Ninja would take it for
// newer than a source that is written now.
func TestClockWentBack(t *testing.T) {
	in := smallInput(t, t.TempDir())
	write(t, in.Source, map[string]string{
		"CMakeLists.txt": strings.Replace(small["CMakeLists.txt"], "add_library(greet SHARED greet.c)",
			"add_subdirectory(sub)", 1),
		"sub/CMakeLists.txt": "add_library(greet SHARED greet.c)\n", "sub/greet.c": small["greet.c"],
	})
	p := mustPlan(t, in)
	mustRun(t, p)
	past, future := time.Now().Add(-48*time.Hour), time.Now().Add(48*time.Hour)
	if err := os.Chtimes(filepath.Join(p.Dir, ".ninja_log"), future, future); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(in.Source, "sub/greet.c")
	write(t, in.Source, map[string]string{"sub/greet.c": "const char *greet(void) { return \"changed\"; }\n"})
	if err := os.Chtimes(changed, past, past); err != nil {
		t.Fatal(err)
	}
	if art := mustRun(t, p); art.Compiled != 2 {
		t.Errorf("%d objects compiled, want both", art.Compiled)
	}
	if out, err := exec.Command(filepath.Join(p.Dir, "bin/small")).Output(); err != nil ||
		!strings.HasPrefix(string(out), "changed ") {
		t.Errorf("it prints %q, %v", out, err)
	}
	if art := mustRun(t, p); art.Compiled != 0 {
		t.Errorf("a second run compiled %d", art.Compiled)
	}
}

// Another compiler under the same name: none of its predecessor's objects stay.
func TestOtherCompiler(t *testing.T) {
	in := smallInput(t, t.TempDir())
	mustRun(t, mustPlan(t, in))
	in.Facts.Tools["cc"] = ToolFact{Path: in.Facts.Tools["cc"].Path, Version: "99.0", Banner: "gcc 99.0"}
	p := mustPlan(t, in)
	if art := mustRun(t, p); art.Compiled != 2 || art.ConfigureSeconds == 0 {
		t.Errorf("got %+v", art)
	}
	if art := mustRun(t, p); art.Compiled != 0 || art.ConfigureSeconds != 0 {
		t.Errorf("again: %+v", art)
	}
	// A changed home or job count is no reason to do anything.
	in.Facts.Env, in.Facts.Cores = map[string]string{"HOME": t.TempDir()}, 1
	if art := mustRun(t, mustPlan(t, in)); art.Steps != 0 || art.ConfigureSeconds != 0 {
		t.Errorf("another home: %+v", art)
	}
}

// What configuring left is put right where somebody changed it, and that is said.
func TestEditedConfiguration(t *testing.T) {
	in := smallInput(t, t.TempDir())
	p := mustPlan(t, in)
	want := mustRun(t, p)
	for name, edit := range map[string]func(string) string{
		"build.ninja": func(s string) string { return strings.Replace(s, "-DLOUD", "-DQUIET", 1) },
		"CMakeCache.txt": func(s string) string {
			return strings.Replace(s, "SMALL_LOUD:BOOL=ON", "SMALL_LOUD:BOOL=OFF", 1)
		},
		"CMakeFiles/rules.ninja": func(s string) string { return strings.Replace(s, "$FLAGS", "$FLAGS -DQUIET", 1) },
	} {
		file := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if edit(string(text)) == string(text) {
			t.Fatalf("%s holds nothing to change", name)
		}
		write(t, p.Dir, map[string]string{name: edit(string(text))})
		var log bytes.Buffer
		art, err := Run(t.Context(), p, RunOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if art.ConfigureSeconds == 0 || !strings.Contains(log.String(), "configuring again") ||
			!strings.Contains(log.String(), p.Dir) {
			t.Errorf("%s: %+v, log %q", name, art, &log)
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, text) || !slices.Equal(art.Files, want.Files) {
			t.Errorf("%s is not what it was, or the programs are not: %v", name, err)
		}
		if art := mustRun(t, p); art.ConfigureSeconds != 0 || art.Steps != 0 {
			t.Errorf("%s: and again: %+v", name, art)
		}
	}
}

// A state file that was cut short is that of an interrupted run.
func TestBrokenState(t *testing.T) {
	in := smallInput(t, t.TempDir())
	p := mustPlan(t, in)
	mustRun(t, p)
	for _, text := range []string{"", "{\"key\"", "null"} {
		write(t, p.Dir, map[string]string{stateFile: text})
		if art := mustRun(t, p); art.ConfigureSeconds == 0 {
			t.Errorf("state %q was trusted", text)
		}
	}
}

// What a run leaves that was killed while it wrote its first file is no reason
// to refuse the folder.
func TestKilledAtFirst(t *testing.T) {
	in := smallInput(t, t.TempDir())
	write(t, in.Dir, map[string]string{atomicfile.Prefix(stateFile) + "X": "{"})
	p := mustPlan(t, in)
	if art := mustRun(t, p); art.Compiled != 2 {
		t.Errorf("got %+v", art)
	}
	if left, err := filepath.Glob(filepath.Join(in.Dir, ".*.new-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
