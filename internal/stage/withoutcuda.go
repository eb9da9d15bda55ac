package stage

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ownCUDA matches a backend for CUDA and what it needs of NVIDIA's: beside the
// simulated one it would be a second device, or be taken in its place.
var ownCUDA = regexp.MustCompile(`^(?:lib)?(?:ggml-cuda|cudart|cublas|cublaslt|cuda|nvcuda)(?:64_|[-.])`)

// WithoutCUDA returns the folder with the programs of stage for the simulated device:
// stage itself, or a copy in bin without its own CUDA. An older copy is gone.
func WithoutCUDA(stage, bin string) (string, error) {
	if err := os.RemoveAll(bin); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(stage)
	if err != nil {
		return "", err
	}
	var keep []string
	for _, e := range entries {
		if !ownCUDA.MatchString(strings.ToLower(e.Name())) {
			keep = append(keep, e.Name())
		}
	}
	if len(keep) == len(entries) {
		return stage, nil
	}
	err = os.MkdirAll(bin, 0o755)
	for _, name := range keep {
		from := filepath.Join(stage, name)
		if info, statErr := os.Stat(from); statErr != nil || info.IsDir() {
			err = errors.Join(err, statErr)
			continue
		}
		err = errors.Join(err, Copy(from, filepath.Join(bin, name)))
	}
	return bin, err
}
