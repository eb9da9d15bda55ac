package llpatch_test

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"testing"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

var update = flag.Bool("update", false, "write the buildenvs' Containerfiles anew")

// Every buildenv has the lock that its env.toml means, and those of Debian's packages the
// Containerfile.
func TestBuildenvs(t *testing.T) {
	repo, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	if len(repo.Buildenvs) < 2 {
		t.Fatalf("%d buildenvs", len(repo.Buildenvs))
	}
	for name, d := range repo.Buildenvs {
		if err := d.CheckLock(); err != nil {
			t.Error(err)
			continue
		}
		if d.Kind() != buildenv.Debian { // a folder of files is no image
			continue
		}
		file := path.Join(spec.BuildenvFolder, name, spec.BuildenvContainerfile)
		if *update {
			if err := os.WriteFile(file, []byte(d.Containerfile()), 0o644); err != nil {
				t.Error(err)
			}
			continue
		}
		if data, err := fs.ReadFile(llpatch.Declarations, file); err != nil || string(data) != d.Containerfile() {
			t.Errorf("%s is not that of env.toml (%v): go test . -run TestBuildenvs -update writes it anew", file, err)
		}
	}
}
