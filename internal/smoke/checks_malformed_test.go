package smoke

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/spec"
)

// A malformed input is refused with a message, or the fault has its name.
func TestMalformed(t *testing.T) {
	t.Parallel()
	const overflow = "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1 at pc 0x2"
	for name, tc := range map[string]struct {
		mode, input string
		verdict     Verdict
		fault, want string
	}{
		"refused": {
			"says load\nerror: index out of bounds", "charsmap-bounds", Passed, "",
			"it ends by itself: error: index out of bounds",
		},
		"memory": {
			"says load\n" + overflow, "charsmap-bounds", Failed, FaultMemory,
			"AddressSanitizer: heap-buffer-overflow",
		},
		"the library": {
			"says v.h:9: int f(): Assertion '__n < this->size()' failed.", "layer-count", Failed,
			FaultMemory, "the library: Assertion '__n < this->size()' failed.",
		},
		"its own assertion": {"says a.cpp:1: GGML_ASSERT(n < 2) failed\n==1==ERROR: AddressSanitizer: ABRT on " +
			"unknown address", "layer-count", Passed, "", "GGML_ASSERT(n < 2) failed"},
		"dies of an abort": {
			"says GGML_ASSERT(key) failed\n==1==ERROR: AddressSanitizer: ABRT on unknown address",
			"gguf-empty-key", Failed, FaultDies, "AddressSanitizer: ABRT",
		},
		"killed":     {"killed", "gguf-empty-key", Failed, FaultDies, "it is ended by killed"},
		"takes it":   {"ends well", "charsmap-bounds", Failed, "", "it ends as if nothing were wrong"},
		"no adapter": {"says failed to load lora", "adapter-load-double-reset", Passed, "", "failed to load lora"},
		"a request":  {"", "negative-n-discard", Passed, "", "it answers 200, 200 and goes on"},
		"dies of a request": {
			"malformed: " + overflow, "negative-n-discard", Failed, FaultMemory,
			"AddressSanitizer: heap-buffer-overflow",
		},
		"500 for a request": {"malformed: 500", "large-n-discard", Failed, "", "it answers 500"},
		"ends for a request": {
			"malformed: terminate called", "large-n-discard", Failed, FaultDies,
			"it is ended by a signal",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), options(t, tc.mode, check(Malformed, "input", tc.input)))
			if r == nil {
				t.Fatal(err)
			}
			got := r.Checks[0]
			if got.Verdict != tc.verdict || got.Fault != tc.fault || !strings.Contains(got.Detail, tc.want) {
				t.Errorf("%s, fault %q: %s", got.Verdict, got.Fault, got.Detail)
			}
		})
	}
	if err := Validate([]spec.Check{check(Malformed, "input", "nothing")}); err == nil ||
		!strings.Contains(err.Error(), "gguf-zero-dimension, the alignment") {
		t.Error(err)
	}
}

// Every input is one of a fix's, or of a model that there is, and every such model is used.
func TestMalformedInputs(t *testing.T) {
	t.Parallel()
	models, ids := map[string]bool{}, map[string]bool{}
	for _, in := range malformedInputs {
		if in.model != "" {
			models[in.model] = true
		}
		if ids[in.id()] || (in.model != "") == (in.ask != nil || in.lora) {
			t.Errorf("%+v", in)
		}
		ids[in.id()] = true
		list := MalformedChecks([]string{in.cures})
		for i, one := range list {
			if err := Validate([]spec.Check{one.Check}); err != nil || one.Fault == "" || (one.Case == "") != (i == 0) {
				t.Errorf("%s: %+v: %v", in.id(), one, err)
			}
		}
		if len(list) == 0 {
			t.Error(in.id())
		}
	}
	if got := slices.Sorted(maps.Keys(models)); !slices.Equal(got, gguf.MalformedNames()) {
		t.Errorf("models used: %q", got)
	}
	if MalformedChecks([]string{"cpp-httplib-headers"}) != nil {
		t.Error("an input for what has none")
	}
}
