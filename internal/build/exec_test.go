package build

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	in := smallInput(t, t.TempDir())
	p := mustPlan(t, in)
	art := mustRun(t, p)
	if art.Compiled != 2 || art.ConfigureSeconds == 0 {
		t.Errorf("first run: %+v", art)
	}
	var names []string
	for _, f := range art.Files {
		names = append(names, f.Path)
		if (f.Link == "") != (len(f.SHA256) == 64 && f.Size > 0) {
			t.Errorf("file %+v", f)
		}
	}
	if want := []string{
		"bin/libgreet.so", "bin/libgreet.so.0", "bin/libgreet.so.0.0.100",
		"bin/small",
	}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	if art.Tools["cmake"] == "" || !strings.Contains(art.Tools["cc"], "gcc") {
		t.Errorf("tools %q", art.Tools)
	}
	for _, name := range []string{"bin/small", "bin/libgreet.so"} {
		f, err := elf.Open(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if rp, err := f.DynString(elf.DT_RUNPATH); err != nil || !slices.Equal(rp, []string{"$ORIGIN"}) {
			t.Errorf("%s: RUNPATH is %q, %v", name, rp, err)
		}
		f.Close()
	}
	// The program says what the plan gave it, and finds its library elsewhere.
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(filepath.Join(p.Dir, "bin"), moved); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(moved, "small")).CombinedOutput()
	if want := "./greet.c 100 c0ffee00c-llp1 ./main.c\n"; err != nil || string(out) != want {
		t.Errorf("the program prints %q, %v; want %q", out, err, want)
	}
	if err := os.Rename(moved, filepath.Join(p.Dir, "bin")); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(p.Dir + ".log")
	if err != nil || !bytes.Contains(log, []byte("[1/5] ")) || !bytes.Contains(log, []byte("$ ")) {
		t.Errorf("log %q, %v", log, err)
	}

	// Again: nothing to do, and CMake is not asked.
	if art = mustRun(t, p); art.Compiled != 0 || art.ConfigureSeconds != 0 || art.Steps != 0 {
		t.Errorf("second run: %+v", art)
	}
	// One file changed: one object, no CMake.
	write(t, in.Source, map[string]string{"greet.c": "const char *greet(void) { return \"changed\"; }\n"})
	if art = mustRun(t, p); art.Compiled != 1 || art.ConfigureSeconds != 0 {
		t.Errorf("after a change: %+v", art)
	}
	// A CMake file changed: configured again, and read back again.
	write(t, in.Source, map[string]string{"CMakeLists.txt": strings.Replace(small["CMakeLists.txt"], "SMALL_LOUD",
		"SMALL_NOISE", 2)})
	_, err = Run(t.Context(), p, RunOptions{})
	if f := wantFailed(t, err); f.Kind != KindOption || !strings.Contains(f.Cause, "SMALL_LOUD=ON") {
		t.Errorf("got %+v", f)
	}
	write(t, in.Source, map[string]string{"CMakeLists.txt": small["CMakeLists.txt"]})
	mustRun(t, p)
	// A new build number renames the library; the old one is not an output.
	in.Build = 101
	art = mustRun(t, mustPlan(t, in))
	if names = nil; art.Compiled == 0 {
		t.Errorf("a new number compiled nothing: %+v", art)
	}
	for _, f := range art.Files {
		names = append(names, f.Path)
	}
	if want := []string{
		"bin/libgreet.so", "bin/libgreet.so.0", "bin/libgreet.so.0.0.101",
		"bin/small",
	}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "bin", "libgreet.so.0.0.100")); err == nil {
		t.Error("the old library is still in bin")
	}
}

// An option that an earlier plan had does not live on in CMake's cache.
// What no compiler read left no trace in the programs.
func TestReads(t *testing.T) {
	in := smallInput(t, t.TempDir())
	write(t, in.Source, map[string]string{
		"other.cu": "int other;\n", "unused.h": "#pragma once\n",
		"used.h": "#pragma once\n",
	})
	write(t, in.Source, map[string]string{"greet.c": "#include \"used.h\"\n" + small["greet.c"]})
	p := mustPlan(t, in)
	mustRun(t, p)
	paths := []string{"other.cu", "unused.h", "used.h", "greet.c", "CMakeLists.txt", "info.h.in", "nowhere.c"}
	got, err := Reads(t.Context(), p, RunOptions{}, paths)
	by := []string{"CMakeFiles/greet.dir/greet.c.o"}
	want := map[string][]string{"CMakeLists.txt": nil, "greet.c": by, "info.h.in": nil, "used.h": by}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %q, %v; want %q", got, err, want)
	}
	// Through another name of the source nothing can be told, so all count.
	p.Source += "/../elsewhere"
	if got, err = Reads(t.Context(), p, RunOptions{}, []string{"other.cu"}); err != nil || len(got) != 1 {
		t.Errorf("with a source that no name leads to: %q, %v", got, err)
	}
}

// A run that is stopped in the middle leaves no process and no half output, and
// the next one goes on.
func TestCancelAndGoOn(t *testing.T) {
	for _, step := range []string{Configure, Compile} {
		t.Run(step, func(t *testing.T) {
			in := smallInput(t, t.TempDir())
			gate := filepath.Join(filepath.Dir(in.Source), "gate")
			write(t, in.Source, map[string]string{"wait.sh": "while ! test -e " + gate + "; do sleep 0.05; done\n"})
			more := "execute_process(COMMAND sh ${CMAKE_SOURCE_DIR}/wait.sh)\n"
			if step == Compile {
				more = "add_custom_command(OUTPUT gate.h COMMAND sh ${CMAKE_SOURCE_DIR}/wait.sh COMMAND touch gate.h)\n" +
					"add_custom_target(wait DEPENDS gate.h)\nadd_dependencies(small wait)\n"
			}
			write(t, in.Source, map[string]string{"CMakeLists.txt": small["CMakeLists.txt"] + more})
			p := mustPlan(t, in)
			ctx, cancel := context.WithCancel(t.Context())
			var seen atomic.Bool
			done := make(chan error, 1)
			go func() {
				_, err := Run(ctx, p, RunOptions{Log: p.Dir + ".log", Progress: func(what string, done, _ int64) {
					if what == step && (step == Configure || done > 0) && seen.CompareAndSwap(false, true) {
						time.AfterFunc(300*time.Millisecond, cancel)
					}
				}})
				done <- err
			}()
			select {
			case err := <-done:
				var f *Failed
				if !errors.Is(err, context.Canceled) || errors.As(err, &f) {
					t.Fatalf("got %v", err)
				}
			case <-time.After(60 * time.Second):
				t.Fatal("it did not stop")
			}
			left, err := exec.Command("pgrep", "-f", in.Source+"/wait.sh").Output()
			if len(left) > 0 {
				t.Errorf("left behind: %s %v", left, err)
			}
			if err := os.WriteFile(gate, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if art := mustRun(t, p); (art.ConfigureSeconds > 0) != (step == Configure) {
				t.Errorf("configured again: %+v", art)
			}
		})
	}
}

// Two folders of different length, one with a blank in its name, and a
// repository around one of them: the same bytes.
func TestReproducible(t *testing.T) {
	top := t.TempDir()
	a, b := smallInput(t, filepath.Join(top, "a")), smallInput(t, filepath.Join(top, "a longer name"))
	if out, err := exec.Command("git", "init", "-q", filepath.Join(top, "a longer name")).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	b.Dir = filepath.Join(b.Source, "below")
	pa, pb := mustPlan(t, a), mustPlan(t, b)
	if pa.Digest != pb.Digest {
		t.Errorf("digests %s and %s", pa.Digest, pb.Digest)
	}
	fa, fb := mustRun(t, pa).Files, mustRun(t, pb).Files
	if !slices.Equal(fa, fb) {
		t.Errorf("files differ:\n%v\n%v", fa, fb)
	}
	for _, f := range fa {
		if bin, err := os.ReadFile(filepath.Join(a.Dir, f.Path)); err != nil || bytes.Contains(bin, []byte(top)) {
			t.Errorf("%s holds the folder's name, or %v", f.Path, err)
		}
	}
}

// A build takes nothing that is not in the tree, also where upstream's CMake would.
func TestNothingIsFetched(t *testing.T) {
	in := smallInput(t, t.TempDir())
	write(t, in.Source, map[string]string{"CMakeLists.txt": small["CMakeLists.txt"] +
		"file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/_deps/cccl-src)\n"})
	_, err := Run(t.Context(), mustPlan(t, in), RunOptions{})
	if f := wantFailed(t, err); !strings.Contains(f.Error(), "fetched sources that are not in the tree") {
		t.Error(f)
	}
	write(t, in.Source, small)
	mustRun(t, mustPlan(t, in))
}
