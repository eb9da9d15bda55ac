package release

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of a packed file is not as it was packed; nobody waits for what comes
// out of it.
func TestCheckPipes(t *testing.T) {
	piped := func(names ...string) func(m *machine) {
		return spoilt(func(dir string) error {
			var errs []error
			for _, name := range names {
				errs = append(errs, os.Remove(filepath.Join(dir, name)), syscall.Mkfifo(filepath.Join(dir, name), 0o755))
			}
			return errors.Join(errs...)
		})
	}
	cpu := func() machine { return plain(linuxCPU()) }
	kept(t, []outcome{
		{"cpu-pipe", cpu(), piped("LICENSES/a b.txt"), 1},
		{"cpu-pipe-program", cpu(), piped("llama-server"), 1},
		{"cpu-pipe-sums", cpu(), piped("SHA256SUMS"), 1},
		{"cpu-sums-not-readable", cpu(), func(m *machine) {
			m.nobody = true
			spoilt(func(dir string) error { return os.Chmod(filepath.Join(dir, "SHA256SUMS"), 0) })(m)
		}, 1},
	})
}

// The same of each file that a machine has.
func TestCheckPipesOfMachine(t *testing.T) {
	l := newLab(t)
	for name, able := range map[string]func() machine{
		"cpu": func() machine { return plain(linuxCPU()) }, "cuda": cuda, "rocm": able,
		"rocm by the driver": func() machine {
			m := able()
			m.nodes([3]int{120001, 16304, 300})
			return m
		},
	} {
		for file := range able().files {
			t.Run(name+"/"+strings.ReplaceAll(file, "/", "_"), func(t *testing.T) {
				t.Parallel()
				m := able()
				m.files[file] = pipe
				m.judged(t, l, checkSh(t, m.info, nil))
			})
		}
	}
}
