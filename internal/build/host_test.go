//go:build linux

package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
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
	f := &far{Server: server, in: smallInput(t, filepath.Join(top, "here")), said: &bytes.Buffer{}, dir: filepath.Join(top, "there")}
	host, err := ParseHost("ssh:"+sshd.Box+":"+f.dir, server.Env)
	if err != nil {
		t.Fatal(err)
	}
	f.o = RunOptions{Log: filepath.Join(top, "log"), Logger: slog.New(slog.NewTextHandler(f.said, nil)), On: &host}
	if f.in.Facts, err = ProbeOn(t.Context(), host, f.in.Toolchain, f.in.Recipe); err != nil {
		t.Fatal(err)
	}
	if f.in.Facts.Host == nil || f.in.Facts.Host.Dir != f.dir || f.in.Facts.Tools["cmake"].Banner == "" {
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
	if err := errors.Join(os.Chmod(filepath.Join(f.in.Source, "tool.sh"), 0o755), os.Symlink("main.c", filepath.Join(f.in.Source, "link.c"))); err != nil {
		t.Fatal(err)
	}
	art, said := f.must(t)
	if art.Compiled != 2 || !strings.Contains(said, "msg=copied to=box files=8 ") || !strings.Contains(said, "msg=fetched from=box files=2") {
		t.Errorf("first run: %+v\n%s", art, said)
	}
	local := f.in
	local.Facts.Host, local.Dir = nil, filepath.Join(t.TempDir(), "local")
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
	if art, said = f.must(t); art.Compiled != 0 || art.Steps != 0 || strings.Contains(said, "copied") || strings.Contains(said, "fetched") || len(art.Files) != 4 {
		t.Errorf("second run: %+v\n%s", art, said)
	}
	if !maps.Equal(before, f.stamps(t)) {
		t.Error("the source there was touched")
	}
	// One changed, one new in a new folder, one gone; a folder whose name is now a file's.
	write(t, f.in.Source, map[string]string{"greet.c": "const char *greet(void) { return \"changed\"; }\n", "new/er.txt": "y"})
	if err := os.RemoveAll(filepath.Join(f.in.Source, "a folder")); err != nil {
		t.Fatal(err)
	}
	write(t, f.in.Source, map[string]string{"a folder": "now a file\n"})
	if art, said = f.must(t); art.Compiled != 1 || !strings.Contains(said, "files=3 removed=1") || !strings.Contains(said, "fetched from=box files=1") {
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
	if cache, err := readCache(filepath.Join(f.dir, "build", "CMakeCache.txt")); err != nil || cache["SMALL_LOUD"] != "OFF" {
		t.Errorf("SMALL_LOUD is %q, %v", cache["SMALL_LOUD"], err)
	}
	// A local build in the same folder begins anew.
	here := f.in
	here.Facts.Host = nil
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
	if e := wantFailed(t, err); e.Kind != KindCompiler || e.File != "greet.c" || e.Line != 1 || !slices.Equal(e.Fixes, []string{"greeting"}) || e.Log != f.o.Log || !strings.Contains(e.Cause, "nothing") {
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

// slowly makes the build of the small upstream wait, in a program whose arguments
// nothing else has, and returns what tells whether it runs.
func (f *far) slowly(t *testing.T) (running func() bool) {
	t.Helper()
	seconds := fmt.Sprintf("6%d.%d", time.Now().Nanosecond()%100, os.Getpid())
	write(t, f.in.Source, map[string]string{
		"CMakeLists.txt": small["CMakeLists.txt"] + "add_custom_command(OUTPUT slow.h COMMAND sleep " + seconds + ")\nadd_custom_target(slow DEPENDS slow.h)\nadd_dependencies(small slow)\n",
	})
	return func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		return slices.ContainsFunc(files, func(file string) bool {
			text, _ := os.ReadFile(file) // a process that has ended
			return string(text) == "sleep\x00"+seconds+"\x00"
		})
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal(what)
		}
	}
}

// Ctrl+C ends the build there too; a lost connection does so as well, and is said.
func TestRunOnStops(t *testing.T) {
	f := newFar(t)
	running := f.slowly(t)
	for _, how := range []string{"cancel", "cut"} {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan time.Time, 1)
		go func() {
			eventually(t, "it does not run", running)
			stopped <- time.Now()
			if how == "cut" {
				f.Cut()
			} else {
				cancel()
			}
		}()
		_, _, err := f.run(ctx, t)
		cancel()
		switch lost := new(HostError); {
		case how == "cancel" && (!errors.Is(err, context.Canceled) || running()):
			t.Errorf("%s: %v, still running: %v", how, err, running())
		case how == "cut" && (!errors.As(err, &lost) || !lost.Lost || !strings.Contains(err.Error(), "ssh:box: the connection was lost")):
			t.Errorf("%s: %v", how, err)
		}
		if took := time.Since(<-stopped); took > 25*time.Second {
			t.Errorf("%s took %v", how, took)
		}
		eventually(t, how+": it runs on there", func() bool { return !running() })
	}
	write(t, f.in.Source, map[string]string{"CMakeLists.txt": small["CMakeLists.txt"]})
	if art, _ := f.must(t); len(art.Files) != 4 {
		t.Errorf("afterwards: %+v", art)
	}
}

// A copy that is stopped leaves nothing, whichever way.
func TestCopyStops(t *testing.T) {
	f := newFar(t)
	big := make([]byte, 64<<20)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	write(t, f.in.Source, map[string]string{"big.bin": string(big)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "nothing arrives", func() bool {
			files, _ := filepath.Glob(filepath.Join(f.dir, takeName("*")+archiveEnd))
			return len(files) > 0
		})
		cancel()
	}()
	if _, _, err := f.run(ctx, t); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	cancel()
	if _, err := os.Stat(filepath.Join(f.dir, "src", "main.c")); err == nil {
		t.Error("a part of the source is there")
	}
	f.must(t)
}

// What keeps ssh out is said, with no question asked.
func TestUnreachable(t *testing.T) {
	server := sshd.Start(t)
	for name, want := range map[string]string{
		sshd.Stranger: "its host key is not the one that is known",
		sshd.Unknown:  "Host key verification failed",
		sshd.Nowhere:  "Could not resolve hostname",
		sshd.Closed:   "Connection refused",
		sshd.Locked:   "Permission denied",
	} {
		h, err := ParseHost("ssh:"+name, server.Env)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = HostKind(t.Context(), h)
		if e := new(HostError); !errors.As(err, &e) || e.Lost || !strings.Contains(err.Error(), want) || e.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
		if time.Since(start) > 20*time.Second {
			t.Errorf("%s took %v", name, time.Since(start))
		}
	}
	none, err := ParseHost("ssh:box", []string{"PATH=/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := HostKind(t.Context(), none); err == nil || !strings.Contains(err.Error(), "install openssh-client") {
		t.Errorf("without ssh: %v", err)
	}
	box, err := ParseHost("ssh:box:/proc/no", server.Env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := HostKind(t.Context(), box); err == nil || !strings.Contains(err.Error(), "/proc/no") {
		t.Errorf("a folder that cannot be made: %v", err)
	}
	// A Linux machine is no Windows machine.
	box.Dir = t.TempDir()
	if _, err := ProbeOn(t.Context(), box, spec.Toolchain{OS: "windows", VisualStudio: 2019}, spec.Recipe{}); err == nil || !strings.Contains(err.Error(), "powershell.exe") {
		t.Errorf("as Windows: %v", err)
	}
}

// Another llpatch in the folder is waited for, and then said.
func TestBusyHost(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("flock", filepath.Join(f.dir, ".lock"), "sleep", "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	eventually(t, "no lock", func() bool { _, err := os.Stat(filepath.Join(f.dir, ".lock")); return err == nil })
	time.Sleep(200 * time.Millisecond) // flock opens it before it locks it
	_, _, err := f.run(t.Context(), t)
	if err == nil || !strings.Contains(err.Error(), "another llpatch is at work in "+f.dir) {
		t.Errorf("%v", err)
	}
}

// A full disk there is called one, whether it is seen before or met on the way.
func TestFullHost(t *testing.T) {
	for name, options := range map[string]string{"bytes": "size=64k", "files": "size=64m,nr_inodes=12"} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t)
			small := filepath.Join(t.TempDir(), "disk")
			if err := os.Mkdir(small, 0o755); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", small).CombinedOutput(); err != nil {
				t.Skipf("NOT RUN: no small disk can be made here: %s", out)
			}
			t.Cleanup(func() { _ = exec.Command("umount", "-l", small).Run() })
			f.in.Facts.Host.Dir, f.dir = small, small
			for i := range 20 {
				write(t, f.in.Source, map[string]string{fmt.Sprintf("file%d.bin", i): strings.Repeat(fmt.Sprint(i), 4000)})
			}
			_, _, err := f.run(t.Context(), t)
			e := wantFailed(t, err)
			if e.Kind != KindDisk || e.Tag != "b100" || !strings.Contains(strings.ToLower(err.Error()), "no space left on device") || !strings.Contains(err.Error(), "box") {
				t.Errorf("%+v: %v", e, err)
			}
		})
	}
}

func TestParseHostName(t *testing.T) {
	for text, want := range map[string][2]string{
		"ssh:box":                 {"box", "llpatch"},
		"ssh:me@box:work":         {"me@box", "work"},
		"ssh:me@box:/srv/a b":     {},
		"ssh:box:C:/llpatch":      {"box", "C:/llpatch"},
		"ssh:box:/srv/x/":         {"box", "/srv/x"},
		"ssh:me@[fe80::1]:work/1": {"me@[fe80::1]", "work/1"},
		"ssh:[fe80::1]":           {"[fe80::1]", "llpatch"},
		"box":                     {}, "ssh:": {}, "ssh::x": {}, "ssh:-oProxyCommand=x": {}, "ssh:a b": {}, "ssh:box:": {}, "ssh:box:..": {}, "ssh:box:../x": {},
		"ssh:box:a/../../b": {}, "ssh:box:.": {}, "ssh:box:-rf": {}, `ssh:box:C:\x`: {}, "ssh:box:$HOME": {}, "ssh:box:a'b": {}, "ssh:box:a;b": {}, "ssh:box:é": {},
	} {
		h, err := ParseHost(text, nil)
		if got := [2]string{h.Name, h.Dir}; got != want || (err == nil) != (want[0] != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if got := run.SSH("me@[fe80::1]", "x"); !slices.Contains(got, "me@fe80::1") {
		t.Errorf("%q", got)
	}
}

func FuzzListing(f *testing.F) {
	sum := strings.Repeat("0123456789abcdef", 4)
	f.Add([]byte("hello\n" + listWord + "\n" + sum + " *src/a b\nx src/a b\nl src/l\nto a b\n"))
	f.Add([]byte(listWord + "\n\\" + sum + " *src/a\\nb\n"))
	f.Add([]byte(listWord + "\nl a\nl b\nto c\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		files, ok := listing(out)
		for name, c := range files {
			if ok && (c.link == "" && len(c.sum) != 64 || c.link != "" && c.sum != "") {
				t.Errorf("%q: %+v", name, c)
			}
		}
	})
}
