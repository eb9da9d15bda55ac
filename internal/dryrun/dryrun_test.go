package dryrun

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/memory"
)

func TestParse(t *testing.T) {
	got, err := parse([]byte(`{"n_ctx": 4096, "n_layer": 2, "devices": [
		{"name": "CUDA0", "weights": 748544, "context": 2230272, "compute": 7383168},
		{"name": "host", "weights": 90624, "context": 0, "compute": 4763680}],
		"scratch": {"k": 8388608, "v": 1, "cells": 4096}}`))
	want := memory.Layout{
		Cells: 4096, Card: memory.Place{Weights: 748544, Context: 2230272, Compute: 7383168},
		Host: memory.Place{Weights: 90624, Compute: 4763680}, ScratchK: 8388608, ScratchV: 1, ScratchCells: 4096,
	}
	if err != nil || got != want {
		t.Errorf("%v, %+v", err, got)
	}
	for _, bad := range []string{"", "{", `{"devices": [{"name": "CUDA0", "weights": -1}]}`} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestLastLine(t *testing.T) {
	for log, want := range map[string]string{
		"a\nload: error loading model: missing tensor 'x'\nfailed\n": "load: error loading model: missing tensor 'x'",
		"a\nb\n": "b", "": "exit 1",
	} {
		if got := lastLine(log, errors.New("exit 1")); got != want {
			t.Errorf("%q: %q", log, got)
		}
	}
}

// What is used comes before what uses it; what a comment names, a kernel, and what card.cpp has
// are left out.
func TestSlice(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"common.cuh": "#define MATRIX_ROW_PADDING 512 // as unused() says\nenum kernel {\n    NONE = 0,\n};\n",
		"fattn.cu": "static void unused(int x) {\n}\nstatic kernel best(int cc) {\n    return NONE;\n}\n" +
			"bool supported(int d) {\n    return best(d) != NONE;\n}\n",
		"ggml-cuda.cu": "static bool ggml_backend_buft_is_cuda(int b);\n" +
			"static bool ggml_backend_cuda_device_supports_op(int op) {\n    return ggml_backend_buft_is_cuda(op) && supported(op);\n}\n" +
			"static size_t ggml_backend_cuda_buffer_type_get_alloc_size(int t) {\n    return MATRIX_ROW_PADDING;\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := slice(dir)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, part := range []string{
		"enum kernel", "static kernel best", "bool supported", "supports_op(int op)",
		"#define MATRIX_ROW_PADDING", "get_alloc_size",
	} {
		at := strings.Index(got, part)
		if at < last {
			t.Errorf("%s is at %d, after %d:\n%s", part, at, last, got)
		}
		last = at
	}
	if strings.Contains(got, "unused") {
		t.Errorf("too much:\n%s", got)
	}
	if _, err := slice(t.TempDir()); err == nil {
		t.Error("a folder without the functions")
	}
}
