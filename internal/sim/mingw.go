package sim

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// WinePath is an absolute path of this machine as a program sees it that wine runs:
// drive Z is the root.
func WinePath(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }

// UnixPath turns WinePath round; a path that is not on drive Z comes back as it is.
func UnixPath(path string) string {
	if rest, ok := strings.CutPrefix(path, `Z:\`); ok {
		return "/" + strings.ReplaceAll(rest, `\`, "/")
	}
	return path
}

// dllNames are what NVIDIA calls its libraries for 64-bit Windows.
func dllNames(cudart int) names {
	major := fmt.Sprint(cudart / 1000)
	n := names{"cudart64_" + major + ".dll", "cublas64_" + major + ".dll", "nvcuda.dll"}
	if cudart/1000 == 11 {
		n.cudart = "cudart64_110.dll" // the whole 11 series has this one
	}
	return n
}

// mingwNames are MinGW-w64's compiler with POSIX threads: the other kind had no
// std::mutex before GCC 13. Fedora and others have that kind alone, under the second name.
var mingwNames = []string{"x86_64-w64-mingw32-g++-posix", "x86_64-w64-mingw32-g++"}

// forWindows finds what Windows takes besides; shim is a folder that comes before the
// CUDA headers.
func (t *tools) forWindows(ctx context.Context, shim string) error {
	for _, name := range mingwNames {
		if file, err := run.LookPath(name, os.Getenv("PATH")); err == nil {
			t.link = file
			break
		}
	}
	if t.link == "" {
		return &MissingTool{mingwNames[0], "not on the PATH", "apt-get install g++-mingw-w64-x86-64-posix"}
	}
	t.target = []string{
		"--target=x86_64-w64-mingw32", "-Wno-unused-command-line-argument", "-D_WIN32_WINNT=0x0601",
		"-D__USE_MINGW_ANSI_STDIO=1", "-I" + shim,
	}
	// clang would take the C++ headers of any MinGW that it finds.
	said := &bytes.Buffer{}
	err := run.Run(ctx, run.Cmd{
		Argv: []string{t.link, "-E", "-v", "-x", "c++", os.DevNull}, Env: t.env, Stderr: said,
		Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	_, list, _ := strings.Cut(said.String(), "#include <...> search starts here:\n")
	list, _, _ = strings.Cut(list, "End of search list.")
	for line := range strings.Lines(list) {
		if dir := filepath.Clean(strings.TrimSpace(line)); strings.Contains(dir, "c++") {
			t.target = append(t.target, "-stdlib++-isystem", dir)
		}
	}
	return nil
}

// linkFlags are those of every DLL: for Windows 7, nothing beside Windows's own DLLs
// needed, the same bytes each time.
var linkFlags = []string{
	"-shared", "-static", "-Wl,--no-insert-timestamp", "-Wl,--major-subsystem-version,6,--minor-subsystem-version,1",
}

// windowsNinja writes the rules of a build for Windows. What is linked, and with which
// exports, is known once the objects are there: see exports.
func windowsNinja(t tools, o Options, p plan, n names, sources []string) []byte {
	var s script

	c := slices.Concat([]string{t.clang}, t.target, []string{
		"-x", "c", "-std=gnu11", "-O2", "-g1", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-Wno-macro-redefined",
		"-I" + filepath.Join(o.Headers, "include"), "-Isrc",
	})
	s.rule("C", words(c)+" -MMD -MF $out.d -c $in -o $out", "deps = gcc", "depfile = $out.d")

	kind := s.backendRules(t, o, p, nil)

	link := append([]string{t.link}, linkFlags...)
	s.rule("LINK", words(link)+" $flags -o $out @$out.rsp", "rspfile = $out.rsp", "rspfile_content = $in $libs")

	var objects, backend []string
	for _, f := range sources {
		objects = append(objects, "obj/sim/"+f+".o")
		s.edge("obj/sim/"+f+".o", "C", []string{"src/" + f}, nil)
	}
	for _, f := range slices.Sorted(slices.Values(p.sources)) {
		backend = append(backend, "obj/"+f+".o")
		s.edge("obj/"+f+".o", kind, []string{filepath.Join(o.Src, "ggml", "src", "ggml-cuda", f)}, []string{"obj/head.pch"})
	}
	s.edge("objects", "phony", slices.Concat(objects, backend), nil)

	for _, f := range []string{"refused", "nothing"} {
		s.edge("obj/"+f+".o", "C", []string{"src/" + f + ".c"}, nil)
	}
	lib := func(name string) string { return "import/lib" + strings.TrimSuffix(name, ".dll") + ".a" }
	dll := func(out, name string, objects []string, flags ...string) {
		s.edges([]string{out, lib(name)}, "LINK", objects, []string{"src/" + name + ".def"},
			"flags = "+words(append(flags, "src/"+name+".def", "-Wl,--out-implib,"+lib(name))))
	}
	dll("lib/"+n.cudart, n.cudart, append(objects, "obj/refused.o"))
	var libs []string
	for _, name := range []string{n.cublas, n.cuda, ggmlBase} {
		out := "lib/" + name
		if name == ggmlBase { // the program brings it: only what the linker wants to know of it
			out = "import/" + name
		}
		dll(out, name, []string{"obj/nothing.o"}, "-nostdlib", "-Wl,-e,0")
		libs = append(libs, lib(name))
	}
	s.edge("libraries", "phony", []string{"lib/" + n.cudart, "lib/" + n.cublas, "lib/" + n.cuda}, nil)
	libs = append(libs, lib(n.cudart))
	s.edge(o.backend(), "LINK", backend, append(libs, "libraries", "src/"+o.backend()+".def"),
		"flags = "+words([]string{"src/" + o.backend() + ".def"}), "libs = "+words(libs))
	return s.Bytes()
}
