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

// A SHA256SUMS that is not whole, is told, whatever is left of it.
func TestCheckSums(t *testing.T) {
	// With but so many lines.
	short := func(count int) func(m *machine) {
		return spoilt(func(dir string) error {
			file := filepath.Join(dir, "SHA256SUMS")
			text, err := os.ReadFile(file)
			lines := strings.SplitAfter(string(text), "\n")
			return errors.Join(err, os.WriteFile(file, []byte(strings.Join(lines[:count], "")), 0o644))
		})
	}
	cpu := func() machine { return plain(linuxCPU()) }
	drop := cuda()
	drop.info.DropIn, drop.info.Files = "libggml-cuda.so", drop.info.Files[len(drop.info.Files)-1:]
	kept(t, []outcome{
		{"cpu-sums-cut-off", cpu(), short(4), 1},
		{"cpu-sums-empty", cpu(), short(0), 1},
		{"drop-in-sums-cut-off", drop, short(2), 1},
	})
}

// Nobody waits for a pipe in the place of a file that the machine has either.
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
