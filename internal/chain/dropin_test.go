package chain

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestDropIn(t *testing.T) {
	rec := spec.Recipe{
		Name: "r", DropInTarget: "h", Backends: []string{"cuda", "cpu"},
		CMake: spec.Options{"GGML_BACKEND_DL": true},
	}
	if got, err := dropIn(rec); got != "libggml-cuda.so" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	windows := rec
	windows.OS = spec.Win7
	if got, err := dropIn(windows); got != "ggml-cuda.dll" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for want, change := range map[string]func(*spec.Recipe){
		"r has no backend that fits": func(r *spec.Recipe) { r.DropInTarget = "" },
		"r has no backend":           func(r *spec.Recipe) { r.Backends = []string{"cpu"} },
		"links its backends in":      func(r *spec.Recipe) { r.CMake = nil },
	} {
		bad := rec
		change(&bad)
		if _, err := dropIn(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
