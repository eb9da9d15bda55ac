package build

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Single objects are compiled and nothing else, in the folder that a whole build goes on
// with; what the compiler refuses is told as by a build.
func TestObjects(t *testing.T) {
	in := smallInput(t, t.TempDir())
	in.Recipe.CMake["SMALL_LOUD"] = true
	p := mustPlan(t, in)
	if err := Objects(t.Context(), p, RunOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(p.Dir, name))
		return err == nil
	}
	const greet, main = "CMakeFiles/greet.dir/greet.c.o", "CMakeFiles/small.dir/main.c.o"
	if !there("build.ninja") || there(greet) || there(main) {
		t.Error("without a file it must only configure")
	}
	flags, err := p.Flags()
	if err != nil || len(flags) != 2 || !slices.Contains(flags["greet"], "-fPIC") ||
		slices.Contains(flags["small"], "-fPIC") {
		t.Errorf("flags %q, %v", flags, err)
	}
	if err := Objects(t.Context(), p, RunOptions{}, []string{"greet.c"}); err != nil {
		t.Fatal(err)
	}
	if !there(greet) || there(main) || there("bin/small") {
		t.Error("it made something else than the object")
	}
	write(t, in.Source, map[string]string{"greet.c": "#error for another system\n"})
	f := wantFailed(t, Objects(t.Context(), p, RunOptions{}, []string{"greet.c"}))
	if f.Kind != KindCompiler || f.File != "greet.c" || f.Line != 1 {
		t.Errorf("%+v", f)
	}
	if err := Objects(t.Context(), p, RunOptions{}, []string{"main.c"}); err != nil {
		t.Errorf("a file beside the refused one: %v", err)
	}
	write(t, in.Source, map[string]string{"greet.c": small["greet.c"]})
	if art := mustRun(t, p); art.Compiled != 1 {
		t.Errorf("%d objects compiled, want greet.c alone", art.Compiled)
	}
	if _, err := (Plan{Dir: t.TempDir()}).Flags(); err == nil {
		t.Error("a folder that was not configured")
	}
	p.Remote = &RemoteFact{}
	if err := Objects(t.Context(), p, RunOptions{}, nil); err == nil {
		t.Error("on another machine")
	}
}
