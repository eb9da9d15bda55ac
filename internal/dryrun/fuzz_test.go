package dryrun

import (
	"strings"
	"testing"
)

// What is cut out of a source stands in it, and has its name in it.
func FuzzDefinitions(f *testing.F) {
	f.Add("#define A(x) \\\n    (x)\nenum kernel {\n    NONE = 0,\n};\nstatic bool best(int cc,\n        int n) {\n    return cc;\n}\n")
	f.Add("struct a : b {\n};\nvoid declared(int);\nstatic void one() { }\n#define END \\")
	f.Fuzz(func(t *testing.T, text string) {
		for name, body := range definitions(text) {
			if !strings.Contains(text, body) || !strings.Contains(body, name) {
				t.Errorf("%q: %q", name, body)
			}
		}
	})
}

// What the program says is taken whole, or not at all.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"n_ctx": 1, "devices": [{"name": "CUDA0", "weights": 1}], "scratch": {"k": 1, "v": 1, "cells": 1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parse(b)
		if err == nil && (l.Card.Weights < 0 || l.Host.Compute < 0 || l.Cells < 0 || l.ScratchK < 0 || l.ScratchCells < 0) {
			t.Errorf("%q: %+v", b, l)
		}
	})
}
