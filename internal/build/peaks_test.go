package build

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestJobsByPeaks(t *testing.T) {
	tc := spec.Toolchain{JobMiB: 3000}
	objects := func(n int) (names []string) {
		for i := range n {
			names = append(names, strings.Repeat("x", i+1)+".o")
		}
		return names
	}
	small := Peaks{Objects: objects(200), Measured: map[string]int64{}}
	for _, o := range small.Objects {
		small.Measured[o] = 300
	}
	few := Peaks{Objects: objects(200), Measured: map[string]int64{"x.o": 2500, "xx.o": 2400, "xxx.o": 400}}
	for _, o := range few.Objects[3:] {
		few.Measured[o] = 400
	}
	half := Peaks{Objects: objects(10), Measured: map[string]int64{"x.o": 4000}}
	for name, c := range map[string]struct {
		cores int
		mib   int64
		p     Peaks
		want  int
	}{
		"first build, 16 GiB and 32 cores":            {32, 16000, Peaks{}, 5},
		"first build, 24 GiB and 2 cores":             {2, 24000, Peaks{}, 2},
		"all small":                                   {32, 16000, small, 32},
		"two large ones, the rest small":              {32, 16000, few, 25}, // 2500+2400+23*400 = 14100 of 14400
		"what was not measured counts as the largest": {32, 16000, half, 3},
		"more memory than all take":                   {32, 900000, half, 32},
		"nothing fits":                                {8, 500, few, 1},
		"memory not known":                            {8, 0, few, 8},
	} {
		got, why := jobs(Facts{Cores: c.cores, MemoryMiB: c.mib}, tc, c.p)
		if got != c.want || why == "" {
			t.Errorf("%s: %d jobs (%s), want %d", name, got, why, c.want)
		}
	}
}

// Ninja runs a program that goes by a compiler's name and takes 64 MiB, behind
// another that stands for a compiler cache.
func TestPeaksAreMeasured(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc that tells")
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"cc1.c": `#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
int main(int argc, char **argv) {
    char *p = malloc(64 << 20);
    memset(p, argc, 64 << 20);
    sleep(5);
    close(open(argv[2], O_CREAT | O_WRONLY, 0644));
    return p[5] - argc;
}
`,
		"cache": "#!/bin/sh\n./cc1 \"$@\"\nexit $?\n",
		"build.ninja": `rule cc
  command = ./cache -o $out
  description = Building C object $out
rule copy
  command = sleep 1 && cp build.ninja $out
build sub/large.c.o: cc
build copied.o: copy
build all: phony sub/large.c.o copied.o
`,
	})
	if out, err := exec.Command("gcc", "-O0", "-o", filepath.Join(dir, "cc1"),
		filepath.Join(dir, "cc1.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(filepath.Join(dir, "cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kept", "peaks.json")
	b := &builder{
		plan: Plan{Dir: dir, Steps: []Step{{}, {
			Name: Compile, Argv: []string{"/usr/bin/ninja", "all"}, Dir: dir,
			Env: []string{"PATH=/usr/bin:/bin", "NINJA_STATUS=" + ninjaStatus},
		}}},
		o: RunOptions{Peaks: file},
	}
	b.o.Logger = slog.New(slog.DiscardHandler)
	if _, err := b.compile(t.Context(), []string{"sub/large.c.o", "copied.o", "all", "bin/x"}); err != nil {
		t.Fatal(err)
	}
	p := LoadPeaks(file)
	// The kernel's own count may lag by some pages for each processor.
	if got := p.Measured["sub/large.c.o"]; got < 60 || got > 100 {
		t.Errorf("the compiler took %d MiB, want about 64", got)
	}
	if got, ok := p.Measured["copied.o"]; ok {
		t.Errorf("what is no compiler was measured: %d", got)
	}
	if len(p.Objects) != 2 {
		t.Errorf("objects %q", p.Objects)
	}
	// A lower figure of a later look does not stand.
	if err := keepPeaks(file, []string{"sub/large.c.o"}, map[string]int64{"sub/large.c.o": 3}); err != nil {
		t.Fatal(err)
	}
	if got := LoadPeaks(file).Measured["sub/large.c.o"]; got < 60 {
		t.Errorf("a lower figure stands: %d", got)
	}
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p := LoadPeaks(file); p.Measured != nil {
		t.Error("a broken file gives figures")
	}
}
