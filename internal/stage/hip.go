package stage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
)

// HIPLibraries is CUDALibraries for HIP: whatever the files need that the system does not have is
// taken from the ROCm that built them. dir is made anew.
func HIPLibraries(dir string, needs []*binary.File, hip build.HIPFact) (Libraries, error) {
	var l Libraries
	if hip.Version == "" {
		return l, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return l, err
	}
	names := binary.Outside(needs)
	for i := 0; i < len(names); i++ { // grows: hipBLAS needs rocBLAS, and that the HIP runtime
		if find(systemLibs, names[i]) != "" {
			continue
		}
		file := find(hip.Libs, names[i])
		if file == "" {
			l.How = append(l.How, names[i]+" is neither on this machine nor in the ROCm that built it")
			continue
		}
		f, err := binary.Inspect(file)
		if err != nil {
			return l, err
		}
		for _, n := range f.Needed {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		if err := os.Symlink(file, filepath.Join(dir, names[i])); err != nil && !errors.Is(err, fs.ErrExist) {
			return l, err
		}
	}
	l.Host = []string{"LD_LIBRARY_PATH=" + dir}
	l.Card = l.Host
	return l, nil
}
