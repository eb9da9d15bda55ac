package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/spec"
)

// many is an index with an archive of each kind, by the facts of what bundles hold.
func many(t *testing.T) bundle.Index {
	t.Helper()
	elf := func(needs ...string) bundle.Info {
		i := bundle.Info{
			Upstream: spec.LlamaCpp, Tag: "b8833", Build: 8833, Revision: 2, Glibc: "2.31", Needs: append(needs, "libc.so.6"),
			Files: []*binary.File{{Name: "llama-server", Machine: "EM_X86_64"}}, Series: &spec.Series{},
		}
		return i
	}
	cuda := elf("libcudart.so.12", "libcublas.so.12")
	cuda.CUDA = &binary.Verdict{
		Newer: true, Driver: &binary.Driver{Version: "525.60.13", CUDA: "12.0"},
		JIT: &binary.Driver{Version: "550.54.14", CUDA: "12.4"},
		Cards: []binary.Card{
			{Capability: "8.6", By: []string{"sm_86"}},
			{Capability: "8.9", By: []string{"compute_86"}, JIT: true},
			{Capability: "7.5", By: []string{"sm_75"}, Missing: 1},
		},
	}
	full := cuda
	full.Needs, full.Glibc = []string{"libc.so.6"}, "2.36"
	rocm := elf()
	rocm.AMD = []binary.GPU{{GFX: "gfx1201"}, {GFX: "gfx1100", Missing: 1}}
	ik := elf()
	ik.Upstream, ik.Build, ik.Options = spec.IkLlamaCpp, 4840, map[string]string{"GGML_AVX2": "ON"}
	old := elf()
	old.Tag, old.Build = "b8390", 8390
	bad := elf()
	bad.Tag, bad.Build = "b9000", 9000
	win := bundle.Info{
		Upstream: spec.LlamaCpp, Tag: "b8833", Build: 8833, Revision: 2, Windows: spec.Win7,
		Series: &spec.Series{},
	}
	vx := win
	vx.Windows, vx.NVIDIA, vx.CUDA = spec.Win7VxKex, []string{"cublas64_11.dll"},
		&binary.Verdict{Cards: []binary.Card{{Capability: "6.1"}}}
	drop := elf()
	drop.DropIn = "libggml-cpu.so"
	x := bundle.Index{Schema: 1, Date: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	for _, r := range []struct {
		name, why string
		of        map[string]bundle.Info
		order     []string
	}{
		{"b9000-llp1", "It crashes <on> start.", map[string]bundle.Info{"bin-linux-cpu-x64.tar.gz": bad}, nil},
		{"b8390-llp1", "", map[string]bundle.Info{"bin-linux-cpu-x64.tar.gz": old}, nil},
		{"b8833-llp2", "", map[string]bundle.Info{
			"bin-linux-cpu-x64.tar.gz": elf(), "bin-linux-cuda-12.4-x64.tar.gz": cuda,
			"bin-linux-cuda-12.4-x64-full.tar.gz": full, "bin-debian-rocm-6.4-gfx1201-x64.tar.gz": rocm,
			"bin-win7-cpu-x64.zip": win, "bin-win7-cuda-11.4-x64.zip": vx, "backend-linux-cpu-x64.tar.gz": drop,
		}, []string{
			"bin-linux-cpu-x64.tar.gz", "bin-linux-cuda-12.4-x64.tar.gz", "bin-linux-cuda-12.4-x64-full.tar.gz",
			"bin-debian-rocm-6.4-gfx1201-x64.tar.gz", "bin-win7-cpu-x64.zip", "bin-win7-cuda-11.4-x64.zip",
			"backend-linux-cpu-x64.tar.gz",
		}},
		{"ik_llama-4840-llp1", "", map[string]bundle.Info{"bin-linux-cpu-x64.tar.gz": ik}, nil},
	} {
		rel := bundle.Release{Name: r.name}
		if r.why != "" {
			rel.Withdrawn = &bundle.Withdrawn{Why: r.why}
		}
		if r.order == nil {
			r.order = []string{"bin-linux-cpu-x64.tar.gz"}
		}
		for _, kind := range r.order {
			a := r.of[kind].Entry(bundle.Packed{SHA256: strings.Repeat("a", 64), Bytes: 3 << 20}, "llama-"+r.name+"-"+kind)
			a.Target, a.URLs = kind, []string{"https://example.com/" + r.name + "/" + kind}
			rel.Archives = append(rel.Archives, a)
		}
		x.Releases = append(x.Releases, rel)
	}
	return x
}

// The one file for a machine, or one sentence why there is none; the same in every shell.
func TestWhichSh(t *testing.T) {
	script := must[map[string][]byte](t)(pages(many(t)))[shFile]
	dir := t.TempDir()
	file := filepath.Join(dir, shFile)
	if err := os.WriteFile(file, script, 0o600); err != nil {
		t.Fatal(err)
	}
	if check, err := exec.LookPath("shellcheck"); err == nil {
		if out, err := exec.CommandContext(t.Context(), check, file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	smi := func(driver, caps string) string {
		return fmt.Sprintf("#!/bin/sh\ncase $1 in\n*driver_version*) echo %s ;;\n*compute_cap*) echo '%s' ;;\n*) echo '| "+
			"CUDA Version: 12.4 |' ;;\nesac\n", driver, caps)
	}
	const cpu, cuda, full, rocm = "b8833-llp2/bin-linux-cpu-x64.tar.gz", "b8833-llp2/bin-linux-cuda-12.4-x64.tar.gz",
		"b8833-llp2/bin-linux-cuda-12.4-x64-full.tar.gz", "b8833-llp2/bin-debian-rocm-6.4-gfx1201-x64.tar.gz"
	libs := map[string]string{"lib/libcudart.so.12": "", "lib/libcublas.so.12": ""}
	for name, c := range map[string]struct {
		uname, glibc, smi string
		files             map[string]string
		want              string // the end of what it prints
		aside             string // on standard error
		code              int
	}{
		"no card":        {want: cpu},
		"card, thin":     {smi: smi("550.54.14", "8.6"), files: libs, want: cuda},
		"card, full":     {smi: smi("550.54.14", "8.6"), want: full, aside: "it needs libcu"},
		"card, libs old": {smi: smi("550.54.14", "8.6"), glibc: "2.35", want: cpu, aside: "libcu"},
		"driver old": {
			smi: smi("470.1", "8.6"), files: libs, want: cpu,
			aside: "it needs NVIDIA's driver 525.60.13 or newer, and this is 470.1",
		},
		"PTX, old":   {smi: smi("535.1", "8.9"), files: libs, want: cpu, aside: "550.54.14 or newer for this card"},
		"PTX":        {smi: smi("550.90", "8.9"), files: libs, want: cuda},
		"newer card": {smi: smi("570.1", "12.9"), files: libs, want: cuda},
		"other card": {
			smi: smi("550.1", "7.5"), files: libs, want: cpu,
			aside: "it has no code for a card of compute capability 7.5",
		},
		"two cards":     {smi: smi("550.1", "7.5\n8.6"), files: libs, want: cuda},
		"no capability": {smi: smi("550.1", "Field is not a valid field"), files: libs, want: cuda},
		"amd": {files: map[string]string{
			"sys/class/kfd/kfd/topology/nodes/0/properties": "gfx_target_version 0\n",
			"sys/class/kfd/kfd/topology/nodes/1/properties": "x 1\ngfx_target_version 120001\n",
		}, want: rocm},
		"amd, other": {files: map[string]string{
			"sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110000\n",
		}, want: cpu, aside: "it has no code for gfx1100"},
		"old glibc": {glibc: "2.28", want: "needs glibc 2.31 or newer, and this system has 2.28.", code: 1},
		"musl":      {glibc: "none", want: "it needs glibc 2.31, and no glibc is here.", code: 1},
		"arm":       {uname: "Linux aarch64", want: "it is for x86_64, and this machine is aarch64.", code: 1},
		"mac":       {uname: "Darwin arm64", want: "it is for Linux, and this is Darwin.", code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			root, bin := t.TempDir(), t.TempDir()
			for _, tool := range strings.Fields("sed head grep sort tr timeout cat") {
				if err := os.Symlink(must[string](t)(exec.LookPath(tool)), filepath.Join(bin, tool)); err != nil {
					t.Fatal(err)
				}
			}
			kernel, kind, _ := strings.Cut(c.uname, " ")
			if c.uname == "" {
				kernel, kind = "Linux", "x86_64"
			}
			if c.glibc == "" {
				c.glibc = "2.36"
			}
			tools := map[string]string{
				"uname":   fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s ;; *) echo %s ;; esac\n", kernel, kind),
				"getconf": "#!/bin/sh\necho glibc " + c.glibc + "\n", "nvidia-smi": c.smi,
			}
			if c.glibc == "none" {
				tools["getconf"] = "#!/bin/sh\nexit 1\n"
			}
			for name, text := range tools {
				if text != "" {
					if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil { //nolint:gosec // it is run
						t.Fatal(err)
					}
				}
			}
			for name, text := range c.files {
				at := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, shell := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
				at, err := exec.LookPath(shell[0])
				if err != nil {
					continue
				}
				var out, aside bytes.Buffer
				cmd := exec.CommandContext(t.Context(), at, append(shell[1:], file)...)
				cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PATH=" + bin, "WHICH_ROOT=" + root}, &out, &aside
				err = cmd.Run()
				if code := cmd.ProcessState.ExitCode(); code != c.code {
					t.Errorf("%v: exit code %d, want %d: %v", shell, code, c.code, err)
				}
				said := strings.TrimSpace(out.String())
				if c.code != 0 { // curl -fLO "$(sh which.sh)" shows the reason
					if out.Len() > 0 || !strings.HasSuffix(strings.TrimSpace(aside.String()), c.want) {
						t.Errorf("%v: %q, and %q, want %q", shell, said, aside.String(), c.want)
					}
					continue
				}
				if !strings.HasSuffix(said, c.want) || strings.Contains(said, "\n") ||
					!strings.HasPrefix(said, "https://") {
					t.Errorf("%v: %q, want %q", shell, said, c.want)
				}
				if !strings.Contains(aside.String(), c.aside) || (c.aside == "") != (aside.Len() == 0) {
					t.Errorf("%v: beside it %q, want %q", shell, aside.String(), c.aside)
				}
			}
		})
	}
}

// The script for Windows has each archive of Windows, in the form that cmd takes.
func TestWhichCmd(t *testing.T) {
	text := string(must[map[string][]byte](t)(pages(many(t)))[cmdFile])
	first := strings.Index(text, `call :try "llama-b8833-llp2-bin-win7-cuda-11.4-x64.zip" "https://example.com/b8833-llp2/bin-win7-cuda-11.4-x64.zip" "win7-vxkex" "6.1" "`+bundle.Win7Driver+`" "cublas64_11.dll"`+"\r\n")
	second := strings.Index(text, `call :try "llama-b8833-llp2-bin-win7-cpu-x64.zip" "https://example.com/b8833-llp2/bin-win7-cpu-x64.zip" "win7" "" "" ""`+"\r\n")
	if first < 0 || second < first || strings.Count(text, "\n") != strings.Count(text, "\r\n") ||
		strings.Contains(text, "linux") {
		t.Error(text)
	}
	for _, r := range text {
		if r > '~' {
			t.Errorf("%q is no letter that every cmd knows", r)
		}
	}
}

// The index in words, and in JSON as it was.
func TestIndexPages(t *testing.T) {
	x := many(t)
	all := must[map[string][]byte](t)(pages(x))
	for _, want := range []string{
		"<h2 id=\"b9000-llp1\">", `<span class="bad">withdrawn</span>`, "It crashes &lt;on&gt; start.", `width=device-width`,
		`href="https://example.com/b8833-llp2/bin-linux-cpu-x64.tar.gz"`,
		"Linux on x86_64; glibc 2.31 or newer; a card of 8.6, 8.9; NVIDIA&#39;s driver 525.60.13 or newer; the libraries " +
			"libcudart.so.12 libcublas.so.12",
	} {
		if !bytes.Contains(all[pageFile], []byte(want)) {
			t.Errorf("the page lacks %s:\n%s", want, all[pageFile])
		}
	}
	if bytes.Contains(all[pageFile], []byte("https://example.com/b9000")) {
		t.Error("the page leads to a withdrawn archive")
	}
	var back bundle.Index
	if err := json.Unmarshal(all[indexFile], &back); err != nil || len(back.Releases) != len(x.Releases) ||
		!back.Date.Equal(x.Date) {
		t.Errorf("%v: %s", err, all[indexFile])
	}
}
