package cli_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/cli"
	"github.com/llpatch/llpatch/internal/gguf"
)

// Only a command that uses what it has done so far says that it goes on.
func TestInterruptedHint(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LLPATCH_CACHE", dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		args []string
		hint bool
	}{
		{[]string{"fetch", "b8390", "--offline"}, true},
		{[]string{"release", "b8390", "linux-cpu", "--offline"}, true},
		{[]string{"leak", "--vram", "none", "--", "sleep", "60"}, false},
		{[]string{"model", "-o", filepath.Join(dir, "m.gguf"), "--preset", "8b"}, false},
	} {
		var out, errs bytes.Buffer
		code := cli.Run(ctx, append([]string{"--out", dir}, c.args...), &out, &errs)
		if code != 130 || strings.Contains(errs.String(), "goes on") != c.hint {
			t.Errorf("%v: %d, %s", c.args, code, errs.String())
		}
	}
}

// Killed with no chance to clean up, llpatch leak leaves neither the program nor
// what that started, nor its tools.
func TestLeakKilled(t *testing.T) {
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	smi := filepath.Join(dir, "nvidia-smi")
	if err := os.WriteFile(smi, []byte("#!/bin/sh\ncase $1 in *query-gpu*) while :; do echo '0, GPU-1, 5, 100'; sleep "+
		"0.05; done ;; esac\nsleep 77\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "leak", "--", "sh", "-c", "trap '' TERM; setsid sleep 78 & sleep 79; true")
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool {
		all := workingIn(t, dir)
		return slices.Contains(all, "sleep 77 ") && slices.Contains(all, "sleep 78 ") && slices.Contains(all, "sleep 79 ")
	}, "the program did not start")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	await(t, func() bool { return len(workingIn(t, dir)) == 0 }, "processes are left")
}

// A page that cannot be written is said before anything runs; and where that shows
// only afterwards, what was found is told all the same.
func TestLeakPage(t *testing.T) {
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	leak := func(args ...string) (string, int) {
		c := exec.CommandContext(t.Context(), self, append([]string{"leak", "--vram", "none", "--every", "20ms"}, args...)...)
		c.Dir = dir
		out, _ := c.CombinedOutput() // the code tells
		return string(out), c.ProcessState.ExitCode()
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.CommandContext(t.Context(), "mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, page := range []string{dir, filepath.Join(dir, "no", "p.html"), pipe} {
		out, code := leak("--html", page, "--", "touch", "ran")
		if list, err := os.ReadDir(dir); code != 2 || !strings.Contains(out, page) || err != nil || len(list) != 0 {
			t.Errorf("%s: %d, %s; left %v", page, code, out, list)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := leak("--html", "d/p.html", "--", "sh", "-c", "rmdir d; sleep 1.5")
	if code != 1 || !strings.Contains(out, "anonymous memory is flat") || !strings.Contains(out, "error: --html: ") {
		t.Errorf("%d, %s", code, out)
	}
}

func await(t *testing.T, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// workingIn lists the command lines of the processes whose working folder is dir.
func workingIn(t *testing.T, dir string) (list []string) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if to, err := os.Readlink(p); err == nil && to == dir {
			line, err := os.ReadFile(filepath.Join(filepath.Dir(p), "cmdline"))
			if err == nil {
				list = append(list, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
	}
	return list
}

// The forecast of a real file, whole and cut short.
func TestVRAM(t *testing.T) {
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "m.gguf")
	m := gguf.Model{Layers: 2, Embd: 256, Heads: 4, KVHeads: 4, FF: 512, Context: 32768, Type: gguf.F16, Seed: 1}
	if _, err := gguf.WriteFile(context.Background(), file, m, nil); err != nil {
		t.Fatal(err)
	}
	vram := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), self, append([]string{"vram", file}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	// 2 layers of 2 x 256 elements: 2,048 bytes in f16, 1,088 in q8_0; the scratch
	// of q8_0 is 2 x 256 x 2 bytes a token.
	for want, args := range map[string][]string{
		"KV cache +64.0 +2048 B":          {"--ctx", "32768"},
		"attention scratch +32.0 +1024 B": {"--ctx", "32768", "--kv-type", "q8_0"},
		"14.5 times the need":             {"--ctx", "32768", "--kv-type", "q8_0", "--no-vmm"},
		"it does not start":               {"--card", "300"},
		"runs out at about token":         {"--kv-type", "q8_0", "--no-vmm", "--card", "900"},
	} {
		if out := vram(args...); !matches(out, want) {
			t.Errorf("%v: no %q in\n%s", args, want, out)
		}
	}
	if out := vram("--json"); !strings.Contains(out, `"trust": "formula"`) {
		t.Errorf("%s", out)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if out := vram(); !strings.Contains(out, "a broken download") {
		t.Errorf("%s", out)
	}
	if err := os.WriteFile(file, whole[:5000], 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), self, "vram", file).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "ends inside its header") {
		t.Errorf("%v: %s", err, out)
	}
}

func matches(text, pattern string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// Of two cards the program sees one: what changes on the other is not its memory.
func TestLeakOneCard(t *testing.T) {
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	smi := `#!/bin/sh
case $* in
*driver_version*) printf '0, GPU-1111, Tesla T4, 535.1\n1, GPU-2222, NVIDIA L4, 535.1\n' ;;
*query-gpu*-i\ GPU-2222*) while :; do echo '1, GPU-2222, 5, 24000'; sleep 0.05; done ;;
*query-gpu*) n=5; while :; do printf '0, GPU-1111, %d, 16000\n1, GPU-2222, 5, 24000\n' $n; n=$((n + 100)); sleep 0.05; done ;;
*) exec sleep 60 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(smi), 0o755); err != nil {
		t.Fatal(err)
	}
	for seen, want := range map[string]string{"CUDA_VISIBLE_DEVICES=GPU-2222": "VRAM is flat", "OTHER=1": "VRAM grows"} {
		c := exec.CommandContext(t.Context(), self, "leak", "--every", "20ms", "--", "sleep", "3")
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), seen)
		out, _ := c.CombinedOutput() // the verdict tells
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: no %q in\n%s", seen, want, out)
		}
	}
}
