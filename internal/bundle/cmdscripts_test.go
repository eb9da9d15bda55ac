package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/wine"
)

// windows is a Windows 7 for one test: wine, whose reg is real, with stand-ins for
// certutil, findstr and nvidia-smi, of which wine 8 has only shells that do nothing.
type windows struct {
	wine   string
	env    []string
	bin    string // what the stand-ins are copied from
	root   string // CHECK_ROOT: the stand-ins, and System32
	bundle string // a folder with odd letters in its name
}

func newWindows(t *testing.T) *windows {
	t.Helper()
	w := &windows{}
	var found bool
	w.wine, found = wine.Find()
	gcc, err := exec.LookPath("x86_64-w64-mingw32-gcc-posix")
	if err != nil || !found {
		t.Skip("no wine64 or no MinGW-w64 (sh scripts/setup win7): the scripts for Windows did not run here")
	}
	dir := t.TempDir()
	w.bin, w.root, w.bundle = filepath.Join(dir, "standin.exe"), filepath.Join(dir, "root"),
		filepath.Join(dir, "b (1) & x")
	if out, err := exec.CommandContext(t.Context(), gcc, "-O1", "-s", "-o", w.bin, "testdata/windows/standin.c",
		"-ladvapi32", "-lshell32").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	win, err := wine.Start(t.Context(), wine.Options{
		Program: w.wine, Version: spec.Win7, Dir: dir,
		Env: []string{"HOME=" + dir, "PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := win.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	w.env = append(win.Environ(), "CHECK_ROOT=Z:"+strings.ReplaceAll(w.root, "/", `\`))
	return w
}

// run runs a program of wine's in the bundle's folder, or elsewhere before there is one.
func (w *windows) run(t *testing.T, input []byte, args ...string) (string, int) {
	t.Helper()
	args = wine.Argv(w.wine, args...)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	// Files and no pipes: a service of wine's that this run starts would keep a pipe open.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), input, 0o644); err != nil {
		t.Fatal(err)
	}
	in, err1 := os.Open(filepath.Join(dir, "in"))
	to, err2 := os.Create(filepath.Join(dir, "out"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(in.Close(), to.Close()) }()
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.env, in, to, to
	if _, err := os.Stat(w.bundle); err == nil {
		cmd.Dir = w.bundle
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n"), cmd.ProcessState.ExitCode()
}

// set makes the machine and the bundle anew.
func (w *windows) set(t *testing.T, files map[string]string) {
	t.Helper()
	standin, err := os.ReadFile(w.bin)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(w.root), os.RemoveAll(w.bundle)); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		file := filepath.Join(filepath.Dir(w.root), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		data := []byte(text)
		if strings.HasSuffix(name, ".exe") {
			data = standin
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := checksums(w.bundle)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.bundle, "SHA256SUMS"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
}

// registry is what the scripts ask of it, as a file for reg import: the build of
// Windows, where VxKex lies, and for which programs of the bundle it is on.
func (w *windows) registry(build, kex string, on ...string) string {
	var b strings.Builder
	const current = `HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	fmt.Fprintf(&b, "REGEDIT4\r\n\r\n[-%s\\Image File Execution "+
		"Options]\r\n\r\n[-HKEY_LOCAL_MACHINE\\SOFTWARE\\VXsoft]\r\n\r\n[%s]\r\n\"CurrentBuildNumber\"=%q\r\n", current,
		current, build)
	if kex != "" {
		fmt.Fprintf(&b, "\r\n[HKEY_LOCAL_MACHINE\\SOFTWARE\\VXsoft\\VxKex]\r\n\"KexDir\"=%q\r\n", kex)
	}
	for _, exe := range on {
		// As KexCfg of VxKex NEXT writes it: a key of its own for each path.
		path := strings.ReplaceAll(`Z:`+strings.ReplaceAll(w.bundle, "/", `\`)+`\`+exe, `\`, `\\`)
		fmt.Fprintf(&b, "\r\n[%s\\Image File Execution Options\\%s]\r\n\"UseFilter\"=dword:00000001\r\n", current, exe)
		fmt.Fprintf(&b, "\r\n[%s\\Image File Execution "+
			"Options\\%s\\VxKex_0]\r\n\"FilterFullPath\"=\"C:\\\\elsewhere\\\\%s\"\r\n\"GlobalFlag\"=dword:00000100\r\n\"VerifierDlls\"=\"kexdll.dll\"\r\n", current, exe, exe)
		fmt.Fprintf(&b, "\r\n[%s\\Image File Execution "+
			"Options\\%s\\VxKex_1]\r\n\"FilterFullPath\"=\"%s\"\r\n\"GlobalFlag\"=dword:00000100\r\n\"VerifierDlls\"=\"other.dll kexdll.dll\"\r\n", current, exe, path)
	}
	return b.String()
}

// cmdScripts are a recipe's scripts as a bundle has them.
func cmdScripts(t *testing.T, i Info) map[string][]byte {
	t.Helper()
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := repo.Recipe("win7-cpu")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := Scripts(repo, rec, i)
	if err != nil {
		t.Fatal(err)
	}
	return scripts
}

var (
	cpuInfo  = Info{Windows: spec.Win7}
	cudaInfo = Info{
		Windows: spec.Win7VxKex,
		CUDA:    &binary.Verdict{Cards: []binary.Card{{Capability: "8.0"}, {Capability: "8.6"}}},
		NVIDIA:  []string{"cudart64_110.dll", "cublas64_11.dll", "cublasLt64_11.dll"},
	}
)

func TestCmdScripts(t *testing.T) {
	w := newWindows(t)
	t.Run("check-win7", func(t *testing.T) { checkWin7(t, w) })
	t.Run("start-server", func(t *testing.T) { startServer(t, w) })
}

// seen is what llama-server.exe --list-devices of b8833 prints where it sees a card.
func seen(capability string) string {
	return "ggml_cuda_init: found 1 CUDA devices (Total VRAM: 12287 MiB):\n  Device 0: NVIDIA GeForce RTX 3060, " +
		"compute capability " + capability + ", VMM: no, VRAM: 12287 MiB\nload_backend: loaded CUDA backend from " +
		"C:\\x\\ggml-cuda.dll\nAvailable devices:\n  CUDA0: NVIDIA GeForce RTX 3060 (12287 MiB, 11000 MiB free)\n"
}

// Every outcome of check-win7.cmd, each a golden text with its exit code.
func checkWin7(t *testing.T, w *windows) {
	able := func(i Info) map[string]string {
		m := map[string]string{
			"root/certutil.exe": "", "root/findstr.exe": "", "root/nvidia-smi.exe": "",
			"b (1) & x/llama-server.exe": "", "b (1) & x/LICENSES/a b.txt": "terms",
		}
		for name, text := range cmdScripts(t, i) {
			m["b (1) & x/"+name] = string(text)
		}
		if i.Windows == spec.Win7VxKex {
			for _, dll := range i.NVIDIA {
				m["b (1) & x/"+dll] = dll
			}
			m["b (1) & x/llama-cli.exe"] = ""
			m["root/System32/kernel32.dll"], m["root/System32/d2d1.dll"] = "x\x00AddDllDirectory\x00",
				"D2D1CreateDeviceContext\x00"
			m["root/System32/nvcuda.dll"], m["root/nvidia-smi.txt"] = "", "474.11, 11000, 12288, NVIDIA GeForce RTX 3060\r\n"
			m["root/list-devices.txt"] = seen("8.6")
		}
		return m
	}
	const kex = `C:\\Program Files\\VxKex`
	on := func(build string, exes ...string) string {
		return strings.ReplaceAll(w.registry(build, "KEX", exes...), "KEX", kex)
	}
	right := on("7601", "llama-server.exe", "llama-cli.exe")
	without := func(names ...string) func(map[string]string) {
		return func(m map[string]string) {
			maps.DeleteFunc(m, func(k, _ string) bool { return slices.Contains(names, k) })
		}
	}
	lists := func(text string) func(map[string]string) {
		return func(m map[string]string) { m["root/list-devices.txt"] = text }
	}
	smi := func(text string) func(map[string]string) {
		return func(m map[string]string) { m["root/nvidia-smi.txt"] = text }
	}
	for _, c := range []struct {
		name   string
		info   Info
		reg    string
		change func(m map[string]string) // of the machine, before the sums are made
		break_ func() error              // of the bundle, after that
		code   int
	}{
		{"cpu", cpuInfo, w.registry("7601", ""), nil, nil, 0},
		{"cpu-no-sp1", cpuInfo, w.registry("7600", ""), nil, nil, 1},
		{"cpu-vista", cpuInfo, w.registry("6002", ""), nil, nil, 1},
		{"cpu-windows10", cpuInfo, w.registry("19045", ""), nil, nil, 0},
		{"cpu-changed", cpuInfo, w.registry("7601", ""), nil, func() error {
			return os.WriteFile(filepath.Join(w.bundle, "llama-server.exe"), []byte("x"), 0o644)
		}, 1},
		{"cpu-gone", cpuInfo, w.registry("7601", ""), nil, func() error {
			return os.Remove(filepath.Join(w.bundle, "llama-server.exe"))
		}, 1},
		{"cpu-many-gone", cpuInfo, w.registry("7601", ""), func(m map[string]string) {
			for n := range 6 {
				m[fmt.Sprintf("b (1) & x/%d.txt", n)] = "x"
			}
		}, func() error {
			var errs []error
			for n := range 6 {
				errs = append(errs, os.Remove(filepath.Join(w.bundle, fmt.Sprintf("%d.txt", n))))
			}
			return errors.Join(errs...)
		}, 1},
		{"cpu-no-certutil", cpuInfo, w.registry("7601", ""), without("root/certutil.exe"), nil, 0},
		{"cpu-no-certutil-and-gone", cpuInfo, w.registry("7601", ""), without("root/certutil.exe"), func() error {
			return os.Remove(filepath.Join(w.bundle, "llama-server.exe"))
		}, 1},
		{"cpu-unread", cpuInfo, w.registry("7601", ""), func(m map[string]string) {
			m["b (1) & x/ggml.dll"], m["b (1) & x/ggml-base.dll"] = "deaf", "busy"
		}, nil, 0},
		{"cpu-unread-and-changed", cpuInfo, w.registry("7601", ""), func(m map[string]string) {
			m["b (1) & x/ggml.dll"], m["b (1) & x/ggml-base.dll"] = "deaf", "busy"
		}, func() error {
			return os.WriteFile(filepath.Join(w.bundle, "llama-server.exe"), []byte("x"), 0o644)
		}, 1},
		{"cpu-no-start", cpuInfo, w.registry("7601", ""), lists("load_backend: failed\n"), nil, 1},
		{"cpu-no-sums", cpuInfo, w.registry("7601", ""), nil, func() error {
			return os.Remove(filepath.Join(w.bundle, "SHA256SUMS"))
		}, 1},
		{"cuda", cudaInfo, right, nil, nil, 0},
		{"cuda-no-updates", cudaInfo, right, without("root/System32/d2d1.dll", "root/System32/kernel32.dll"), nil, 1},
		{"cuda-no-vxkex", cudaInfo, w.registry("7601", ""), nil, nil, 1},
		{"cuda-vxkex-off", cudaInfo, on("7601", "llama-cli.exe"), nil, nil, 1},
		{"cuda-vxkex-server-alone", cudaInfo, on("7601", "llama-server.exe"), nil, nil, 0},
		{"cuda-no-driver", cudaInfo, right, without("root/System32/nvcuda.dll", "root/nvidia-smi.txt"), nil, 1},
		{"cuda-old-driver", cudaInfo, right, smi("451.08, 11000, 12288, NVIDIA GeForce RTX 3060\r\n"), nil, 1},
		{"cuda-driver-unknown", cudaInfo, right, without("root/nvidia-smi.txt"), nil, 0},
		{"cuda-no-dlls", cudaInfo, right, without("b (1) & x/cublas64_11.dll", "b (1) & x/cublasLt64_11.dll"), nil, 1},
		{"cuda-dlls-on-path", cudaInfo, right, func(m map[string]string) {
			delete(m, "b (1) & x/cudart64_110.dll")
			m["root/cudart64_110.dll"] = ""
		}, nil, 0},
		{"cuda-sees-none", cudaInfo, right, lists("Available devices:\n"), nil, 1},
		{"cuda-other-card", cudaInfo, right, lists(seen("6.1")), nil, 1},
		{
			"cuda-capability-unknown", cudaInfo, right,
			lists("Available devices:\n  CUDA0: NVIDIA GeForce RTX 3060 (12287 MiB, 11000 MiB free)\n"), nil, 0,
		},
		{"cuda-full-card", cudaInfo, right, smi("474.11, 300, 12288, NVIDIA GeForce RTX 3060\r\n"), nil, 0},
		{"cuda-two-cards", cudaInfo, right, smi(
			"474.11, 300, 2048, NVIDIA GeForce GT 1030\r\n474.11, 11000, 12288, NVIDIA GeForce RTX 3060\r\n"), nil, 0},
		{"cuda-memory-unknown", cudaInfo, right, smi("474.11, [N/A], [N/A], NVIDIA GeForce RTX 3060\r\n"), nil, 0},
		{"cuda-windows10", cudaInfo, on("19045"), without("root/System32/d2d1.dll", "root/System32/kernel32.dll"), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && !slices.Contains([]string{"cpu", "cpu-changed", "cuda", "cuda-no-vxkex", "cuda-old-driver"},
				c.name) {
				t.Skip("-short: five outcomes through wine (make test-all)")
			}
			files := able(c.info)
			files["state.reg"] = c.reg
			if c.change != nil {
				c.change(files)
			}
			w.set(t, files)
			if c.break_ != nil {
				if err := c.break_(); err != nil {
					t.Fatal(err)
				}
			}
			if out, code := w.run(t, nil, "reg", "import", `..\state.reg`); code != 0 {
				t.Fatalf("reg import: %d %s", code, out)
			}
			out, code := w.run(t, nil, "cmd", "/c", `.\check-win7.cmd /q`)
			out = strings.ReplaceAll(out, "Z:"+strings.ReplaceAll(filepath.Dir(w.root), "/", `\`), "TEMP")
			golden.Check(t, filepath.Join("testdata/windows", c.name+".golden"), fmt.Appendf(nil, "%sexit code %d\n", out, code))
			lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
			if code != c.code || len(lines) < 3 || lines[len(lines)-2] != "" {
				t.Errorf("exit code %d, want %d and one sentence at the end:\n%s", code, c.code, out)
			}
		})
	}
}

// start-server.cmd gives the server what it was given. wine's cmd has no
// %cmdcmdline%, so a dropped file with an ampersand and no space was not tried.
func startServer(t *testing.T, w *windows) {
	base := map[string]string{
		"b (1) & x/llama-server.exe": "", "b (1) & x/m/plain.gguf": "", "b (1) & x/m/a (2) & b.gguf": "",
		"b (1) & x/m/größe.gguf": "", "b (1) & x/m/wow!.gguf": "",
	}
	const defaults = "LLAMA_ARG_HOST=127.0.0.1\nLLAMA_ARG_PORT=8080\nLLAMA_ARG_CTX_SIZE=8192\n"
	const page = "API, and no web page: http://127.0.0.1:8080/v1\n"
	withPage := cpuInfo
	withPage.WebUI = true
	for name, c := range map[string]struct {
		info  Info
		args  []string
		input string
		env   []string
		want  string
		code  int
	}{
		"a model": {cpuInfo, []string{`m\plain.gguf`}, "", nil, page + "[-m]\n[m\\plain.gguf]\n" + defaults, 0},
		"odd letters": {cpuInfo, []string{`m\a (2) & b.gguf`}, "", nil, page + "[-m]\n[m\\a (2) & b.gguf]\n" +
			defaults, 0},
		"not ASCII":      {cpuInfo, []string{`m\größe.gguf`}, "", nil, page + "[-m]\n[m\\größe.gguf]\n" + defaults, 0},
		"an exclamation": {cpuInfo, []string{`m\wow!.gguf`}, "", nil, page + "[-m]\n[m\\wow!.gguf]\n" + defaults, 0},
		"more options": {cpuInfo, []string{`m\plain.gguf`, "-c", "4096", "--alias", "x & y"}, "", nil, page +
			"[-m]\n[m\\plain.gguf]\n[-c]\n[4096]\n[--alias]\n[x & y]\n" + defaults, 0},
		"options first": {cpuInfo, []string{
			"-m", `m\a (2) & b.gguf`, "-a", "1", "-b", "2", "-c", "3", "-d", "4", "-e",
			"5",
		}, "", nil, page + "[-m]\n[m\\a (2) & b.gguf]\n[-a]\n[1]\n[-b]\n[2]\n[-c]\n[3]\n[-d]\n[4]\n[-e]\n[5]\n" +
			defaults, 0},
		"a page": {
			withPage,
			[]string{`m\plain.gguf`},
			"", nil,
			"Page and API: http://127.0.0.1:8080/\n[-m]\n[m\\plain.gguf]\n" + defaults, 0,
		},
		"a card": {cudaInfo, []string{`m\plain.gguf`}, "", nil, page + "[-m]\n[m\\plain.gguf]\n" + defaults +
			"LLAMA_ARG_N_GPU_LAYERS=99\n", 0},
		"the user's own": {
			cudaInfo,
			[]string{`m\plain.gguf`},
			"",
			[]string{"LLAMA_ARG_PORT=9", "LLAMA_ARG_CTX_SIZE=1", "LLAMA_ARG_N_GPU_LAYERS=2"},
			"API, and no web page: " +
				"http://127.0.0.1:9/v1\n[-m]\n[m\\plain.gguf]\nLLAMA_ARG_HOST=127.0.0.1\nLLAMA_ARG_PORT=9\nLLAMA_ARG_CTX_SIZE=1\nLLAMA_ARG_N_GPU_LAYERS=2\n", 0,
		},
		"asked": {cpuInfo, nil, "\"m\\a (2) & b.gguf\"\r\n", nil, "Model file (.gguf): " + page +
			"[-m]\n[m\\a (2) & b.gguf]\n" + defaults, 0},
		"asked in vain": {cpuInfo, nil, "", nil, "No model was given.", 1},
		"no such file":  {cpuInfo, []string{"none.gguf"}, "", nil, `There is no file "none.gguf".`, 1},
		"the server's error": {cpuInfo, []string{`m\plain.gguf`, "--fail"}, "", nil, "[--fail]\n" + defaults +
			"llama-server.exe ended with 7: README-WIN7.txt says what to do, under \"If it does not work\".\n", 7},
		"no server": {cpuInfo, []string{"GONE"}, "", nil, "llama-server.exe is not beside this file", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !slices.Contains([]string{"odd letters", "the user's own", "the server's error"}, name) {
				t.Skip("-short: three starts through wine (make test-all)")
			}
			files := maps.Clone(base)
			for script, text := range cmdScripts(t, c.info) {
				files["b (1) & x/"+script] = string(text)
			}
			w.set(t, files)
			if slices.Contains(c.args, "GONE") {
				if err := os.Remove(filepath.Join(w.bundle, "llama-server.exe")); err != nil {
					t.Fatal(err)
				}
			}
			env := w.env
			w.env = slices.Concat(env, c.env)
			defer func() { w.env = env }()
			// wine's cmd takes a name that begins with start for its own command.
			out, code := w.run(t, []byte(c.input), append([]string{"cmd", "/c", `.\start-server.cmd`}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want %d and\n%s\ngot\n%s", code, c.code, c.want, out)
			}
		})
	}
}

// A script for cmd.exe has the line ends of Windows, no letter that one machine's cmd
// reads otherwise than another's, and what the bundle is.
func TestCmdScript(t *testing.T) {
	got := cmdScripts(t, cudaInfo)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"check-win7.cmd", "start-server.cmd"}) {
		t.Fatalf("scripts %v", names)
	}
	for _, want := range []string{"\r\nset \"system=win7-vxkex\"\r\n", "\r\nset \"dlls=cudart64_110.dll " +
		"cublas64_11.dll cublasLt64_11.dll\"\r\n", "\r\nset \"driver=452.39\"\r\n", "\r\nset \"cards=8.0 8.6\"\r\n"} {
		if !bytes.Contains(got["check-win7.cmd"], []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
	if !bytes.Contains(got["start-server.cmd"], []byte("\r\nset \"gpu=1\"\r\n")) {
		t.Error("the server is not told of the card")
	}
	for name, text := range cmdScripts(t, cpuInfo) {
		if bytes.Count(text, []byte("\n")) != bytes.Count(text, []byte("\r\n")) || bytes.Contains(text, []byte("\r\r")) {
			t.Errorf("%s: line ends", name)
		}
		if bytes.Contains(text, []byte("set \"gpu=1\"")) {
			t.Errorf("%s: a card on a build without", name)
		}
	}
	// An editor of Windows wrote it.
	if text, err := cmdScript("recipes/x.cmd", []byte("@echo off\r\nset \"gpu=\"\r\nset \"driver=\"\r\n"),
		cudaInfo); err != nil || string(text) != "@echo off\r\nset \"gpu=1\"\r\nset \"driver=452.39\"\r\n" {
		t.Errorf("%q, %v", text, err)
	}
	var fault *spec.Error
	if _, err := cmdScript("recipes/x.cmd", []byte("@echo off\necho größe\n"), cpuInfo); !errors.As(err, &fault) ||
		fault.Line != 2 {
		t.Errorf("%v", err)
	}
}
