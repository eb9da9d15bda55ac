package chain

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// Only where nothing but one card's backend changes, and cannot run here, is stock not
// built to compare with.
func TestIdle(t *testing.T) {
	const cuda, hip, host = "ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir/pad.cu.o",
		"ggml/src/ggml-hip/CMakeFiles/ggml-hip.dir/__/ggml-cuda/pad.cu.o", "common/CMakeFiles/common.dir/log.cpp.o"
	apart := build.Plan{Options: []build.Option{{Name: "GGML_BACKEND_DL", Value: "ON"}}}
	driver := map[string]bool{}
	for _, d := range devices {
		driver[d.library] = d.there()
	}
	for _, c := range []struct {
		name   string
		device string
		checks []spec.Check
		plan   build.Plan
		read   map[string][]string
		want   string
	}{
		{
			"the backend alone", "",
			[]spec.Check{{Name: "same-tokens"}},
			apart,
			map[string][]string{"pad.cu": {cuda}, "common.cuh": {cuda}},
			"libggml-cuda.so",
		},
		{
			"the HIP backend alone", "",
			[]spec.Check{{Name: "same-tokens"}},
			apart,
			map[string][]string{"pad.cu": {hip}, "common.cuh": {hip}},
			"libggml-hip.so",
		},
		{"both backends", "", nil, apart, map[string][]string{"pad.cu": {cuda, hip}}, ""},
		{
			"a check for a card that is not here", "",
			[]spec.Check{{Name: "parallel", Device: spec.Card}},
			apart,
			map[string][]string{"pad.cu": {cuda}},
			"libggml-cuda.so",
		},
		{"another object", "", nil, apart, map[string][]string{"pad.cu": {cuda}, "log.h": {cuda, host}}, ""},
		{"read by nobody knows whom", "", nil, apart, map[string][]string{"CMakeLists.txt": nil}, ""},
		{"one library for all", "", nil, build.Plan{}, map[string][]string{"pad.cu": {cuda}}, ""},
		{
			"on the simulated device", spec.Sim,
			[]spec.Check{{Name: "same-tokens"}},
			apart,
			map[string][]string{"pad.cu": {cuda}},
			"",
		},
		{
			"a check on the simulated device", "",
			[]spec.Check{{Name: "parallel", Device: spec.Sim}},
			apart,
			map[string][]string{"pad.cu": {cuda}},
			"",
		},
	} {
		got := idle(c.plan, c.device, c.checks, c.read)
		if c.want == "" && got != "" || c.want != "" && strings.HasPrefix(got, "but for "+c.want+",") == driver[c.want] {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
