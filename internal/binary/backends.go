package binary

import (
	"fmt"
	"os"
	"regexp"
)

// backendRE is how ggml names the libraries of its device backends, which a program
// built with GGML_BACKEND_DL loads from its own folder: ggml_backend_load_all in
// ggml-backend-reg.cpp.
var backendRE = regexp.MustCompile(`^libggml-(cuda|hip|musa|vulkan|sycl|opencl|metal|cann)\.so`)

// anyBackendRE is how ggml names the libraries of all its backends, the processor's variants
// among them, on every system.
var anyBackendRE = regexp.MustCompile(
	`^(?:lib)?ggml-(cpu|blas|cuda|hip|musa|vulkan|sycl|opencl|metal|cann|rpc|zdnn|hexagon)(?:-[a-z0-9_]+)?\.(?:so|dll|dylib)`)

// Backend returns the backend that a library of that name is, "" for any other.
func Backend(name string) string {
	if m := anyBackendRE.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// Backends returns the sorted names of ggml's device backends in a folder.
func Backends(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for backends in %s: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); backendRE.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}
