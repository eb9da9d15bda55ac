package dryrun

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// roots are what the card asks of a tag's ggml-cuda.
var roots = []string{"ggml_backend_cuda_device_supports_op", "ggml_backend_cuda_buffer_type_get_alloc_size"}

// provided are what card.cpp has instead of what stands in ggml-cuda.
var provided = []string{
	"ggml_backend_cuda_device_context", "ggml_backend_cuda_buffer_type_context",
	"ggml_backend_cuda_split_buffer_type_context", "ggml_backend_cuda_context", "ggml_cuda_device_info",
	"ggml_cuda_info", "ggml_cuda_highest_compiled_arch", "ggml_cuda_get_device", "ggml_backend_buft_is_cuda",
	"ggml_backend_buft_is_cuda_host", "ggml_backend_buft_is_cuda_split", "get_row_split",
	"ggml_cuda_get_fattn_vec_case", "FLASH_ATTN_AVAILABLE", "GGML_CUDA_USE_CUB", "QK_K",
}

var (
	commentRE    = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	wordRE       = regexp.MustCompile(`[A-Za-z_]\w*`)
	enumeratorRE = regexp.MustCompile(`([A-Za-z_]\w*)\s*(?:=[^,}]*)?[,}]`)
	defineRE     = regexp.MustCompile(`^#\s*define\s+(\w+)`)
	typeRE       = regexp.MustCompile(`^(?:struct|enum)\s+(\w+)\s*(?::\s*\w+\s*)?\{`)
	// a function's first line; its name is the last word before the parenthesis
	functionRE = regexp.MustCompile(`^(?:static |inline |constexpr |__host__ |__device__ |__forceinline__ |const |\[\[\w+\]\] )*[\w:]+(?: \*| &|\*|&| )+(\w+)\(`)
)

// slice cuts the roots out of the sources in dir, ggml/src/ggml-cuda of a tree, with all that they use of those
// sources, in an order that compiles.
func slice(dir string) (string, error) {
	found := map[string]string{}
	files, err := fs.Glob(os.DirFS(dir), "*.cu*")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return "", err
		}
		for name, body := range definitions(commentRE.ReplaceAllString(string(text), "")) {
			if _, twice := found[name]; !twice {
				found[name] = body
			}
		}
	}
	// An enumerator is as good as the name of its enum.
	for _, name := range slices.Sorted(maps.Keys(found)) {
		body, isEnum := strings.CutPrefix(found[name], "enum")
		_, list, _ := strings.Cut(body, "{")
		if !isEnum {
			continue
		}
		for _, m := range enumeratorRE.FindAllStringSubmatch(list, -1) {
			if _, other := found[m[1]]; !other {
				found[m[1]] = found[name]
			}
		}
	}
	var out strings.Builder
	written := map[string]bool{}
	state := map[string]bool{}
	var write func(name string)
	write = func(name string) {
		body, ok := found[name]
		if !ok || state[name] || slices.Contains(provided, name) {
			return
		}
		state[name] = true
		for _, w := range wordRE.FindAllString(body, -1) {
			write(w)
		}
		if !written[body] {
			written[body] = true
			out.WriteString(body + "\n")
		}
	}
	for _, r := range roots {
		if found[r] == "" {
			return "", fmt.Errorf("%s has no function %s", dir, r)
		}
		write(r)
	}
	return out.String(), nil
}

// definitions returns the macros, types and host functions of a file, by name, as they stand there.
func definitions(text string) map[string]string {
	out := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		end := i
		var name string
		if m := defineRE.FindStringSubmatch(line); m != nil {
			name = m[1]
			for end < len(lines)-1 && strings.HasSuffix(strings.TrimRight(lines[end], " "), `\`) {
				end++
			}
		} else if m := typeRE.FindStringSubmatch(line); m != nil {
			name, end = m[1], closing(lines, i)
		} else if m := functionRE.FindStringSubmatch(line); m != nil && !strings.Contains(line, ";") {
			name, end = m[1], closing(lines, i)
		}
		if name == "" || end < i {
			continue
		}
		if _, twice := out[name]; !twice {
			out[name] = strings.Join(lines[i:end+1], "\n")
		}
		i = end
	}
	return out
}

// closing returns the line with the brace that ends what begins at from, or -1 where it is only declared there.
func closing(lines []string, from int) int {
	for i := from; i < len(lines); i++ {
		switch l := lines[i]; {
		case strings.HasPrefix(l, "}"):
			return i
		case strings.Contains(l, "{") && strings.HasSuffix(strings.TrimRight(l, " "), "}") && i == from:
			return i
		case strings.HasSuffix(strings.TrimRight(l, " "), ");") && !strings.HasPrefix(l, " ") && i == from,
			i > from && l != "" && l[0] != ' ' && l[0] != '{' && l[0] != '#' && l[0] != '\t' && l[0] != ')':
			return -1
		}
	}
	return -1
}
