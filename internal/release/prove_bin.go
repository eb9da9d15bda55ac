package release

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

// simBin is the folder with the programs for the simulated device: that of the stage, or
// a copy without its own CUDA.
func (c *Chain) simBin(s Simulation) (string, error) {
	stage := c.stageDir()
	entries, err := os.ReadDir(stage)
	if err != nil {
		return "", err
	}
	own := 0
	for _, e := range entries {
		if ownCUDA.MatchString(strings.ToLower(e.Name())) {
			own++
		}
	}
	if own == 0 {
		return stage, nil
	}
	bin := c.file(filepath.Join(s.folder(), "bin"))
	if err := errors.Join(os.RemoveAll(bin), os.MkdirAll(bin, 0o755)); err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.IsDir() || ownCUDA.MatchString(strings.ToLower(e.Name())) {
			continue
		}
		if err := copyFile(filepath.Join(stage, e.Name()), filepath.Join(bin, e.Name())); err != nil {
			return "", err
		}
	}
	return bin, nil
}
