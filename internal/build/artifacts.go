package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/llpatch/llpatch/internal/regular"
)

// Artifacts is what a build made.
type Artifacts struct {
	// the build folder; programs and libraries lie in its bin
	Dir              string            `json:"dir"`
	Files            []Artifact        `json:"files"`             // sorted by path
	Compiled         int               `json:"compiled"`          // objects that this run compiled
	Steps            int               `json:"steps"`             // Ninja steps that this run took
	ConfigureSeconds float64           `json:"configure_seconds"` // 0: CMake was not needed
	BuildSeconds     float64           `json:"build_seconds"`
	Tools            map[string]string `json:"tools"` // by role, what --version says first
}

// Artifact is a program or a library in bin, or a link to one.
type Artifact struct {
	Path   string `json:"path"` // below Artifacts.Dir, with slashes
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"` // what a symbolic link points to; then it has no size and sum
}

// outputs finds the files in bin that Ninja made: what lies there besides is
// from an earlier plan or somebody else's.
func outputs(ctx context.Context, dir string, targets, programs []string) ([]Artifact, error) {
	var files []Artifact
	for _, t := range targets {
		if path.Dir(t) != "bin" {
			continue
		}
		fi, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(t)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a target that no program needs
		}
		if err != nil {
			return nil, err
		}
		a := Artifact{Path: t}
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			if a.Link, err = os.Readlink(filepath.Join(dir, t)); err != nil {
				return nil, err
			}
		case fi.Mode().IsRegular():
			a.Size = fi.Size()
		default:
			continue
		}
		files = append(files, a)
	}
	for _, name := range programs {
		found := false
		for _, f := range files {
			base := path.Base(f.Path)
			found = found || base == name || base == name+".exe" || base == "lib"+name+".so" || base == name+".dll"
		}
		if !found {
			return nil, fmt.Errorf("program %s was built, but it is not in %s", name, filepath.Join(dir, "bin"))
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range files {
		if files[i].Link != "" {
			continue
		}
		g.Go(func() error {
			var err error
			if err = ctx.Err(); err == nil {
				files[i].SHA256, err = SumFile(filepath.Join(dir, filepath.FromSlash(files[i].Path)))
			}
			return err
		})
	}
	return files, g.Wait()
}

// SumFile returns the SHA-256 of a regular file's content in hex.
func SumFile(name string) (string, error) { return regular.Sum(context.Background(), name) }
