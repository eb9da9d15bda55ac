package sim

import (
	"bytes"
	"context"
	"debug/pe"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// ggmlBase is the library of ggml that a program brings for its backends.
const ggmlBase = "ggml-base.dll"

// coffExternal is IMAGE_SYM_CLASS_EXTERNAL, COFF's class of a symbol that other files see.
const coffExternal = 2

// symbols are what object files give to others and want of others.
type symbols struct{ defined, wanted map[string]bool }

func (s symbols) read(file string) error {
	f, err := pe.Open(file)
	if err != nil {
		return fmt.Errorf("object %s: %w", file, err)
	}
	defer f.Close()
	for _, sym := range f.Symbols {
		switch {
		case sym.StorageClass != coffExternal:
		case sym.SectionNumber > 0:
			s.defined[sym.Name] = true
		case sym.SectionNumber == 0 && sym.Value == 0:
			s.wanted[sym.Name] = true
		}
	}
	return nil
}

func objectSymbols(files []string) (symbols, error) {
	s := symbols{map[string]bool{}, map[string]bool{}}
	for _, f := range files {
		if err := s.read(f); err != nil {
			return s, err
		}
	}
	for name := range s.defined {
		delete(s.wanted, name)
	}
	return s, nil
}

// declaredRE matches a function of NVIDIA's headers where it is declared.
var declaredRE = regexp.MustCompile(`\b((?:cuda|cublas|cu)[A-Z]\w*)\s*\(`)

// declared returns the functions that NVIDIA's headers declare, by the names that their
// macros give them.
func (b *builder) declared(ctx context.Context) ([]string, error) {
	file := filepath.Join(b.o.Out, "src", "declared.c")
	if err := writeChanged(file, []byte("#include <cuda.h>\n#include <cuda_runtime_api.h>\n#include <cublas_v2.h>\n")); err != nil {
		return nil, err
	}
	argv := slices.Concat([]string{b.tools.clang}, b.tools.target,
		[]string{"-x", "c", "-w", "-E", "-P", "-I" + filepath.Join(b.o.Headers, "include"), file})
	text, err := run.Output(ctx, run.Cmd{Argv: argv, Env: b.tools.env, Timeout: time.Minute})
	if err != nil {
		return nil, fmt.Errorf("functions of NVIDIA's headers: %w", err)
	}
	var names []string
	for _, m := range declaredRE.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	return names, nil
}

// exports writes what each DLL exports, and the bodies of those functions that are not
// simulated: a program is not loaded at all where a library lacks one. It returns those
// of them that the backend can reach.
func (b *builder) exports(ctx context.Context, p plan) ([]string, error) {
	var own, objects []string
	for _, f := range b.c {
		own = append(own, filepath.Join(b.o.Out, "obj", "sim", f+".o"))
	}
	device, err := objectSymbols(own)
	if err != nil {
		return nil, err
	}
	for _, f := range p.sources {
		objects = append(objects, filepath.Join(b.o.Out, "obj", f+".o"))
	}
	backend, err := objectSymbols(objects)
	if err != nil {
		return nil, err
	}
	declared, err := b.declared(ctx)
	if err != nil {
		return nil, err
	}
	lacking, reached := map[string]bool{}, map[string]bool{}
	for _, name := range declared {
		lacking[name] = true
	}
	for name := range backend.wanted {
		if cudaRE.MatchString(name) && !device.defined[name] {
			lacking[name], reached[name] = true, true
		}
	}
	for name := range device.defined {
		delete(lacking, name)
	}
	files := map[string][]byte{
		"nothing.c": []byte("typedef int nothing;\n"),
		"refused.c": refusals(slices.Sorted(maps.Keys(lacking))),
	}
	all := slices.Collect(maps.Keys(lacking))
	for name := range device.defined {
		if cudaRE.MatchString(name) || strings.HasPrefix(name, "sim_") {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	var cudart, cublas, cuda []string
	core := strings.TrimSuffix(b.names.cudart, ".dll")
	for _, name := range all {
		forward := name + " = " + core + "." + name
		// One library has it all; the others point there. PRIVATE: not for the linker.
		switch {
		case strings.HasPrefix(name, "cublas"):
			cublas, name = append(cublas, forward), name+" PRIVATE"
		case strings.HasPrefix(name, "cu") && !strings.HasPrefix(name, "cuda"):
			cuda, name = append(cuda, forward), name+" PRIVATE"
		}
		cudart = append(cudart, name)
	}
	files[b.names.cudart+".def"] = definition(b.names.cudart, cudart)
	files[b.names.cublas+".def"] = definition(b.names.cublas, cublas)
	files[b.names.cuda+".def"] = definition(b.names.cuda, cuda)
	var base, given []string
	for name := range backend.wanted {
		if strings.HasPrefix(name, "ggml_") || strings.HasPrefix(name, "gguf_") {
			base = append(base, name+" = elsewhere."+name)
		}
	}
	for name := range backend.defined {
		if strings.HasPrefix(name, "ggml_backend_") {
			given = append(given, name)
		}
	}
	files[ggmlBase+".def"] = definition(ggmlBase, base)
	files[b.o.backend()+".def"] = definition(b.o.backend(), given)
	for name, data := range files {
		if err := writeChanged(filepath.Join(b.o.Out, "src", name), data); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(reached)), nil
}

// definition is a module definition file, which tells the linker what a DLL exports.
func definition(dll string, exports []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "LIBRARY %q\nEXPORTS\n", dll)
	for _, line := range slices.Sorted(slices.Values(exports)) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.Bytes()
}
