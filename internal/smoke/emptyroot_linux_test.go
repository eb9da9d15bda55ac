package smoke

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// compileBundle makes a folder with a program that uses a library beside it, and
// returns it.
func compileBundle(t *testing.T, body string, link ...string) string {
	t.Helper()
	dir := t.TempDir()
	src := t.TempDir()
	for name, text := range map[string]string{
		"lib.c": "int number(void) { return 7; }\n",
		"main.c": "#include <stdio.h>\n#include <string.h>\nint number(void);\nint main(int argc, char **argv) {\n" + body +
			"\nfprintf(stderr, \"version: %d (abc)\\n\", number());\nreturn 0; }\n",
	} {
		if err := os.WriteFile(filepath.Join(src, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gcc := func(args ...string) {
		c := exec.Command("gcc", args...)
		c.Dir = src
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, out)
		}
	}
	gcc("-shared", "-fPIC", "-Wl,-soname,libnumber.so.1", "-o", filepath.Join(dir, "libnumber.so.1.0"), "lib.c")
	if err := os.Symlink("libnumber.so.1.0", filepath.Join(dir, "libnumber.so.1")); err != nil {
		t.Fatal(err)
	}
	gcc(append([]string{"-o", filepath.Join(dir, "llama-server"), "main.c", "-L" + dir, "-l:libnumber.so.1"}, link...)...)
	return dir
}

func TestEmptyRoot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body    string
		link    []string
		spoil   func(t *testing.T, dir string)
		verdict Verdict
		detail  string
	}{
		"whole": {
			"",
			[]string{"-Wl,-rpath,$ORIGIN", "-lm"},
			nil, Passed,
			"with nothing but the bundle and ld-linux-x86-64.so.2, libc.so.6",
		},
		"no runpath": {"", nil, nil, Failed, "the loader does not load /bundle/llama-server: error while loading shared " +
			"libraries: libnumber.so.1:"},
		"other folder": {
			"",
			[]string{"-Wl,-rpath,/usr/share/llama"},
			nil, Failed,
			"libnumber.so.1: cannot open shared object file",
		},
		"a file of this machine": {
			`FILE *f = fopen("/etc/passwd", "r"); if (!f) { fprintf(stderr, "no users\n"); return 3; }`,
			[]string{"-Wl,-rpath,$ORIGIN"},
			nil, Failed, "llama-server --version: ",
		},
		"another version": {
			`if (argc > 1) { fprintf(stderr, "version: 8 (abc)\n"); return 0; }`,
			[]string{"-Wl,-rpath,$ORIGIN"},
			nil, Failed, "does not say build 7, commit abc",
		},
		"a library that this machine lacks": {
			"",
			[]string{"-Wl,-rpath,$ORIGIN"},
			func(t *testing.T, dir string) {
				if err := os.Remove(filepath.Join(dir, "libnumber.so.1")); err != nil {
					t.Fatal(err)
				}
			}, Skipped, "this machine lacks libnumber.so.1, so what needs it was not looked at",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{
				Bin: compileBundle(t, tc.body, tc.link...), Work: t.TempDir(),
				Checks: []spec.Check{check("empty-root")}, Want: Version{Build: 7, Commit: "abc"},
			}
			if tc.spoil != nil {
				tc.spoil(t, o.Bin)
			}
			r, err := Run(t.Context(), o)
			if got := r.Checks[0]; got.Verdict != tc.verdict || !strings.Contains(got.Detail, tc.detail) {
				t.Errorf("%s: %s (%v)\n%s", got.Verdict, got.Detail, err, strings.Join(got.Tail, "\n"))
			}
			left, err := filepath.Glob(filepath.Join(o.Work, "root-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Every way that this machine has gives the same answer, and where it has none the
// check is not run, which is no pass.
func TestEmptyRootWays(t *testing.T) {
	t.Parallel()
	dir := compileBundle(t, "", "-Wl,-rpath,$ORIGIN")
	files, err := elfFiles(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	root := func() *emptyRoot {
		s, err := newSession(Options{
			Bin: dir, Work: t.TempDir(), Checks: []spec.Check{check("empty-root")},
			Answer: DefaultAnswer,
		}, &Report{})
		if err != nil {
			t.Fatal(err)
		}
		r := &emptyRoot{dir: t.TempDir(), s: s}
		if err := r.fill(t.Context(), dir, files); err != nil {
			t.Fatal(err)
		}
		return r
	}
	worked := 0
	for _, w := range ways {
		r := root()
		if err := r.enter(t.Context(), []way{w}); err != nil {
			t.Logf("%v", err)
			continue
		}
		worked++
		for _, f := range binary.Roots(files) {
			if err := r.loads(t.Context(), f); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
		if err := r.starts(t.Context(), "llama-server"); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	if worked == 0 {
		t.Error("no empty root could be made in any way: this machine shows nothing")
	}
	none := way{"false", false, func(string) []string { return []string{"false"} }}
	lost := way{"lost", false, func(string) []string { return []string{"llpatch-no-such-program"} }}
	err = root().enter(t.Context(), []way{lost, none})
	if a := new(absent); !errors.As(err, &a) || !strings.Contains(a.why,
		"no empty root can be made here: lost is not installed; false: ") {
		t.Errorf("got %v", err)
	}
}

// What lies beside the driver only is not asked for.
func TestEmptyRootDriver(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	dir := compileBundle(t, "", "-Wl,-rpath,$ORIGIN")
	file := filepath.Join(src, "cuda.c")
	if err := os.WriteFile(file, []byte("int cuInit(int x) { return x; }\nint backend(void) { return cuInit(0); }\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", filepath.Join(src, "libcuda.so.1"), file},
		{"-shared", "-fPIC", "-Wl,-soname,liblost.so.1", "-o", filepath.Join(src, "liblost.so.1"), file},
		{
			"-shared", "-fPIC", "-o", filepath.Join(dir, "libggml-cuda.so"), file, "-L" + src, "-Wl,--no-as-needed",
			"-l:libcuda.so.1",
		},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	o := Options{
		Bin: dir, Work: t.TempDir(), Checks: []spec.Check{check("empty-root")},
		Want: Version{Build: 7, Commit: "abc"},
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Errorf("with a backend that needs the driver: %v", err)
	}
	// A library that nobody has here: what needs it was not looked at, and that is no pass.
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", filepath.Join(dir, "libggml-lost.so"), file, "-L"+src,
		"-Wl,--no-as-needed", "-l:liblost.so.1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := Run(t.Context(), o)
	if not := new(NotRun); !errors.As(err, &not) {
		t.Errorf("got %v", err)
	}
	if r.Checks[0].Verdict != Skipped || !strings.Contains(r.Checks[0].Detail,
		"this machine lacks liblost.so.1, so what needs it was not looked at") {
		t.Errorf("%s: %s", r.Checks[0].Verdict, r.Checks[0].Detail)
	}
}
