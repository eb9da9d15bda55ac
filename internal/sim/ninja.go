package sim

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// script is a build.ninja in the making.
type script struct{ bytes.Buffer }

func (s *script) rule(name, command string, more ...string) {
	fmt.Fprintf(s, "rule %s\n  command = %s\n  description = %s $out\n", name, command, name)
	for _, m := range more {
		fmt.Fprintf(s, "  %s\n", m)
	}
}

// edge adds a build statement; vars are NAME = VALUE lines.
func (s *script) edge(out, rule string, in, implicit []string, vars ...string) {
	s.edges([]string{out}, rule, in, implicit, vars...)
}

// edges is edge for a rule that makes several files.
func (s *script) edges(outs []string, rule string, in, implicit []string, vars ...string) {
	s.WriteString("build")
	for i, out := range outs {
		if i == 1 {
			s.WriteString(" |") // $out is the first
		}
		s.WriteString(" " + escape(out))
	}
	s.WriteString(": " + rule)
	for _, f := range in {
		s.WriteString(" " + escape(f))
	}
	if len(implicit) > 0 {
		s.WriteString(" |")
		for _, f := range implicit {
			s.WriteString(" " + escape(f))
		}
	}
	s.WriteByte('\n')
	for _, v := range vars {
		fmt.Fprintf(s, "  %s\n", v)
	}
}

var ninjaEscapes = strings.NewReplacer("$", "$$", " ", "$ ", ":", "$:", "\n", "$\n")

func escape(path string) string { return ninjaEscapes.Replace(path) }

// words writes arguments for the shell that Ninja uses.
func words(args []string) string { return strings.ReplaceAll(run.QuoteArgv(args), "$", "$$") }

// names are what a CUDA version calls its libraries.
type names struct{ cudart, cublas, cuda string }

func namesOf(cudart int) names {
	major := fmt.Sprint(cudart / 1000)
	n := names{"libcudart.so." + major, "libcublas.so." + major, "libcuda.so.1"}
	if cudart/1000 == 11 {
		n.cudart = "libcudart.so.11.0" // the whole 11 series has this one
	}
	return n
}

// hipNames are those of HIP 6, as Debian and AMD have them.
var hipNames = names{"libamdhip64.so.6", "libhipblas.so.2", "librocblas.so.4"}

// versions is the linker script that gives each function the symbol version
// that NVIDIA's library of it has, so that other programs find it too.
func (n names) versions() string {
	if n == hipNames {
		return n.cudart + " { global: hip*; __hip*; sim_*; local: *; };\n"
	}
	return n.cudart + " { global: cuda*; __cuda*; sim_*; local: *; };\n" +
		n.cublas + " { global: cublas*; };\n" +
		n.cuda + " { global: cu[A-Z]*; };\n"
}

// optimize is -O0 because compiling is what takes the time: the host code of a
// kernel launch does next to nothing.
const optimize = "-O0"

// cudaFlags compile the host side of a CUDA file, with kernel launches in the
// form in which the simulation sees each argument (c/launch.h). clang puts the
// runtime's own header first, which launch.h, in the folder src, needs. sm_86
// chooses no code on the host side, but clang wants one.
func cudaFlags(t tools, headers string) []string {
	return slices.Concat([]string{t.clang}, t.target, []string{
		"-x", "cuda", "--cuda-host-only", "--cuda-path=" + headers, "-nocudalib", "--cuda-gpu-arch=sm_86",
		"-Xclang", "-target-sdk-version=9.0",
	})
}

// hipFlags are cudaFlags for a HIP file; the launches' older form is an option there.
func hipFlags(t tools, headers string) []string {
	return []string{
		t.clang, "-x", "hip", "--cuda-host-only", "-nogpulib", "--rocm-path=" + headers, "--offload-arch=gfx1201",
		"-fno-hip-new-launch-api",
		"-D__HIP_PLATFORM_AMD__=1", "-I" + filepath.Join(headers, "include"),
	}
}

// head is a file with what every file of the backend begins with. Compiled once, it
// takes off half of the time.
const head = "head.cuh"

func (o Options) headText() string {
	if o.HIP != "" {
		return "#include \"clock.h\"\n#include \"common.cuh\"\n#include \"hip/launch.h\"\n"
	}
	return "#include \"launch.h\"\n#include \"clock.h\"\n#include \"common.cuh\"\n"
}

// backendRules writes the rules that compile the backend's files and returns the last's name.
func (s *script) backendRules(t tools, o Options, p plan, flags []string) string {
	kind, ggml := "CUDA", filepath.Join(o.Src, "ggml")
	argv := cudaFlags(t, o.Headers)
	if o.HIP != "" {
		kind, argv = "HIP", hipFlags(t, o.HIP)
	}
	argv = slices.Concat(argv, []string{"-std=gnu++17", optimize, "-DNDEBUG", "-w"}, flags,
		[]string{"-DGGML_BACKEND_DL", "-DGGML_BACKEND_SHARED", "-DGGML_BACKEND_BUILD", "-DGGML_SHARED"})
	for _, d := range slices.Concat(p.definitions, o.Defines) {
		argv = append(argv, "-D"+d)
	}
	argv = append(argv, "-I"+filepath.Join(ggml, "src", "ggml-cuda"), "-I"+filepath.Join(ggml, "src"), "-I"+
		filepath.Join(ggml, "include"), "-Isrc")
	s.rule("PCH", words(argv)+" -Xclang -emit-pch -MD -MF $out.d -c $in -o $out", "deps = gcc", "depfile = $out.d")
	s.edge("obj/head.pch", "PCH", []string{"src/" + head}, nil)
	s.rule(kind, words(append(argv, "-include-pch", "obj/head.pch"))+" -MD -MF $out.d -c $in -o $out", "deps = gcc",
		"depfile = $out.d")
	return kind
}

// ninjaFile writes the rules. Everything is relative to out, where Ninja runs.
func ninjaFile(t tools, o Options, p plan, n names, sources []string) []byte {
	var s script
	include := filepath.Join(o.Headers, "include")

	c := []string{
		t.clang, "-x", "c", "-std=gnu11", "-O2", "-g1", "-fPIC", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror",
		"-I" + include, "-Isrc",
	}
	s.rule("C", words(c)+" -MMD -MF $out.d -c $in -o $out", "deps = gcc", "depfile = $out.d")

	if o.HIP != "" { // HIP's headers and CUDA's define the same names
		c := slices.Concat(c[:len(c)-2], []string{
			"-Isrc", "-D__HIP_PLATFORM_AMD__=1", "-isystem",
			filepath.Join(o.HIP, "include"),
		})
		s.rule("CHIP", words(c)+" -MMD -MF $out.d -c $in -o $out", "deps = gcc", "depfile = $out.d")
	}

	kind := s.backendRules(t, o, p, []string{"-fPIC", "-D_GNU_SOURCE", "-D_XOPEN_SOURCE=600"})

	s.rule("LINK", words([]string{t.clang, "-shared", "-Wl,--build-id"})+" $flags -o $out $in $libs")

	var objects []string
	for _, f := range sources {
		if filepath.Ext(f) != ".c" {
			continue
		}
		rule := "C"
		if f == "hip/device.c" {
			rule = "CHIP"
		}
		objects = append(objects, "obj/sim/"+f+".o")
		s.edge("obj/sim/"+f+".o", rule, []string{"src/" + f}, nil)
	}
	cudart := "lib/" + n.cudart
	s.edge(cudart, "LINK", objects, []string{"src/versions.map"},
		"flags = "+words([]string{
			"-nostdlib++", "-Wl,-soname," + n.cudart, "-Wl,--version-script=src/versions.map",
			"-Wl,-Bsymbolic", "-Wl,-z,defs", "-pthread",
		}))
	for _, name := range []string{n.cublas, n.cuda} {
		// Nothing but a name: what they have stands in the first library.
		s.edge("lib/"+name, "LINK", nil, []string{cudart},
			"flags = "+words([]string{
				"-nostdlib++", "-nostartfiles", "-Wl,-soname," + name, "-Wl,--no-as-needed", cudart,
				"-Wl,-rpath,$ORIGIN",
			}))
	}

	var backend []string
	for _, f := range slices.Sorted(slices.Values(p.sources)) {
		object := "obj/" + f + ".o"
		backend = append(backend, object)
		s.edge(object, kind, []string{filepath.Join(o.Src, "ggml", "src", "ggml-cuda", f)}, []string{"obj/head.pch"})
	}
	s.edge("objects", "phony", slices.Concat(backend, []string{cudart, "lib/" + n.cublas, "lib/" + n.cuda}), nil)
	s.edge("obj/sim/refused.o", "C", []string{"src/refused.c"}, nil)
	link := []string{"-Wl,-soname," + o.backend(), "-Wl,-rpath,$ORIGIN/lib", "-Wl,--no-as-needed", "-Llib"}
	if o.HIP != "" {
		// clang gives each object a mark of the same name where there is no device code.
		link = append(link, "-Wl,-z,muldefs")
	}
	s.edge(o.backend(), "LINK", append(slices.Clone(backend), "obj/sim/refused.o"),
		[]string{cudart, "lib/" + n.cublas, "lib/" + n.cuda},
		"flags = "+words(link),
		"libs = "+words([]string{cudart, "lib/" + n.cublas, "lib/" + n.cuda}))
	return s.Bytes()
}
