package bundle

import (
	"archive/zip"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
)

func lay(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What Windows could not unpack, or would load from elsewhere than it was checked, is
// named, both files of a pair.
func TestZipNames(t *testing.T) {
	long := strings.Repeat("n", 147) + ".md"
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a.dll", "b.dll", "LICENSES/LICENSE", "PATCHES/LICENSE", long, "conf.txt", ".hidden"}, ""},
		{[]string{"ggml.dll", "GGML.dll"}, "GGML.dll: is one file with ggml.dll to Windows"},
		{[]string{"Readme", "README"}, "README: is one file with Readme to Windows"},
		{[]string{"ggml.dll", "sub/GGML.DLL"}, "ggml.dll: is in the bundle more than once: sub/GGML.DLL too"},
		{[]string{"x/1.dll", "y/1.dll"}, "x/1.dll: is in the bundle more than once: y/1.dll too"},
		{[]string{"n" + long}, "has a name of 151 letters"},
		{[]string{"sub/nul.txt"}, "sub/nul.txt: has a name that Windows gives no file"},
		{[]string{"a:b"}, "a:b: has a name"},
		{[]string{"end."}, "end.: has a name"},
	} {
		err := checkZipNames(lay(t, c.names...))
		var r *binary.Rejected
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.As(err, &r)) {
			t.Errorf("%q: %v, want %q", c.names, err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "a.zip")
	if _, err := writeZip(t.Context(), file, lay(t, "a.dll", "A.dll"), time.Unix(0, 0)); err == nil {
		t.Error("it was packed all the same")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a zip was left: %v", err)
	}
}

// Others read the zip as Go does; 7z is no part of every machine.
func TestZipOfOthers(t *testing.T) {
	names := []string{"a.dll", strings.Repeat("n", 140) + ".md", "LICENSES/x y (1) & z", "README-WIN7.txt"}
	file := filepath.Join(t.TempDir(), "a.zip")
	if _, err := writeZip(t.Context(), file, lay(t, names...), time.Date(2026, 3, 17, 2, 1, 52, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	r, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, argv := range [][]string{{"unzip", "-q", file, "-d"}, {"7z", "x", file, "-o"}, {"7zz", "x", file, "-o"}} {
		at, err := exec.LookPath(argv[0])
		if err != nil {
			if argv[0] == "unzip" {
				t.Error("unzip is missing: apt-get install unzip")
			}
			continue
		}
		to := t.TempDir()
		last := argv[len(argv)-1]
		args := append(slices.Clone(argv[1:len(argv)-1]), last+to)
		if last == "-d" {
			args = append(slices.Clone(argv[1:]), to)
		}
		if out, err := exec.CommandContext(t.Context(), at, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", argv[0], err, out)
		}
		for _, name := range names {
			if data, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(data) != name {
				t.Errorf("%s: %s: %q, %v", argv[0], name, data, err)
			}
		}
	}
}
