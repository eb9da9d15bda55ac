package bundle

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Whoever holds what check.sh reads open, or has no end, is not waited for.
func TestCheckWaits(t *testing.T) {
	// As long as the machine is there.
	const left = "\nwhile test -e \"$0\"; do sleep 1; done &\n"
	second := func(change func(m *machine)) func(m *machine) {
		return func(m *machine) {
			m.env = []string{"CHECK_SECONDS=1"}
			change(m)
		}
	}
	leaves := func(m *machine) { m.bundle["llama-server"] = serverTool + left }
	kept(t, []outcome{
		{"cpu-leaves-a-child", cpu(), leaves, 0},
		{"cpu-leaves-a-child-no-timeout", cpu(), func(m *machine) { leaves(m); m.tools["timeout"] = "" }, 0},
		{"cpu-no-end", cpu(), second(says("exec cat /dev/zero")), 2},
		{"cpu-no-end-of-lines", cpu(), second(says("while printf 'y\\n%0999d'; do :; done")), 2},
		{"cpu-no-end-of-a-line", cpu(), second(says("exec tr '\\0' x </dev/zero")), 2},
		{"cpu-control-characters", cpu(), says(`printf '\0\na\033[31m red\r\ttab\n\n'; exit 3`), 1},
		{"cpu-loader-hangs", cpu(), second(func(m *machine) { m.files[loaderAt], m.files["lib64/needs"] = silent, pipe }), 0},
		{"cpu-tools-hang", cpu(), second(func(m *machine) {
			delete(m.files, libsAt+"libc.so.6")
			m.files[loaderAt], m.tools["getconf"], m.tools["ldconfig"] = silent, hanging, hanging
		}), 0},
		{"cpu-long-answers", cpu(), func(m *machine) {
			const libc = libsAt + "libc.so.6"
			m.files["far/libc.so.6"], m.files[loaderAt] = m.files[libc], silent
			delete(m.files, libc)
			m.tools["ldconfig"] = "#!/bin/sh\nprintf '\\tlib%s.so (libc6,x86-64) => /none\\n' " + strings.Repeat("x ", 5000) +
				"\nprintf '\\tlibc.so.6 (libc6,x86-64) => %s\\n' \"$CHECK_ROOT/far/libc.so.6\"\n"
		}, 0},
		{"cuda-smi-leaves-a-child", cuda(), func(m *machine) { m.tools["nvidia-smi"] += left }, 0},
		{"cuda-smi-no-end", cuda(), second(func(m *machine) {
			m.tools["nvidia-smi"] = "#!/bin/sh\nexec cat /dev/zero\n"
		}), 0},
	})
}

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
	edited := func(edit func(text string) string) func(m *machine) {
		return spoilt(func(dir string) error {
			file := filepath.Join(dir, "SHA256SUMS")
			text, err := os.ReadFile(file)
			return errors.Join(err, os.WriteFile(file, []byte(edit(string(text))), 0o644))
		})
	}
	// With but so many lines.
	short := func(count int) func(m *machine) {
		return edited(func(text string) string { return strings.Join(strings.SplitAfter(text, "\n")[:count], "") })
	}
	// With something else in the place of each line's end.
	ends := func(end string) func(m *machine) {
		return edited(func(text string) string { return strings.ReplaceAll(text, "\n", end) })
	}
	drop := cuda()
	drop.info.DropIn, drop.info.Files = "libggml-cuda.so", drop.info.Files[len(drop.info.Files)-1:]
	kept(t, []outcome{
		{"cpu-sums-cut-off", cpu(), short(4), 1},
		{"cpu-sums-crlf", cpu(), ends("\r\n"), 1},
		{"cpu-sums-huge", cpu(), ends("\n" + strings.Repeat("0  a name that no file has\n", 8000)), 1},
		{"cpu-sums-empty", cpu(), short(0), 1},
		{"drop-in-sums-cut-off", drop, short(2), 1},
	})
}

// However it is started, it finds and says the same.
func TestCheckStarts(t *testing.T) {
	l := newLab(t)
	for name, c := range map[string]struct {
		start  string
		change func(m *machine)
		same   string // the place that it is started from otherwise
	}{
		"with a shell's options": {start: `exec "$@" -aefuC "$check"`},
		"with those of bash": {change: func(m *machine) {
			m.env = []string{"SHELLOPTS=errexit:nounset:noglob:pipefail"}
			m.files[libsAt+"libm.so.6"] += strings.Repeat("x ", 1<<19)
		}},
		"by a link":                {start: `/bin/ln -s "$check" link && exec "$@" link`},
		"by a link that is beside": {start: `/bin/ln -s check.sh "${check%/*}/link" && exec "$@" "${check%/*}/link"`},
		"as what is typed":         {start: `exec sh <check.sh`, same: "."},
		"without an input":         {start: `exec "$@" "$check" <&-`},
		"with no pipe that breaks": {start: `trap '' PIPE; exec "$@" "$check"`},
		"in an odd language": {change: func(m *machine) {
			m.env = []string{"LANG=x\ny", "LC_ALL=C.UTF-8", "LANGUAGE=de", "IFS=/a", "POSIXLY_CORRECT=1"}
		}},
		"where nothing is written": {change: func(m *machine) {
			m.nobody = true
			spoilt(func(dir string) error { return os.Chmod(dir, 0o555) })(m)
		}},
		"with room for a core": {
			start:  `ulimit -S -c "$(ulimit -H -c)"; exec "$@" "$check"`,
			change: says(`test "$(ulimit -c)" = 0 && cat "${0%/*}/LICENSES/answer$1"`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := cpu()
			m := plain
			m.bundle, m.files = maps.Clone(plain.bundle), maps.Clone(plain.files)
			plain.from, m.from, m.start = c.same, c.same, c.start
			if c.change != nil {
				c.change(&m)
			}
			script := checkSh(t, m.info, nil)
			want, _ := plain.judged(t, l, script)
			if out, code := m.judged(t, l, script); out != want || code != 0 {
				t.Errorf("exit code %d, and not as it says else:\n%s\n%s", code, out, want)
			}
		})
	}
}

// What cannot work is told, and judges nothing.
func TestCheckCannotStart(t *testing.T) {
	l := newLab(t)
	type wrong struct {
		change func(m *machine)
		want   string
	}
	cases := map[string]wrong{
		"another folder":      {func(m *machine) { m.start = `exec "$@" -c '. "$check"' /none/check.sh` }, "/none/"},
		"seconds with a unit": {func(m *machine) { m.env = []string{"CHECK_SECONDS=2m"} }, "CHECK_SECONDS"},
		"no seconds":          {func(m *machine) { m.env = []string{"CHECK_SECONDS=0"} }, "CHECK_SECONDS"},
	}
	for _, tool := range strings.Fields("cat cut env grep head id ls sed sleep sort tail tr uname") {
		cases["no "+tool] = wrong{without(tool), tool}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := cpu()
			c.change(&m)
			out, code := m.judged(t, l, checkSh(t, m.info, nil))
			_, advice, _ := strings.Cut(out, "\n\n")
			if code != 2 || strings.Count(out, "\n") != 3 || !strings.HasPrefix(advice,
				"Whether it can run is not known, because ") || !strings.Contains(advice, c.want) {
				t.Errorf("exit code %d, want 2 with %q:\n%s", code, c.want, out)
			}
		})
	}
}

// Nobody waits for a pipe in the place of a file that the machine has either.
func TestCheckPipesOfMachine(t *testing.T) {
	l := newLab(t)
	shells := slices.Sorted(maps.Keys(l.shells))
	for name, able := range map[string]func() machine{
		"cpu": cpu, "cuda": cuda, "rocm": able,
		"rocm by the driver": func() machine {
			m := able()
			m.nodes([3]int{120001, 16304, 300})
			return m
		},
	} {
		for i, file := range slices.Sorted(maps.Keys(able().files)) {
			t.Run(name+"/"+strings.ReplaceAll(file, "/", "_"), func(t *testing.T) {
				t.Parallel()
				m := able()
				m.files[file] = pipe
				m.check(t, l, shells[i%len(shells)], checkSh(t, m.info, nil))
			})
		}
	}
}
