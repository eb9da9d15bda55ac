package binary_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// link builds a C++ program and a shared library that it needs, with the
// compiler of this machine.
func link(tb testing.TB, flags ...string) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	write("lib.cpp", "#include <string>\nstd::string greet(const char *s) { return std::string(\"hello \") + s; }\n")
	write("main.cpp", "#include <cstdio>\n#include <cmath>\n#include <string>\nstd::string greet(const char *);\nint "+
		"main(int c, char **v) { std::printf(\"%s %f\\n\", greet(v[0]).c_str(), std::pow(c, 2.5)); }\n")
	run := func(args ...string) {
		cmd := exec.Command("g++", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			tb.Fatalf("g++ %v: %v\n%s", args, err, out)
		}
	}
	run("-shared", "-fPIC", "-Wl,-soname,libgreet.so.1", "-o", "libgreet.so.1", "lib.cpp")
	run(append([]string{"-Wl,--build-id=sha1", "-o", "prog", "main.cpp", "libgreet.so.1"}, flags...)...)
	return dir
}

// The oracle is binutils' readelf.
func TestInspectAgreesWithReadelf(t *testing.T) {
	dir := link(t, "-Wl,-rpath,$ORIGIN:$ORIGIN/../lib")
	for _, name := range []string{"prog", "libgreet.so.1"} {
		path := filepath.Join(dir, name)
		got, err := binary.Inspect(path)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("readelf", "-dVnW", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		find := func(re string) (all []string) {
			for _, m := range regexp.MustCompile(re).FindAllStringSubmatch(string(out), -1) {
				all = append(all, m[1])
			}
			return all
		}
		if diff := cmp.Diff(find(`\(NEEDED\).*\[(.*)\]`), got.Needed); diff != "" {
			t.Errorf("%s needed: %s", name, diff)
		}
		if want := strings.Join(find(`\(RUNPATH\).*\[(.*)\]`), ""); strings.Join(got.RunPath, ":") != want {
			t.Errorf("%s runpath %v, readelf %q", name, got.RunPath, want)
		}
		if want := strings.Join(find(`\(SONAME\).*\[(.*)\]`), ""); got.SOName != want {
			t.Errorf("%s soname %q, readelf %q", name, got.SOName, want)
		}
		if want := strings.Join(find(`Build ID: ([0-9a-f]+)`), ""); got.BuildID != want {
			t.Errorf("%s build id %q, readelf %q", name, got.BuildID, want)
		}
		for _, family := range []string{"GLIBC", "GLIBCXX", "CXXABI"} {
			high := ""
			for _, v := range find(`Name: ` + family + `_([0-9.]+) `) {
				if binary.Less(high, v) {
					high = v
				}
			}
			if got.Versions[family] != high {
				t.Errorf("%s %s %q, readelf %q", name, family, got.Versions[family], high)
			}
		}
	}
}

func TestLess(t *testing.T) {
	in := []string{"2.34", "2.4", "3.4.30", "2.17", "", "2.2.5"}
	slices.SortFunc(in, func(a, b string) int {
		if binary.Less(a, b) {
			return -1
		}
		return 1
	})
	if diff := cmp.Diff([]string{"", "2.2.5", "2.4", "2.17", "2.34", "3.4.30"}, in); diff != "" {
		t.Error(diff)
	}
}

func TestVerify(t *testing.T) {
	system := []string{"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}
	plain := link(t, "-Wl,-rpath,$ORIGIN")
	stray := link(t, "-Wl,-rpath,/opt/build/lib")
	empty := link(t, "-Wl,-rpath,$ORIGIN:")
	for name, c := range map[string]struct {
		dir   string
		files []string
		v     spec.Verify
		want  []string
	}{
		"fits": {
			plain,
			[]string{"prog", "libgreet.so.1", "main.cpp"},
			spec.Verify{Machine: "EM_X86_64", Limits: buildenv.Limits{GlibcMax: "2.99", GlibcxxMax: "3.4.999"}, Needed: system},
			nil,
		},
		"globs": {plain, []string{"prog"}, spec.Verify{Needed: []string{"lib*.so.*"}}, nil},
		"not in bundle": {
			plain,
			[]string{"prog"},
			spec.Verify{Needed: system},
			[]string{"prog: needs libgreet.so.1, which is neither"},
		},
		"machine": {
			plain,
			[]string{"libgreet.so.1"},
			spec.Verify{Machine: "EM_AARCH64", Needed: system},
			[]string{"is for EM_X86_64, not for EM_AARCH64"},
		},
		"glibc": {plain, []string{"libgreet.so.1", "prog"}, spec.Verify{
			Limits: buildenv.Limits{GlibcMax: "2.1"},
			Needed: system,
		}, []string{"libgreet.so.1: needs GLIBC_2", "prog: needs GLIBC_2"}},
		"libstdc++": {plain, []string{"libgreet.so.1", "prog"}, spec.Verify{
			Limits: buildenv.Limits{GlibcxxMax: "3.4.20"},
			Needed: system,
		}, []string{"libgreet.so.1: needs GLIBCXX_3.4.21", "prog: needs GLIBCXX_3.4.21"}},
		"runpath": {
			stray,
			[]string{"libgreet.so.1", "prog"},
			spec.Verify{Needed: system},
			[]string{
				"prog: looks for libraries in /opt/build/lib",
				"prog: needs libgreet.so.1 of the bundle and does not find it: its RUNPATH is \"/opt/build/lib\"",
			},
		},
		"empty entry": {
			empty,
			[]string{"libgreet.so.1", "prog"},
			spec.Verify{Needed: system},
			[]string{"prog: looks for libraries in the current folder"},
		},
		"gone": {plain, []string{"nothing"}, spec.Verify{}, []string{"no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := binary.Verify(c.dir, c.files, c.v)
			if len(c.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var r *binary.Rejected
			if !errors.As(err, &r) {
				t.Fatalf("error %v is not a *Rejected", err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("faults:\n%v\nwant %d", err, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("fault %q does not say %q", lines[i], want)
				}
			}
		})
	}
	files, err := binary.Verify(plain, []string{"prog", "libgreet.so.1"}, spec.Verify{Needed: system})
	if err != nil {
		t.Fatal(err)
	}
	if binary.Less(binary.Floor(files, "GLIBC"), "2.2") || binary.Floor(files, "NOTHING") != "" {
		t.Errorf("floor %q, %q", binary.Floor(files, "GLIBC"), binary.Floor(files, "NOTHING"))
	}
	if out := binary.Outside(files); slices.Contains(out, "libgreet.so.1") || !slices.Contains(out, "libc.so.6") {
		t.Errorf("outside: %v", out)
	}
}

func TestNotELF(t *testing.T) {
	for _, s := range []string{"", "\x7f", "MZ\x90\x00", "#!/bin/sh\n", "\x7fELF"} {
		_, err := binary.Read(strings.NewReader(s), int64(len(s)))
		if err == nil {
			t.Errorf("%q is taken for an ELF file", s)
		}
		if s != "\x7fELF" && !errors.Is(err, binary.ErrNotELF) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	dir := link(f)
	for _, name := range []string{"prog", "libgreet.so.1"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		out, err := binary.Read(bytes.NewReader(data), int64(len(data)))
		if (out == nil) == (err == nil) {
			panic("neither a file nor an error")
		}
	})
}

func TestInspectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := binary.InspectContext(ctx, os.Args[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
