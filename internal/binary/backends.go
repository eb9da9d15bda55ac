package binary

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ggmlNames are the backends that ggml asks for, in its order: ggml_backend_load_all of
// ggml-backend-reg.cpp at b5000 to b10573.
var ggmlNames = []string{
	"blas", "zendnn", "cann", "cuda", "hip", "kompute", "metal", "rpc", "sycl", "vulkan", "virtgpu", "opencl", "hexagon",
	"musa", "openvino", "cpu",
}

// anyBackendRE is how ggml names the libraries of all its backends, the processor's variants
// among them, on every system.
var anyBackendRE = regexp.MustCompile(
	`^(?:lib)?ggml-(zdnn|` + strings.Join(ggmlNames, "|") + `)(?:-[a-z0-9_]+)?\.(?:so|dll|dylib)`)

// BackendOfName returns the backend that a library of that name is, "" for any other.
func BackendOfName(name string) string {
	if m := anyBackendRE.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// Backend is a library with a backend of ggml, which ggml_backend_init in it gives.
type Backend struct {
	File string `json:"file"`          // where it lies
	Kind string `json:"kind"`          // such as vulkan or cpu; "" where nothing tells
	Why  string `json:"why,omitempty"` // why ggml does not load it; "": it does
}

// Device reports whether it computes elsewhere than on this machine's processor.
func (b Backend) Device() bool { return b.Kind != "cpu" && b.Kind != "blas" && b.Kind != "zendnn" }

// BackendOf says which backend a file with this name is, and whether ggml loads it where it looks; false
// for what is none. ggml takes libggml-NAME.so and, of libggml-NAME-*.so with a ggml_backend_score, the
// one with the highest score (ggml-NAME.dll on Windows); NAME is one of those that it asks for.
func BackendOf(name string, f *File) (Backend, bool) {
	if !f.Exported("ggml_backend_init") {
		return Backend{}, false
	}
	b := Backend{File: name, Kind: BackendOfName(filepath.Base(name))}
	if kinds := f.usesOf(); len(kinds) > 0 && b.Kind == "" {
		b.Kind = kinds[0]
	}
	prefix, ext := "libggml-", ".so"
	if f.PE != nil {
		prefix, ext = "ggml-", ".dll"
	}
	rest, ok := strings.CutPrefix(filepath.Base(name), prefix)
	rest, so := strings.CutSuffix(rest, ext)
	kind, variant, variants := strings.Cut(rest, "-")
	switch {
	case !ok || !so || strings.Contains(variant, ".so."):
		b.Why = fmt.Sprintf("ggml loads what is called %sNAME%s or %sNAME-*%s", prefix, ext, prefix, ext)
	case !slices.Contains(ggmlNames, kind):
		b.Why = fmt.Sprintf("ggml asks for no backend called %s", kind)
	case variants && !f.Exported("ggml_backend_score"):
		b.Why = fmt.Sprintf("of %s%s-*%s ggml loads only what has ggml_backend_score, and it has none", prefix, kind, ext)
	}
	return b, true
}

// BackendFolders are where a program in a folder, or a library that looks for backends, finds them: in
// its own folder, and in those that distributions compile into their ggml (GGML_BACKEND_DIR; the
// file does not hold it in one piece): below the folder of libraries, ggml and ggml/backends*.
func BackendFolders(dir string) []string {
	dirs := []string{dir}
	for _, pattern := range []string{"", "lib/", "lib64/", "lib/*-linux-gnu/"} {
		top := dir
		if pattern != "" {
			top = filepath.Join(dir, "..")
		}
		for _, below := range []string{"ggml", "ggml/backends*"} {
			// The pattern is ours, and what cannot be read matches none. The folder's own name may look like one.
			found, _ := fs.Glob(os.DirFS(top), pattern+below)
			for _, name := range found {
				d := filepath.Join(top, name)
				if st, err := os.Stat(d); err == nil && st.IsDir() && !slices.Contains(dirs, d) {
					dirs = append(dirs, d)
				}
			}
		}
	}
	return dirs
}

// Backends returns ggml's backends in folders, those that it does not load among them, sorted by folder and name.
// What cannot be read, a folder too, is none. The error is the context's.
func Backends(ctx context.Context, dirs ...string) ([]Backend, error) {
	var list []Backend
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // with what could be read of it
		for _, e := range entries {
			file := filepath.Join(dir, e.Name())
			// ggml takes a link for what it leads to.
			st, err := os.Stat(file)
			if err != nil || !st.Mode().IsRegular() || !strings.Contains(e.Name(), "ggml-") {
				continue
			}
			f, err := readNames(ctx, file)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				continue
			}
			if b, ok := BackendOf(file, f); ok {
				list = append(list, b)
			}
		}
	}
	return list, nil
}

// readNames reads what a library needs and exports. Of ELF files it reads no more: device
// code may be of a gigabyte.
func readNames(ctx context.Context, file string) (*File, error) {
	if f, err := ReadLibrary(file); err == nil {
		return f, nil
	}
	return InspectContext(ctx, file)
}
