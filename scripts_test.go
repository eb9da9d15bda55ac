package llpatch_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		cuda + "/include/cuda.h": "#define CUDA_VERSION 11020\n", hip + "/share/hip/version": "HIP_VERSION_MAJOR=6\n",
		wrong + "/x": "",
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
		"blanks": {
			cuda, hip,
			[]string{"sh", "-c", `echo "$1:$CUDA_HEADERS:$HIP_HEADERS"; exit 3`, "sh", "p  q"},
			3,
			"p  q:" + cuda + ":" + hip + "\n", "",
		},
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
		if rc := cmd.ProcessState.ExitCode(); rc != c.rc || out.String() != c.out ||
			!strings.Contains(said.String(), c.said) {
			t.Errorf("%s: ended with %d, want %d: %q %q", name, rc, c.rc, &out, &said)
		}
	}
}

// scripts/nightly goes on after a part that failed, hands on a part's variables, and fails in the end.
func TestNightly(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("scripts/nightly")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("good:\n\t@echo ran $(A) $(B)\nbad:\n\t@exit 3\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		parts []string
		rc    int
		out   []string
	}{
		"all pass": {[]string{"good A=1 B=2", "good"}, 0, []string{
			"ran 1 2", "ran", " min  passed  good A=1 B=2",
			" min  passed  good",
		}},
		"one fails": {[]string{"bad", "good A=3"}, 1, []string{"ran 3", " min  FAILED  bad", " min  passed  good A=3"}},
		"no target": {[]string{"none", "good A=4"}, 1, []string{"ran 4", " min  FAILED  none"}},
		"not run":   {[]string{"NOT RUN: none: no clone", "good A=5"}, 0, []string{"== NOT RUN: none: no clone", "ran 5"}},
		"no part":   {nil, 2, nil},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{script}, c.parts...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		lines := strings.Split(string(out), "\n")
		if rc := cmd.ProcessState.ExitCode(); rc != c.rc {
			t.Errorf("%s: ended with %d, want %d: %s", name, rc, c.rc, out)
		}
		for _, line := range c.out {
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, line) }) {
				t.Errorf("%s: no line ends with %q in\n%s", name, line, out)
			}
		}
	}
}
