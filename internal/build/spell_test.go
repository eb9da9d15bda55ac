package build

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestSpell(t *testing.T) {
	for _, c := range []struct {
		option, value string
		build         int
		want, fault   string
	}{
		{"GGML_CUDA", "ON", 2000, "LLAMA_CUBLAS", ""},
		{"GGML_CUDA", "ON", 2533, "LLAMA_CUDA", ""},
		{"GGML_CUDA", "ON", 3235, "LLAMA_CUDA", ""},
		{"GGML_CUDA", "ON", 3236, "GGML_CUDA", ""},
		{"GGML_HIP", "ON", 4000, "GGML_HIPBLAS", ""},
		{"GGML_CUDA_NCCL", "OFF", 8737, "", ""},
		{"GGML_CUDA_NCCL", "ON", 8737, "", "build 8737 has no such option: it came with b8738"},
		{"GGML_CUDA_NCCL", "OFF", 8738, "GGML_CUDA_NCCL", ""},
		{"GGML_CUDA_GRAPHS", "ON", 3100, "", "it came with b3242"},
		{"GGML_CUDA_GRAPHS", "ON", 3500, "GGML_CUDA_USE_GRAPHS", ""},
		{"LLAMA_BUILD_UI", "OFF", 9000, "LLAMA_BUILD_WEBUI", ""},
		{"LLAMA_BUILD_WEBUI", "ON", 9000, "LLAMA_BUILD_WEBUI", ""},
		{"LLAMA_BUILD_WEBUI", "ON", 9174, "", "build 9174 knows it as LLAMA_BUILD_UI"},
		{"LLAMA_CUBLAS", "ON", 8833, "", "build 8833 knows it as GGML_CUDA"},
		{"GGML_SOMETHING", "ON", 8833, "GGML_SOMETHING", ""},
	} {
		got, err := spell(spec.LlamaCpp, c.option, c.value, c.build)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s=%s at %d: %q, %v", c.option, c.value, c.build, got, err)
		}
	}
	if got, err := spell(spec.IkLlamaCpp, "GGML_CUDA", "ON", 100); got != "GGML_CUDA" || err != nil {
		t.Errorf("another upstream's numbers count: %q, %v", got, err)
	}
}
