package build

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
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
	if want := []string{"bin/libgreet.so", "bin/libgreet.so.0", "bin/libgreet.so.0.0.100", "bin/small"}; !slices.Equal(names, want) {
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
	write(t, in.Source, map[string]string{"CMakeLists.txt": strings.Replace(small["CMakeLists.txt"], "SMALL_LOUD", "SMALL_NOISE", 2)})
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
	if want := []string{"bin/libgreet.so", "bin/libgreet.so.0", "bin/libgreet.so.0.0.101", "bin/small"}; !slices.Equal(names, want) {
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
	write(t, in.Source, map[string]string{"other.cu": "int other;\n", "unused.h": "#pragma once\n", "used.h": "#pragma once\n"})
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
		"CMakeLists.txt":     strings.Replace(small["CMakeLists.txt"], "add_library(greet SHARED greet.c)", "add_subdirectory(sub)", 1),
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
	if out, err := exec.Command(filepath.Join(p.Dir, "bin/small")).Output(); err != nil || !strings.HasPrefix(string(out), "changed ") {
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
		"build.ninja":            func(s string) string { return strings.Replace(s, "-DLOUD", "-DQUIET", 1) },
		"CMakeCache.txt":         func(s string) string { return strings.Replace(s, "SMALL_LOUD:BOOL=ON", "SMALL_LOUD:BOOL=OFF", 1) },
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
		if art.ConfigureSeconds == 0 || !strings.Contains(log.String(), "configuring again") || !strings.Contains(log.String(), p.Dir) {
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

func TestOptionFaults(t *testing.T) {
	for name, c := range map[string]struct {
		set   spec.Options
		cmake string // appended to CMakeLists.txt
		kind  Kind
		want  string
	}{
		"unused":     {spec.Options{"SMALL_OLD": true}, "", KindOption, "option SMALL_OLD=ON (recipe small) was not used by CMake"},
		"changed":    {spec.Options{"SMALL_N": int64(3)}, "set(SMALL_N 4 CACHE STRING x FORCE)\n", KindOption, `option SMALL_N=3 (recipe small) was changed by CMake to "4"`},
		"deprecated": {spec.Options{"SMALL_OLD": true}, "if (SMALL_OLD)\nmessage(WARNING \"SMALL_OLD is deprecated and will be ignored\")\nendif()\n", KindOption, "option SMALL_OLD=ON (recipe small) has no effect at b9000 any more: SMALL_OLD is deprecated and will be ignored"},
		"not found":  {spec.Options{"LLAMA_OPENSSL": true}, "if (LLAMA_OPENSSL)\nset(OPENSSL_SSL_LIBRARY OPENSSL_SSL_LIBRARY-NOTFOUND CACHE FILEPATH x)\nendif()\n", KindOption, "is on, but CMake did not find OpenSSL's library"},
		"no target":  {spec.Options{"GGML_CUDA": true}, "option(GGML_CUDA x OFF)\n", KindOutput, "option GGML_CUDA is on, but CMake made no target ggml-cuda"},
		"no cpu":     {spec.Options{}, "add_custom_target(ggml-base)\n", KindOutput, "backend cpu is not on"},
		"refused":    {spec.Options{}, "message(FATAL_ERROR \"there is no way\")\n", KindCMake, "there is no way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := smallInput(t, t.TempDir())
			in.Tag, in.Build = "b9000", 9000 // which has the options by these names
			in.Recipe.CMake = c.set
			write(t, in.Source, map[string]string{"CMakeLists.txt": small["CMakeLists.txt"] + c.cmake})
			p := mustPlan(t, in)
			for range 2 { // a fault stays one: nothing was recorded as configured
				_, err := Run(t.Context(), p, RunOptions{Log: p.Dir + ".log"})
				f := wantFailed(t, err)
				if f.Kind != c.kind || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "log: "+p.Dir+".log") {
					t.Errorf("kind %q, message %s", f.Kind, err)
				}
			}
		})
	}
}

func TestCompilerError(t *testing.T) {
	in := smallInput(t, t.TempDir())
	in.Touched = map[string][]string{"greet.c": {"greeting", "manners"}}
	write(t, in.Source, map[string]string{"greet.c": "const char *greet(void) {\n    return nobody;\n}\n"})
	p := mustPlan(t, in)
	_, err := Run(t.Context(), p, RunOptions{Log: p.Dir + ".log"})
	f := wantFailed(t, err)
	if f.Kind != KindCompiler || f.File != "greet.c" || f.Line != 2 || !slices.Equal(f.Fixes, in.Touched["greet.c"]) {
		t.Errorf("got %+v", f)
	}
	want := "build b100 small: greet.c:2: "
	if !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "the fixes greeting, manners change this file") {
		t.Errorf("message %s", err)
	}
	var e *run.Error
	if !errors.As(err, &e) || e.Exit != 1 {
		t.Errorf("beneath it is %v", e)
	}
	// Repaired, it goes on.
	write(t, in.Source, map[string]string{"greet.c": small["greet.c"]})
	if art := mustRun(t, p); art.ConfigureSeconds != 0 || art.Compiled == 0 {
		t.Errorf("after the repair: %+v", art)
	}
}

func TestLinkerError(t *testing.T) {
	in := smallInput(t, t.TempDir())
	write(t, in.Source, map[string]string{"greet.c": "const char *farewell(void) { return 0; }\n"})
	_, err := Run(t.Context(), mustPlan(t, in), RunOptions{})
	if f := wantFailed(t, err); f.Kind != KindLinker || !strings.Contains(f.Cause, "undefined reference to `greet'") {
		t.Errorf("got %+v", f)
	}
}

func TestMissingProgram(t *testing.T) {
	in := smallInput(t, t.TempDir())
	in.Recipe.Programs = []string{"small", "large"}
	_, err := Run(t.Context(), mustPlan(t, in), RunOptions{})
	if f := wantFailed(t, err); f.Kind != KindOutput || !strings.Contains(f.Cause, "no program large") {
		t.Errorf("got %+v", f)
	}
}

func TestForeignFolder(t *testing.T) {
	in := smallInput(t, t.TempDir())
	write(t, in.Dir, map[string]string{"thesis.tex": "three years of work"})
	_, err := Run(t.Context(), mustPlan(t, in), RunOptions{})
	if err == nil || !strings.Contains(err.Error(), "not llpatch's, such as thesis.tex") {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(in.Dir, "thesis.tex")); err != nil || len(b) == 0 {
		t.Error("the file is gone")
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
	write(t, in.Source, map[string]string{"CMakeLists.txt": small["CMakeLists.txt"] + "file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/_deps/cccl-src)\n"})
	_, err := Run(t.Context(), mustPlan(t, in), RunOptions{})
	if f := wantFailed(t, err); !strings.Contains(f.Error(), "fetched sources that are not in the tree") {
		t.Error(f)
	}
	write(t, in.Source, small)
	mustRun(t, mustPlan(t, in))
}
