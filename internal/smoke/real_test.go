package smoke

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	parser "github.com/gpustack/gguf-parser-go"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/spec"
)

var realServer = flag.String("llama-server", "", "a llama-server to be tried, with its build around it")

// realOptions returns options for the build that was given on the command line; TestReal of
// internal/cli gives the one that it has made.
func realOptions(t *testing.T) Options {
	t.Helper()
	if *realServer == "" {
		t.Skip("no -llama-server=PATH: make real runs this on what it has built")
	}
	return Options{Bin: filepath.Dir(*realServer), Work: t.TempDir(), Tag: "real", Target: "build"}
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
	if err == nil || r.Verdict != Failed || !strings.Contains(r.Checks[0].Detail,
		"ended before it was ready: exit code 1") {
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
