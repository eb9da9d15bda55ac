package spec_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/spec"
)

// What an upstream has for all its recipes counts before a recipe's own, and for no other upstream.
func TestShared(t *testing.T) {
	m := files(t, "testdata/good.txtar")
	var target string
	for name, rec := range good(t).Recipes {
		if rec.Upstream == spec.LlamaCpp && (target == "" || name < target) {
			target = name
		}
	}
	own := m["recipes/"+target+".toml"]
	own.Data = append(slices.Clone(own.Data), "\n[[cmake-for]]\nrange = \">= 9000\"\nset = { LLAMA_SHARED_A = true }\n"...)
	sources := m[spec.SourcesFile]
	plain := sources.Data
	with := func(upstream, set string) {
		sources.Data = append(slices.Clone(plain), `
[[upstream]]
name = "`+upstream+`"
marks = ["own/mark"]
exclude = ["shared/**"]
[[upstream.cmake-for]]
range = ">= 8000"
set = `+set+"\n"...)
	}
	const set = "{ LLAMA_SHARED_A = false, LLAMA_SHARED_B = 3 }"
	for _, upstream := range []string{spec.LlamaCpp, spec.IkLlamaCpp} {
		with(upstream, set)
		r, err := spec.Load(m)
		if err != nil {
			t.Fatal(err)
		}
		rec, shared := r.Recipes[target], upstream == spec.LlamaCpp
		for _, n := range []int{7999, 8000, 9000} {
			o := optionsFor(rec, n)
			if _, has := o["LLAMA_SHARED_B"]; has != (shared && n >= 8000) || n >= 9000 && o["LLAMA_SHARED_A"] != true {
				t.Errorf("%s at %d: %v", upstream, n, o)
			}
		}
		if slices.Contains(rec.Exclude, "shared/**") != shared {
			t.Errorf("%s: excludes %v", upstream, rec.Exclude)
		}
	}
	with(spec.LlamaCpp, "{ LLAMA_X = 1.5 }")
	if _, err := spec.Load(m); err == nil || !strings.Contains(err.Error(), spec.SourcesFile) ||
		!strings.Contains(err.Error(), "LLAMA_X") {
		t.Errorf("%v", err)
	}
}

// No recipe of llpatch says again what its upstream says for all.
func TestSharedOnce(t *testing.T) {
	r, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	for name, rec := range r.Recipes {
		data, err := os.ReadFile("../../recipes/" + name + ".toml")
		if err != nil {
			t.Fatal(err)
		}
		if len(rec.Exclude) == 0 || strings.Contains(string(data), "\nexclude =") {
			t.Errorf("%s: excludes %v, and of its own", name, rec.Exclude)
		}
	}
}
