package llpatch_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scripts/with-headers takes folders with blanks and hands its command on as it is; a
// folder of HIP headers that was named and holds none is an error, not a part left out.
func TestWithHeaders(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b")
	cuda, hip, wrong := filepath.Join(dir, "cuda"), filepath.Join(dir, "hip"), filepath.Join(dir, "wrong")
	for name, text := range map[string]string{
		cuda + "/include/cuda.h": "#define CUDA_VERSION 11020\n", hip + "/share/hip/version": "HIP_VERSION_MAJOR=6\n", wrong + "/x": "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		cuda, hip string
		args      []string
		rc        int
		out, said string
	}{
		"blanks":          {cuda, hip, []string{"sh", "-c", `echo "$1:$CUDA_HEADERS:$HIP_HEADERS"; exit 3`, "sh", "p  q"}, 3, "p  q:" + cuda + ":" + hip + "\n", ""},
		"no command":      {cuda, hip, nil, 2, "", "usage: "},
		"no such program": {cuda, hip, []string{"./none"}, 127, "", "none"},
		"no CUDA there":   {wrong, hip, []string{"echo", "ran"}, 2, "", "holds no include/cuda.h"},
		"no HIP there":    {cuda, wrong, []string{"echo", "ran"}, 2, "", "holds no share/hip/version"},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"scripts/with-headers"}, c.args...)...)
		cmd.Env = append(os.Environ(), "CUDA_HEADERS="+c.cuda, "HIP_HEADERS="+c.hip)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if rc := cmd.ProcessState.ExitCode(); rc != c.rc || out.String() != c.out || !strings.Contains(said.String(), c.said) {
			t.Errorf("%s: ended with %d, want %d: %q %q", name, rc, c.rc, &out, &said)
		}
	}
}
