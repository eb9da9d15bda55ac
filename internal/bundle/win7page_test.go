package bundle

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/spec"
)

// What the user of Windows 7 is told, for each kind of bundle: plain ASCII, lines that
// fit into a window, and only what that bundle needs.
func TestWin7Page(t *testing.T) {
	files := []*binary.File{{Name: "llama-server.exe"}, {Name: "ggml.dll"}, {Name: "llama-cli.exe"}}
	base := Info{Upstream: spec.LlamaCpp, Tag: "b8833", Build: 8833, Version: "45cac7ca7-llp1", Files: files, WebUI: true}
	cpu, cuda := base, base
	cpu.Windows, cpu.Needs = spec.Win7, []string{"ADVAPI32.dll", "KERNEL32.dll", "WS2_32.dll", "msvcrt.dll"}
	cuda.Windows, cuda.Runtime, cuda.NVIDIA = spec.Win7VxKex, spec.Thin,
		nvidiaDLLs([]string{"cudart64_110.dll", "KERNEL32.dll", "cublas64_11.dll", "nvcuda.dll"},
			[]string{"cudart64_110.dll", "libcudart.so.*"})
	cuda.CUDA = &binary.Verdict{Cards: []binary.Card{{
		Capability: "8.6", Generation: "Ampere", Products: "RTX 3060",
		By: []string{"sm_86"}, Fatbins: 1,
	}}}
	cuda.Notes = []string{"It was built on Linux – and tried on no card."}
	full, drop, signed := cuda, cuda, cpu
	full.Runtime, full.WebUI = spec.Full, false
	drop.DropIn, drop.Files = "ggml-cuda.dll", []*binary.File{{Name: "ggml-cuda.dll"}}
	signed.Signer, signed.Options = "Makers, Inc", map[string]string{"LLAMA_OPENSSL": "ON"}
	for name, c := range map[string]struct {
		info      Info
		has, lack []string
	}{
		"cpu": {cpu, []string{
			"no update, no VxKex", "HTTPS is not in", "The web page of llama-server is in",
			"have no signature", "certutil -hashfile",
		}, []string{"KexCfg", "NVIDIA", "KB2533623", "R470", "router"}},
		"cuda": {cuda, []string{
			`"C:\Program Files\VxKex\KexCfg.exe" /EXE:"C:\llama\llama-server.exe" /ENABLE:TRUE`,
			"KB2533623 and KB2670838", "VxKex NEXT 1.2.1", "until August 2027", "i486/VxKex", "needs a driver of branch R515",
			"issue 92", "cublas64_11.dll, cublasLt64_11.dll, cudart64_110.dll", "452.39", "Linux ? and",
			"\"no usable GPU found\"", "http://127.0.0.1:8080/ answers",
		}, []string{"no VxKex", "HKLM", "HKEY", "reg add"}},
		"full": {
			full,
			[]string{"are inside", "is not in, its API is", "8080/v1, it has no page) answers"},
			[]string{"toolkit-archive"},
		},
		"dropin": {
			drop,
			[]string{"This is ggml-cuda.dll alone", "KB2999226", "KexCfg"},
			[]string{"start-server.cmd", "The web page"},
		},
		"signed": {
			signed,
			[]string{"signed by Makers, Inc", "HTTPS is in", "certmgr.msc"},
			[]string{"no signature", "cannot download"},
		},
	} {
		got := c.info.win7Page()
		golden.Check(t, filepath.Join("testdata/windows", "readme-"+name+".golden"), got)
		flat := strings.Join(strings.Fields(string(got)), " ")
		for _, want := range c.has {
			if !strings.Contains(flat, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
		for _, not := range c.lack {
			if strings.Contains(flat, not) {
				t.Errorf("%s: has %q", name, not)
			}
		}
		if bytes.ContainsFunc(got, func(r rune) bool {
			return r > '~' || r < ' ' && r != '\r' && r != '\n'
		}) || bytes.Count(got, []byte("\n")) != bytes.Count(got, []byte("\r\n")) {
			t.Errorf("%s: not plain ASCII with the line ends of Windows", name)
		}
		for line := range strings.SplitSeq(string(got), "\r\n") {
			if len(line) > 90 {
				t.Errorf("%s: a line of %d: %s", name, len(line), line)
			}
		}
	}
	if got := string(bundlePage(cuda)); !strings.Contains(got, "SHA256SUMS: check-win7.cmd compares") ||
		strings.Contains(got, "sha256sum") {
		t.Errorf("README.md of a zip for Windows:\n%s", got)
	}
	if got := string(bundlePage(Info{})); !strings.Contains(got, "SHA256SUMS: `sha256sum -c SHA256SUMS`") {
		t.Errorf("README.md:\n%s", got)
	}
	if got := nvidiaDLLs([]string{"msvcrt.dll", "CUDART64_110.dll"}, nil); !slices.Equal(got,
		[]string{"CUDART64_110.dll"}) {
		t.Errorf("%q", got)
	}
}
