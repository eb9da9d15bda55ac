package sim

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// cudaRE matches the functions of NVIDIA's and AMD's libraries.
var cudaRE = regexp.MustCompile(`^(?:(?:__cuda|cuda|cublas|cu|nccl|__hip|hip|hipblas)[A-Z]|rocblas_)\w*$`)

// refused returns the CUDA functions that the objects call and that the
// simulation, the library cudart, has not.
func refused(out string, p plan, cudart string) ([]string, error) {
	wanted := map[string]bool{}
	for _, f := range p.sources {
		file := filepath.Join(out, "obj", f+".o")
		o, err := elf.Open(file)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", file, err)
		}
		symbols, err := o.Symbols()
		o.Close()
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", file, err)
		}
		for _, s := range symbols {
			if s.Section == elf.SHN_UNDEF && cudaRE.MatchString(s.Name) {
				wanted[s.Name] = true
			}
		}
	}
	lib, err := elf.Open(cudart)
	if err != nil {
		return nil, err
	}
	defer lib.Close()
	symbols, err := lib.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cudart, err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			delete(wanted, s.Name)
		}
	}
	return slices.Sorted(maps.Keys(wanted)), nil
}

// refusals is the C file that gives each of the names a body: it says its name
// and returns the code that its library has for "not supported".
func refusals(names []string) []byte {
	var b bytes.Buffer
	b.WriteString("// What ggml-cuda can reach and the simulated device has not.\nint sim_refuse(const char *call);\n")
	// The device code of a HIP file, which clang refers to and a host-only build has not.
	b.WriteString("char __hip_fatbin_[1];\nvoid *__hip_gpubin_handle_;\n")
	for _, n := range names {
		if strings.HasPrefix(n, "cublas") {
			fmt.Fprintf(&b, "int %s(void) { sim_refuse(\"%[1]s\"); return 15; }\n", n) // CUBLAS_STATUS_NOT_SUPPORTED
			continue
		}
		if strings.HasPrefix(n, "hipblas") || strings.HasPrefix(n, "rocblas") {
			// HIPBLAS_STATUS_NOT_SUPPORTED; of rocBLAS's, an internal error
			fmt.Fprintf(&b, "int %s(void) { sim_refuse(\"%[1]s\"); return 7; }\n", n)
			continue
		}
		fmt.Fprintf(&b, "int %s(void) { return sim_refuse(\"%[1]s\"); }\n", n)
	}
	return b.Bytes()
}

// unresolved is an error that lists what the backend needs and no library of
// its own gives, beyond ggml's base library, which the program brings.
func unresolved(backend string) error {
	f, err := elf.Open(backend)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("%s: %w", backend, err)
	}
	var open []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF || s.Library != "" || elf.ST_BIND(s.Info) == elf.STB_WEAK || s.Name == "" {
			continue
		}
		if !strings.HasPrefix(s.Name, "ggml_") && !strings.HasPrefix(s.Name, "gguf_") {
			open = append(open, s.Name)
		}
	}
	if len(open) > 0 {
		slices.Sort(open)
		return fmt.Errorf("%s: nothing defines %s", backend, strings.Join(open, ", "))
	}
	return nil
}
