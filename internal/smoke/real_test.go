package smoke

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	parser "github.com/gpustack/gguf-parser-go"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/spec"
)

var (
	realServer  = flag.String("llama-server", os.Getenv("LLPATCH_TEST_SERVER"), "a llama-server to be tried, with its build around it")
	realVersion = flag.String("llama-version", os.Getenv("LLPATCH_TEST_VERSION"), `its build number and commit, such as "8390 b10e98a-llp1"`)
)

// realOptions returns options for the build that was given on the command line. A
// release in CI runs the same checks on what it has built.
func realOptions(t *testing.T) Options {
	t.Helper()
	if *realServer == "" {
		t.Skip("no -llama-server=PATH and no LLPATCH_TEST_SERVER: the checks ran only on stand-ins here")
	}
	o := Options{Bin: filepath.Dir(*realServer), Work: t.TempDir(), Tag: "real", Target: "build"}
	if *realVersion != "" {
		if _, err := fmt.Sscan(*realVersion, &o.Want.Build, &o.Want.Commit); err != nil {
			t.Fatalf("-llama-version: %v", err)
		}
	}
	return o
}

// tools are upstream's that a recipe need not build.
var tools = map[string]string{
	"tool-results": "llama-results", "tool-backend-ops": "test-backend-ops", "tool-perplexity": "llama-perplexity",
}

func TestRealBuild(t *testing.T) {
	o := realOptions(t)
	o.Stock = o.Bin // it must be equal to itself
	for _, name := range Names() {
		if name == "version" && o.Want.Build == 0 {
			continue
		}
		if tool, ok := tools[name]; ok {
			if _, err := os.Stat(filepath.Join(o.Bin, tool)); err != nil {
				t.Logf("%s is not in the build: check %s is not tried", tool, name)
				continue
			}
		}
		c := spec.Check{Name: name}
		if name == "tool-backend-ops" {
			c = check(name, "ops", "ADD,ROPE") // all of them take minutes
		}
		o.Checks = append(o.Checks, c)
	}
	o.Checks = append(o.Checks, check("speculative", "draft", "ngram"))
	o.Checks = append(o.Checks, check("completion", "model", "q8_0"))
	r, err := Run(t.Context(), o)
	t.Log("\n" + r.Markdown())
	if err != nil {
		t.Fatal(err)
	}
}

// The recipe of linux-cpu must stay quick, for every release runs it.
func TestRealRecipe(t *testing.T) {
	o := realOptions(t)
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := repo.Recipe("linux-cpu")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rec.Smoke {
		if c.Name != "version" || o.Want.Build != 0 {
			o.Checks = append(o.Checks, c)
		}
	}
	o.Same = "this is one build"
	before := childSeconds(t)
	r, err := Run(t.Context(), o)
	t.Log("\n" + r.Markdown())
	if err != nil {
		t.Fatal(err)
	}
	// A minute on two processors, however busy this machine is with other things.
	cpu := childSeconds(t) - before
	t.Logf("%.1f s, %.1f s of processor time", r.Seconds, cpu)
	if cpu > 120 {
		t.Errorf("it took %.1f s of processor time; the limit is 120", cpu)
	}
}

// A model that is cut off must be one clear failure.
func TestRealTruncatedModel(t *testing.T) {
	o := realOptions(t)
	path := filepath.Join(o.Work, "whole.gguf")
	m := DefaultModel
	m.Type = gguf.F16
	if _, err := gguf.WriteFile(t.Context(), path, m, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	// Later options win: the server gets the cut model.
	o.Checks = []spec.Check{check("health", "args", []string{"-m", path})}
	r, err := Run(t.Context(), o)
	if err == nil || r.Verdict != Wrong || !strings.Contains(r.Checks[0].Detail, "ended before it was ready: exit code 1") {
		t.Errorf("got %v", err)
	}
	t.Log(err)
}

// The Q8_0 that this repository writes is, byte for byte, what llama.cpp makes
// of the F16 model with the same seed.
func TestRealQuantize(t *testing.T) {
	o := realOptions(t)
	o.Checks = []spec.Check{check("quantize")}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	m := DefaultModel
	m.Type = gguf.Q8_0
	ours := filepath.Join(o.Work, "ours.gguf")
	if _, err := gguf.WriteFile(t.Context(), ours, m, nil); err != nil {
		t.Fatal(err)
	}
	a, b := tensors(t, ours), tensors(t, filepath.Join(o.Work, "model-quantized.gguf"))
	if len(a) != len(b) {
		t.Errorf("%d tensors, llama-quantize wrote %d", len(a), len(b))
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

func tensors(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := parser.ParseGGUFFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, ti := range f.TensorInfos {
		all[ti.Name] = data[uint64(f.TensorDataStartOffset)+ti.Offset:][:ti.Bytes()]
	}
	return all
}
