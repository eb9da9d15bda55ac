package build

import (
	"fmt"

	"github.com/llpatch/llpatch/internal/spec"
)

// spelling is the name that an option of llama.cpp has in builds below a number;
// an empty one says that no build below it has the option.
type spelling struct {
	below int
	name  string
}

// spellings are the options that upstream renamed or brought, by today's name. A
// recipe says what it wants by that name, and each tag gets its own. The numbers
// are those of the first commits with the next name in CMakeLists.txt and
// ggml/CMakeLists.txt, and every b-tag from b1953 to b10573 agrees.
var spellings = map[string][]spelling{
	"GGML_CUDA":             {{2533, "LLAMA_CUBLAS"}, {3236, "LLAMA_CUDA"}},
	"GGML_HIP":              {{3236, "LLAMA_HIPBLAS"}, {4080, "GGML_HIPBLAS"}},
	"GGML_NATIVE":           {{3236, "LLAMA_NATIVE"}},
	"GGML_CCACHE":           {{3236, "LLAMA_CCACHE"}},
	"GGML_OPENMP":           {{3077, ""}, {3236, "LLAMA_OPENMP"}},
	"GGML_CUDA_NO_VMM":      {{2797, ""}, {3236, "LLAMA_CUDA_NO_VMM"}},
	"GGML_CUDA_GRAPHS":      {{3242, ""}, {3768, "GGML_CUDA_USE_GRAPHS"}},
	"GGML_CUDA_NCCL":        {{8738, ""}},
	"GGML_BACKEND_DL":       {{4163, ""}},
	"GGML_CPU_ALL_VARIANTS": {{4265, ""}},
	"LLAMA_OPENSSL":         {{6603, ""}},
	"LLAMA_BUILD_UI":        {{8558, ""}, {9174, "LLAMA_BUILD_WEBUI"}},
	"LLAMA_USE_PREBUILT_UI": {{9152, ""}, {9174, "LLAMA_USE_PREBUILT_WEBUI"}},
}

// spell returns the name that an option has at a build, and an empty one where
// that build lacks it and it is only to be off. The error, without the option's
// name, says since when there is one, or which name is meant.
func spell(upstream, option, value string, build int) (string, error) {
	if upstream != spec.LlamaCpp {
		return option, nil
	}
	for i, s := range spellings[option] {
		switch {
		case build >= s.below:
		case s.name != "":
			return s.name, nil
		case value == "OFF":
			return "", nil
		default:
			return "", fmt.Errorf("build %d has no such option: it came with b%d", build, since(spellings[option][i:]))
		}
	}
	// A recipe that names an old option would mean nothing at other tags.
	for now, list := range spellings {
		for _, s := range list {
			if s.name == option && build >= s.below {
				return "", fmt.Errorf("build %d knows it as %s; a recipe says %s for every build, and the plan spells it", build,
					spelled(now, build), now)
			}
		}
	}
	return option, nil
}

// since returns the first build that has an option, of spellings from the one on
// that it lacks.
func since(list []spelling) int {
	for i, s := range list {
		if s.name != "" {
			return list[i-1].below
		}
	}
	return list[len(list)-1].below
}

func spelled(now string, build int) string {
	for _, s := range spellings[now] {
		if build < s.below {
			return s.name
		}
	}
	return now
}
