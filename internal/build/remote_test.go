//go:build linux

package build

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/sshd"
)

// far is a plan for the small upstream on a machine that is reached over a real sshd.
type far struct {
	*sshd.Server
	in   Input
	o    RunOptions
	said *bytes.Buffer // what is logged
	dir  string        // the folder there
}

func newFar(t *testing.T, lines ...string) *far {
	t.Helper()
	server := sshd.Start(t, lines...)
	top := t.TempDir()
	f := &far{
		Server: server, in: smallInput(t, filepath.Join(top, "here")), said: &bytes.Buffer{},
		dir: filepath.Join(top, "there"),
	}
	host, err := ParseRemote("ssh:"+sshd.Box+":"+f.dir, server.Env)
	if err != nil {
		t.Fatal(err)
	}
	f.o = RunOptions{Log: filepath.Join(top, "log"), Logger: slog.New(slog.NewTextHandler(f.said, nil)), On: &host}
	if f.in.Facts, err = ProbeOn(t.Context(), host, f.in.Toolchain, f.in.Recipe); err != nil {
		t.Fatal(err)
	}
	if f.in.Facts.Remote == nil || f.in.Facts.Remote.Dir != f.dir || f.in.Facts.Tools["cmake"].Banner == "" {
		t.Fatalf("facts %+v", f.in.Facts)
	}
	return f
}

// run builds and returns what was logged of it.
func (f *far) run(ctx context.Context, t *testing.T) (Artifacts, string, error) {
	t.Helper()
	f.said.Reset()
	art, err := Run(ctx, mustPlan(t, f.in), f.o)
	// Whatever came of it, nothing half written is left on either side.
	left, _ := filepath.Glob(filepath.Join(f.dir, "[tg]*e-*"))
	for _, name := range []string{filepath.Join(f.dir, ".now"), f.in.Dir + ".host", f.in.Dir + ".old"} {
		if _, err := os.Lstat(name); err == nil {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	return art, f.said.String(), err
}

func (f *far) must(t *testing.T) (Artifacts, string) {
	t.Helper()
	art, said, err := f.run(t.Context(), t)
	if err != nil {
		t.Fatal(err)
	}
	return art, said
}

// stamps are the times and sizes of all that lies in the source there.
func (f *far) stamps(t *testing.T) map[string]string {
	t.Helper()
	m := map[string]string{}
	out, err := exec.Command("find", filepath.Join(f.dir, "src"), "-printf", "%P\t%T@ %s\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(out)) {
		name, stamp, _ := strings.Cut(strings.TrimSpace(l), "\t")
		m[name] = stamp
	}
	return m
}

// On another machine the same plan makes the same bytes, and only what changed travels.
func TestRunOn(t *testing.T) {
	f := newFar(t)
	write(t, f.in.Source, map[string]string{"a folder/with spaces & 'quotes' $HOME.txt": "x\n", "tool.sh": "#!/bin/sh\n"})
	if err := errors.Join(os.Chmod(filepath.Join(f.in.Source, "tool.sh"), 0o755),
		os.Symlink("main.c", filepath.Join(f.in.Source, "link.c"))); err != nil {
		t.Fatal(err)
	}
	art, said := f.must(t)
	if art.Compiled != 2 || !strings.Contains(said, "msg=copied to=box files=8 ") ||
		!strings.Contains(said, "msg=fetched from=box files=2") {
		t.Errorf("first run: %+v\n%s", art, said)
	}
	local := f.in
	local.Facts.Remote, local.Dir = nil, filepath.Join(t.TempDir(), "local")
	if want := mustRun(t, mustPlan(t, local)); !slices.Equal(want.Files, art.Files) {
		t.Errorf("here %+v\nthere %+v", want.Files, art.Files)
	}
	if mustPlan(t, local).Digest != mustPlan(t, f.in).Digest {
		t.Error("the plan's digest depends on the machine")
	}
	out, err := exec.Command(filepath.Join(f.in.Dir, "bin", "small")).CombinedOutput()
	if want := "./greet.c 100 c0ffee00c-llp1 ./main.c\n"; err != nil || string(out) != want {
		t.Errorf("the program prints %q, %v; want %q", out, err, want)
	}
	read, err := Reads(t.Context(), mustPlan(t, f.in), f.o, []string{"greet.c", "note.c"})
	if err != nil || len(read) != 1 || len(read["greet.c"]) != 1 {
		t.Errorf("read %q, %v", read, err)
	}

	// Again: nothing travels and nothing is done.
	before := f.stamps(t)
	if art, said = f.must(t); art.Compiled != 0 || art.Steps != 0 || strings.Contains(said, "copied") ||
		strings.Contains(said, "fetched") || len(art.Files) != 4 {
		t.Errorf("second run: %+v\n%s", art, said)
	}
	if !maps.Equal(before, f.stamps(t)) {
		t.Error("the source there was touched")
	}
	// One changed, one new in a new folder, one gone; a folder whose name is now a file's.
	write(t, f.in.Source, map[string]string{
		"greet.c":    "const char *greet(void) { return \"changed\"; }\n",
		"new/er.txt": "y",
	})
	if err := os.RemoveAll(filepath.Join(f.in.Source, "a folder")); err != nil {
		t.Fatal(err)
	}
	write(t, f.in.Source, map[string]string{"a folder": "now a file\n"})
	if art, said = f.must(t); art.Compiled != 1 || !strings.Contains(said, "files=3 removed=1") ||
		!strings.Contains(said, "fetched from=box files=1") {
		t.Errorf("after a change: %+v\n%s", art, said)
	}
	after := f.stamps(t)
	if after["main.c"] != before["main.c"] || after["greet.c"] == before["greet.c"] || after["a folder"] == "" {
		t.Errorf("before %v\nafter %v", before, after)
	}
	// What somebody changed there, or put there, is put right.
	write(t, filepath.Join(f.dir, "src"), map[string]string{"main.c": "#error no\n", "stray\nline.c": "x"})
	if art, said = f.must(t); !strings.Contains(said, "copied") {
		t.Errorf("after a change there: %+v\n%s", art, said)
	}
	if now := f.stamps(t); len(now) != len(after) {
		t.Errorf("the source there is %v", now)
	}
	// And what somebody changed here.
	write(t, f.in.Dir, map[string]string{"bin/small": "no program"})
	if art, said = f.must(t); art.Compiled != 0 || !strings.Contains(said, "files=") {
		t.Errorf("after a change here: %+v\n%s", art, said)
	}
	// An option that the plan no longer has does not live on.
	f.in.Recipe.CMake = nil
	if _, _, err := f.run(t.Context(), t); err != nil {
		t.Fatal(err)
	}
	if cache, err := readCache(filepath.Join(f.dir, "build", "CMakeCache.txt")); err != nil ||
		cache["SMALL_LOUD"] != "OFF" {
		t.Errorf("SMALL_LOUD is %q, %v", cache["SMALL_LOUD"], err)
	}
	// A local build in the same folder begins anew.
	here := f.in
	here.Facts.Remote = nil
	if art := mustRun(t, mustPlan(t, here)); art.Compiled != 2 {
		t.Errorf("a local build behind it: %+v", art)
	}
}

// A refused file, an option that is none and a program that is missing are said as they
// are of a build here.
func TestRunOnFails(t *testing.T) {
	f := newFar(t)
	write(t, f.in.Source, map[string]string{"greet.c": "int greet(void) { return nothing; }\n"})
	f.in.Touched = map[string][]string{"greet.c": {"greeting"}}
	_, _, err := f.run(t.Context(), t)
	if e := wantFailed(t, err); e.Kind != KindCompiler || e.File != "greet.c" || e.Line != 1 ||
		!slices.Equal(e.Fixes, []string{"greeting"}) || e.Log != f.o.Log || !strings.Contains(e.Cause, "nothing") {
		t.Errorf("%+v", e)
	}
	write(t, f.in.Source, map[string]string{"greet.c": small["greet.c"]})
	f.in.Recipe.CMake = spec.Options{"SMALL_NOISE": true}
	_, _, err = f.run(t.Context(), t)
	if e := wantFailed(t, err); e.Kind != KindOption || !strings.Contains(e.Cause, "SMALL_NOISE=ON") {
		t.Errorf("%+v", e)
	}
	f.in.Recipe.CMake, f.in.Recipe.Programs = nil, []string{"large"}
	_, _, err = f.run(t.Context(), t)
	if e := wantFailed(t, err); e.Kind != KindOutput {
		t.Errorf("%+v", e)
	}
	// A folder of somebody else's here is left alone.
	f.in.Dir = filepath.Join(t.TempDir(), "mine")
	write(t, f.in.Dir, map[string]string{"letter": "dear"})
	if _, _, err = f.run(t.Context(), t); !errors.As(err, new(*BadFolder)) {
		t.Errorf("%v", err)
	}
}
