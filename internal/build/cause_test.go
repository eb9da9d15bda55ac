package build

import (
	"slices"
	"strings"
	"testing"
)

// What real programs print when they fail.
func TestFindCause(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		kind   Kind
		file   string
		line   int
		text   string
	}{
		"gcc": {
			`[1/3] Building C object a.o
FAILED: common/CMakeFiles/common.dir/arg.cpp.o 
/usr/bin/g++ -DX -c /src/common/arg.cpp
In file included from /src/common/arg.h:3,
                 from /src/common/arg.cpp:1:
/src/common/arg.cpp: In function 'void f()':
/src/common/arg.cpp:12:5: warning: unused variable 'x' [-Wunused-variable]
/src/common/arg.cpp:14:10: error: 'nobody' was not declared in this scope
   14 |   return nobody;
/src/common/arg.cpp:20:1: error: second
[2/3] Building C object b.o
ninja: build stopped: subcommand failed.`, KindCompiler, "common/arg.cpp", 14,
			"'nobody' was not declared in this scope",
		},
		"gcc, no header": {
			"FAILED: x.o\ng++ -c\n/src/tools/x.cpp:1:10: fatal error: openssl/ssl.h: No such file or directory\ncompilation " +
				"terminated.",
			KindCompiler, "tools/x.cpp", 1, "openssl/ssl.h: No such file or directory",
		},
		"ninja 1.12": {
			"FAILED: [code=1] x.o \ng++ -c\n/src/x.c:3:1: error: unknown type name 'foo'", KindCompiler, "x.c", 3,
			"unknown type name 'foo'",
		},
		"clang": {
			"FAILED: x.o\nclang -c\n../src/x.c:3:1: error: use of undeclared identifier 'y'\n1 error generated.", KindCompiler,
			"x.c", 3, "use of undeclared identifier 'y'",
		},
		"nvcc": {
			"FAILED: x.o\nnvcc -c\n/src/ggml/src/ggml-cuda/mmq.cuh(123): error: identifier \"foo\" is undefined\n",
			KindCompiler, "ggml/src/ggml-cuda/mmq.cuh", 123, `identifier "foo" is undefined`,
		},
		"unknown flag": {
			"FAILED: x.o\ng++ -mamx\ng++: error: unrecognized command-line option '-mamx'", KindCompiler, "x.o", 0,
			"unrecognized command-line option '-mamx'",
		},
		"killed, gcc 12": {
			"FAILED: a.o\ng++ -c\ng++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
			KindMemory, "a.o", 0, "g++: fatal error: Killed signal terminated program cc1plus",
		},
		"killed, gcc 7": {
			"FAILED: a.o\ng++ -c\ng++: internal compiler error: Killed (program cc1plus)\nPlease submit a full bug report",
			KindMemory, "a.o", 0, "g++: internal compiler error: Killed (program cc1plus)",
		},
		"full disk, nvcc's host compiler": {
			"FAILED: a.cu.o\nnvcc -c\n<built-in>: fatal error: when writing output to a.cu.o.cpp1.ii: No space left on " +
				"device\ncompilation terminated.\n", KindDisk, "a.cu.o", 0,
			"<built-in>: fatal error: when writing output to a.cu.o.cpp1.ii: No space left on device",
		},
		"full disk, cudafe++": {
			"FAILED: a.cu.o\nnvcc -c\n/usr/include/c++/11/type_traits(1555): catastrophic error: error while writing " +
				"generated C++ file: No space left on device\n\n1 catastrophic error detected in the compilation of " +
				"\"/src/a.cu\".\nCompilation terminated.\n", KindDisk, "a.cu.o", 0, "/usr/include/c++/11/type_traits(1555): " +
				"catastrophic error: error while writing generated C++ file: No space left on device",
		},
		"killed, nvcc's child": {
			"FAILED: a.cu.o\nnvcc -c\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)\n", KindMemory, "a.cu.o", 0,
			"nvcc error : 'cicc' died due to signal 9 (Kill signal)",
		},
		"no memory, ptxas": {
			"FAILED: a.cu.o\nnvcc -c\nptxas fatal   : Memory allocation failure\n", KindMemory, "a.cu.o", 0,
			"ptxas fatal : Memory allocation failure",
		},
		"killed by the shell's word": {"FAILED: a.o\nnvcc -c\nKilled\n", KindMemory, "a.o", 0, "Killed"},
		"killed, ninja 1.12":         {"FAILED: [code=137] a.o \nnvcc -c\n", KindMemory, "a.o", 0, "FAILED: [code=137] a.o"},
		"no memory": {
			"FAILED: a.o\ng++ -c\ncc1plus: out of memory allocating 65536 bytes after a total of 1 bytes", KindMemory, "a.o", 0,
			"cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
		},
		"no memory, clang": {
			"FAILED: a.o\nclang -c\nLLVM ERROR: out of memory\n", KindMemory, "a.o", 0,
			"LLVM ERROR: out of memory",
		},
		"linker was killed": {
			"FAILED: bin/x\ng++ -o bin/x\ncollect2: fatal error: ld terminated with signal 9 [Killed]",
			KindMemory, "bin/x", 0, "collect2: fatal error: ld terminated with signal 9 [Killed]",
		},
		"disk": {
			"FAILED: a.o\ng++ -c\n/src/a.c:1:1: error: made up\n{standard input}: Assembler messages:\nfatal error: error " +
				"writing to /tmp/x.s: No space left on device", KindDisk, "a.o", 0,
			"fatal error: error writing to /tmp/x.s: No space left on device",
		},
		"linker": {
			"FAILED: bin/x\ng++ -o bin/x\n/usr/bin/ld: x.o: in function `main':\n/src/main.c:5: undefined reference to " +
				"`greet'\ncollect2: error: ld returned 1 exit status", KindLinker, "bin/x", 0, "undefined reference to `greet'",
		},
		"linker, lld": {"FAILED: bin/x\nclang -o bin/x\nld.lld: error: undefined symbol: greet\n>>> referenced " +
			"by main.c:5", KindLinker, "bin/x", 0, "undefined symbol: greet"},
		"linker, library": {
			"FAILED: bin/x\ng++ -o bin/x\n/usr/bin/ld: cannot find -lssl: No such file or " +
				"directory\ncollect2: error: ld returned 1 exit status", KindLinker, "bin/x", 0,
			"cannot find -lssl: No such file or directory",
		},
		"cmake": {
			"-- The C compiler is GNU\nCMake Error at ggml/src/CMakeLists.txt:189 (message):\n  GGML_BACKEND_DL requires " +
				"BUILD_SHARED_LIBS\n\n\n-- Configuring incomplete, errors occurred!", KindCMake, "ggml/src/CMakeLists.txt", 189,
			"GGML_BACKEND_DL requires BUILD_SHARED_LIBS",
		},
		"cmake, no file": {
			"CMake Error: CMake was unable to find a build program corresponding to \"Ninja\".", KindCMake,
			"", 0, `CMake was unable to find a build program corresponding to "Ninja".`,
		},
		"ninja alone": {
			"ninja: error: '/src/a.h', needed by 'a.o', missing and no known rule to make it", KindOther, "",
			0, "'/src/a.h', needed by 'a.o', missing and no known rule to make it",
		},
		"a script": {
			"FAILED: gen.h\npython gen.py\nTraceback (most recent call last):\nValueError: no", KindOther,
			"gen.h", 0, "ValueError: no",
		},
		"nothing at all": {"", KindOther, "", 0, "a command failed and did not say why"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Plan{Source: "/src", Dir: "/build", Touched: map[string][]string{"common/arg.cpp": {"a-fix"}}}
			w := newWatcher("", nil)
			// In small pieces, as pipes give it.
			for i := 0; i < len(c.output); i += 7 {
				_, _ = w.Write([]byte(c.output[i:min(i+7, len(c.output))]))
			}
			f := p.failed(Compile, findCause(w.all()))
			if f.Kind != c.kind || f.File != c.file || f.Line != c.line || f.Cause != c.text {
				t.Errorf("got %s, %s:%d, %q", f.Kind, f.File, f.Line, f.Cause)
			}
			if len(f.Tail) > tailLines || slices.ContainsFunc(f.Tail, func(l string) bool {
				return strings.HasPrefix(l, "FAILED")
			}) {
				t.Errorf("tail %q", f.Tail)
			}
			if name == "gcc" && !strings.Contains(f.Error(), "the fix a-fix changes this file") {
				t.Errorf("message %s", f)
			}
		})
	}
}

// However much a step prints, what is kept is bounded, and a failure at the
// beginning of it is still found.
func TestWatcherIsBounded(t *testing.T) {
	w := newWatcher("", nil)
	line := []byte(strings.Repeat("x", 100) + "\n")
	for range 10 * keepLines {
		_, _ = w.Write(line)
	}
	if n := len(w.all()); n > keepLines {
		t.Errorf("%d lines are kept", n)
	}
	_, _ = w.Write([]byte("FAILED: a.o\ncc\na.c:1:1: error: first\n"))
	for range 10 * keepLines {
		_, _ = w.Write(line)
	}
	if c := findCause(w.all()); c.text != "first" || len(w.all()) > keepLines {
		t.Errorf("got %q of %d lines", c.text, len(w.all()))
	}
}

func TestWatcherCounts(t *testing.T) {
	var got []int64
	w := newWatcher(Compile, func(what string, done, total int64) {
		if what != Compile || total != 3 {
			t.Errorf("progress %s %d/%d", what, done, total)
		}
		got = append(got, done)
	})
	_, _ = w.Write([]byte("ninja: Entering directory `x'\n[1/3] Building CXX object a.o\n[2/3] Building C object " +
		"b.o\n[3/3] Linking CXX executable bin/x\n"))
	w.all()
	if w.objects != 2 || w.steps != 3 || !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("%d objects, %d steps, %v", w.objects, w.steps, got)
	}
}
