package release

import (
	"testing"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// Only where nothing but the CUDA backend changes, and cannot run here, is stock not
// built to compare with.
func TestIdle(t *testing.T) {
	const cuda, host = "ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir/pad.cu.o", "common/CMakeFiles/common.dir/log.cpp.o"
	apart := build.Plan{Options: []build.Option{{Name: "GGML_BACKEND_DL", Value: "ON"}}}
	driver := find(systemLibs, "libcuda.so.1") != ""
	for _, c := range []struct {
		name   string
		place  Place
		checks []spec.Check
		plan   build.Plan
		read   map[string][]string
		want   bool
	}{
		{"the backend alone", Place{}, []spec.Check{{Name: "same-tokens"}}, apart, map[string][]string{"pad.cu": {cuda}, "common.cuh": {cuda}}, true},
		{"a check for a card that is not here", Place{}, []spec.Check{{Name: "parallel", Device: spec.Card}}, apart, map[string][]string{"pad.cu": {cuda}}, true},
		{"another object", Place{}, nil, apart, map[string][]string{"pad.cu": {cuda}, "log.h": {cuda, host}}, false},
		{"read by nobody knows whom", Place{}, nil, apart, map[string][]string{"CMakeLists.txt": nil}, false},
		{"one library for all", Place{}, nil, build.Plan{}, map[string][]string{"pad.cu": {cuda}}, false},
		{"on the simulated device", Place{Device: spec.Sim}, []spec.Check{{Name: "same-tokens"}}, apart, map[string][]string{"pad.cu": {cuda}}, false},
		{"a check on the simulated device", Place{}, []spec.Check{{Name: "parallel", Device: spec.Sim}}, apart, map[string][]string{"pad.cu": {cuda}}, false},
	} {
		chain := &Chain{Options: Options{Place: c.place}}
		if got := chain.idle(c.plan, c.checks, c.read); got != (c.want && !driver) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
