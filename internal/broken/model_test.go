package broken

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	cudaFile   = "ggml/src/ggml-cuda/ggml-cuda.cu"
	commonFile = "ggml/src/ggml-cuda/common.cuh"
	// cacheSteps is how many computations the model sees for each limit.
	cacheSteps = 200000
)

// added returns the lines that a patch adds to a file, by its hunks.
func added(t *testing.T, patch, file string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "patches", "graph-cache-lru", patch))
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(data), "\n+++ b/"+file+"\n")
	if !found {
		t.Fatalf("%s does not change %s", patch, file)
	}
	part, _, _ = strings.Cut(part, "\ndiff --git ")
	var hunks []string
	for line := range strings.Lines(part) {
		switch {
		case strings.HasPrefix(line, "@@"):
			hunks = append(hunks, "")
		case strings.HasPrefix(line, "+"):
			hunks[len(hunks)-1] += line[1:]
		}
	}
	return hunks
}

// cacheParts are the three pieces of the patch that the model's program includes.
func cacheParts(t *testing.T, patch string) (graph, members, functions string) {
	t.Helper()
	common, cu := added(t, patch, commonFile), added(t, patch, cudaFile)
	const end = "#endif // USE_CUDA_GRAPH\n"
	functions, _, found := strings.Cut(cu[0], end)
	if len(common) != 2 || !found || !strings.Contains(functions, "::cuda_graph_cache_enter(") {
		t.Fatalf("%s is not what this test takes apart: %d hunks of %s", patch, len(common), commonFile)
	}
	return common[0], common[1], functions + end
}

// cacheModel compiles the program around the functions with the address and
// undefined-behaviour sanitizers.
func cacheModel(t *testing.T, patch, functions, optimize string) string {
	t.Helper()
	graph, members, _ := cacheParts(t, patch)
	dir := t.TempDir()
	for name, text := range map[string]string{"graph.inc": graph, "context.inc": members, "functions.inc": functions} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "graph_cache")
	argv := []string{
		"-std=c++20", optimize, "-g1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
		"-fno-sanitize-recover=all", "-I" + dir, "testdata/model/graph_cache.cc", "-o", out,
	}
	if !strings.Contains(graph, "last_use_us") { // the variant whose builds sweep by themselves
		argv = append(argv, "-DSWEEPS")
	}
	if text, err := exec.CommandContext(t.Context(), "g++", argv...).CombinedOutput(); err != nil {
		t.Fatalf("%s: g++: %v\n%s", patch, err, text)
	}
	return out
}

// runModel runs it with a limit; 0 is a variable that is not set.
func runModel(ctx context.Context, program string, limit int) (string, error) {
	c := exec.CommandContext(ctx, program, fmt.Sprint(cacheSteps))
	c.Env = []string{"ASAN_OPTIONS=detect_leaks=1"}
	if limit > 0 {
		c.Env = append(c.Env, fmt.Sprintf("GGML_CUDA_GRAPH_CACHE_MAX=%d", limit))
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

var limits = []int{0, 1, 8, 32, 256}

// The patch's functions do what the model does, and with one thing wrong they do not.
func TestGraphCacheModel(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for patch, build := range map[string]int{"b7821.patch": 8390, "b8832.patch": 9842} {
		t.Run(patch, func(t *testing.T) {
			t.Parallel()
			_, _, functions := cacheParts(t, patch)
			program := cacheModel(t, patch, functions, "-O1")
			for _, limit := range limits {
				out, err := runModel(t.Context(), program, limit)
				if err != nil || !strings.HasPrefix(out, fmt.Sprintf("%d steps, limit %d: ", cacheSteps, limit)) {
					t.Errorf("limit %d: %v: %s", limit, err, out)
				}
				t.Log(strings.TrimSpace(out))
			}
			if testing.Short() {
				t.Log("-short: the broken variants are not tried (make test-all)")
				return
			}
			killed := 0
			for _, v := range all {
				// That one is no part of these functions: it calls them at the wrong time.
				if v.Fix != "graph-cache-lru" || !v.Fits(build) || v.Name == "miss-during-capture" {
					continue
				}
				killed++
				t.Run(v.Name, func(t *testing.T) {
					t.Parallel()
					changed, err := v.Change(map[string][]byte{cudaFile: []byte(functions)})
					if err != nil {
						t.Fatal(err)
					}
					program := cacheModel(t, patch, string(changed[cudaFile]), "-O0") // it fails early
					for _, limit := range limits {
						if out, err := runModel(t.Context(), program, limit); err != nil {
							t.Logf("limit %d: %s", limit, strings.SplitN(out, "\n", 2)[0])
							return
						}
					}
					t.Error("the model did not notice")
				})
			}
			if killed < 7 {
				t.Errorf("%d broken variants", killed)
			}
		})
	}
}
