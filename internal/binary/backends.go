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
