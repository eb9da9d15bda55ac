package build

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

func TestOptionFaults(t *testing.T) {
	for name, c := range map[string]struct {
		set   spec.Options
		cmake string // appended to CMakeLists.txt
		kind  Kind
		want  string
	}{
		"unused": {
			spec.Options{"SMALL_OLD": true},
			"", KindOption,
			"option SMALL_OLD=ON (recipe small) was not used by CMake",
		},
		"changed": {
			spec.Options{"SMALL_N": int64(3)},
			"set(SMALL_N 4 CACHE STRING x FORCE)\n", KindOption,
			`option SMALL_N=3 (recipe small) was changed by CMake to "4"`,
		},
		"deprecated": {
			spec.Options{"SMALL_OLD": true},
			"if (SMALL_OLD)\nmessage(WARNING \"SMALL_OLD is deprecated and " +
				"will be ignored\")\nendif()\n", KindOption,
			"option SMALL_OLD=ON (recipe small) has no effect at b9000 any more: SMALL_OLD is deprecated and will be ignored",
		},
		"not found": {
			spec.Options{"LLAMA_OPENSSL": true},
			"if (LLAMA_OPENSSL)\nset(OPENSSL_SSL_LIBRARY " +
				"OPENSSL_SSL_LIBRARY-NOTFOUND CACHE FILEPATH x)\nendif()\n", KindOption,
			"is on, but CMake did not find OpenSSL's library",
		},
		"no target": {
			spec.Options{"GGML_CUDA": true},
			"option(GGML_CUDA x OFF)\n", KindOutput,
			"option GGML_CUDA is on, but CMake made no target ggml-cuda",
		},
		"no cpu":  {spec.Options{}, "add_custom_target(ggml-base)\n", KindOutput, "backend cpu is not on"},
		"refused": {spec.Options{}, "message(FATAL_ERROR \"there is no way\")\n", KindCMake, "there is no way"},
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
				if f.Kind != c.kind || !strings.Contains(err.Error(), c.want) ||
					!strings.HasSuffix(err.Error(), "log: "+p.Dir+".log") {
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
	if !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(),
		"the fixes greeting, manners change this file") {
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
