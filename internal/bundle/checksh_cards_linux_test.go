package bundle

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/golden"
)

// outcome is one machine, and the exit code that check.sh ends with there.
type outcome struct {
	name   string
	m      machine
	change func(m *machine)
	code   int
}

// kept runs check.sh on each of the machines: what it says is a golden text, the same in
// every shell.
func kept(t *testing.T, outcomes []outcome) {
	t.Helper()
	l := newLab(t)
	for _, o := range outcomes {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			if o.change != nil {
				o.change(&o.m)
			}
			out, code := o.m.judged(t, l, checkSh(t, o.m.info, nil))
			golden.Check(t, filepath.Join("testdata/linux", o.name+".golden"), fmt.Appendf(nil, "%sexit code %d\n", out, code))
			if code != o.code {
				t.Errorf("exit code %d, want %d:\n%s", code, o.code, out)
			}
		})
	}
}

// without takes files and tools off a machine.
func without(names ...string) func(m *machine) {
	return func(m *machine) {
		for _, name := range names {
			delete(m.files, name)
			m.tools[name] = ""
		}
	}
}

// says lets the server answer something else.
func says(script string) func(m *machine) {
	return func(m *machine) { m.bundle["llama-server"] = "#!/bin/sh\n" + script + "\n" }
}

func spoilt(spoil func(dir string) error) func(m *machine) {
	return func(m *machine) {
		m.spoil = func(dir string) {
			if err := spoil(dir); err != nil {
				panic(err)
			}
		}
	}
}

// cpu is a machine on which everything is right for a bundle that needs no card.
func cpu() machine { return plain(linuxCPU()) }

func TestCheckCPU(t *testing.T) {
	ik := func(flags string) machine {
		i := linuxCPU()
		i.Target, i.Options = "ik-linux-cpu", map[string]string{
			"GGML_AVX": "ON", "GGML_AVX2": "ON", "GGML_FMA": "ON",
			"GGML_F16C": "ON", "GGML_NATIVE": "OFF",
		}
		m := plain(i)
		if m.files["proc/cpuinfo"] = flags; flags == "" {
			delete(m.files, "proc/cpuinfo")
		}
		return m
	}
	const noSSL = libsAt + "libssl.so.3"
	all := []outcome{
		{"cpu", cpu(), nil, 0},
		{"cpu-from-its-folder", cpu(), func(m *machine) { m.from = "." }, 0},
		{"cpu-from-above", cpu(), func(m *machine) { m.from = ".." }, 0},
		{"cpu-changed", cpu(), spoilt(func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "LICENSES/a b.txt"), []byte("other terms"), 0o644)
		}), 1},
		{"cpu-gone", cpu(), spoilt(func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "libllama.so.0")),
				os.WriteFile(filepath.Join(dir, "LICENSES/a b.txt"), nil, 0o644))
		}), 1},
		{"cpu-not-readable", cpu(), func(m *machine) {
			m.nobody = true
			spoilt(func(dir string) error {
				return errors.Join(os.Chmod(filepath.Join(dir, "LICENSES/a b.txt"), 0),
					os.WriteFile(filepath.Join(dir, "libllama.so.0"), nil, 0o644))
			})(m)
		}, 1},
		{"cpu-links-gone", cpu(), spoilt(func(dir string) error { return os.Remove(filepath.Join(dir, "libllama.so")) }), 1},
		{"cpu-many-gone", cpu(), func(m *machine) {
			for n := range 6 {
				m.bundle[fmt.Sprintf("%d.txt", n)] = "x"
			}
			spoilt(func(dir string) error {
				var errs []error
				for n := range 6 {
					errs = append(errs, os.Remove(filepath.Join(dir, fmt.Sprintf("%d.txt", n))))
				}
				return errors.Join(errs...)
			})(m)
		}, 1},
		{"cpu-no-sums", cpu(), spoilt(func(dir string) error { return os.Remove(filepath.Join(dir, "SHA256SUMS")) }), 1},
		{"cpu-no-right-to-run", cpu(), spoilt(func(dir string) error {
			return os.Chmod(filepath.Join(dir, "llama-server"), 0o644)
		}), 1},
		{"cpu-no-sha256sum", cpu(), without("sha256sum"), 0},
		{"cpu-openssl", cpu(), func(m *machine) {
			m.tools["sha256sum"], m.tools["openssl"] = "#!/bin/sh\necho broken\n",
				"#!/bin/sh\ntest \"$*\" = 'dgst -sha256 -r' && exec /usr/bin/sha256sum\n"
		}, 0},
		{"cpu-other-machine", cpu(), func(m *machine) {
			m.tools["uname"] = strings.Replace(unameTool, "x86_64", "aarch64", 1)
		}, 1},
		{"cpu-other-system", cpu(), func(m *machine) {
			m.tools["uname"] = strings.Replace(unameTool, "Linux", "FreeBSD", 1)
		}, 1},
		{"cpu-old-glibc", cpu(), func(m *machine) {
			m.files[libsAt+"libc.so.6"] = "\x00GLIBC_2.9\x00GLIBC_2.31\x00GLIBC_2.4\x00GLIBC_PRIVATE\x00"
		}, 1},
		{"cpu-old-libstdcxx", cpu(), func(m *machine) {
			m.files[libsAt+"libstdc++.so.6"] = "\x00GLIBCXX_3.4.3\x00GLIBCXX_3.4.28\x00CXXABI_1.3.13\x00GLIBCXX_3.4.301\x00"
		}, 1},
		{"cpu-musl", cpu(), func(m *machine) {
			m.files = map[string]string{"lib/ld-musl-x86_64.so.1": "", "proc/cpuinfo": ""}
		}, 1},
		{"cpu-gcompat", cpu(), func(m *machine) {
			m.files = map[string]string{"lib/ld-musl-x86_64.so.1": "", loaderAt: "#!/bin/sh\necho started\n"}
		}, 1},
		{"cpu-no-loader", cpu(), func(m *machine) { m.files = map[string]string{} }, 1},
		{"cpu-silent-loader", cpu(), func(m *machine) {
			m.files[loaderAt], m.tools["getconf"] = silent, "#!/bin/sh\necho glibc 2.36\n"
			delete(m.files, libsAt+"libc.so.6")
		}, 0},
		{"cpu-no-glibc-known", cpu(), func(m *machine) {
			m.files[loaderAt] = silent
			delete(m.files, libsAt+"libc.so.6")
		}, 0},
		{"cpu-no-ssl-debian", cpu(), func(m *machine) {
			delete(m.files, noSSL)
			delete(m.files, libsAt+"libm.so.6")
			m.tools["apt-get"] = "#!/bin/sh\n"
		}, 1},
		{"cpu-no-ssl-fedora", cpu(), func(m *machine) { delete(m.files, noSSL); m.tools["dnf"] = "#!/bin/sh\n" }, 1},
		{"cpu-no-ssl-elsewhere", cpu(), func(m *machine) { delete(m.files, noSSL) }, 1},
		{"cpu-no-start", cpu(), says("echo 'symbol lookup error: undefined symbol: x' >&2; exit 127"), 1},
		{"cpu-hangs", cpu(), func(m *machine) {
			says("trap '' TERM; exec sleep 60")(m)
			m.env = []string{"CHECK_SECONDS=1"}
		}, 2},
		{"cpu-hangs-no-timeout", cpu(), func(m *machine) {
			says("trap '' TERM; exec sleep 60")(m)
			m.env, m.tools["timeout"] = []string{"CHECK_SECONDS=1"}, ""
		}, 2},
		{"cpu-no-timeout", cpu(), without("timeout"), 0},
		{"cpu-illegal-instruction", cpu(), says("kill -ILL $$"), 1},
		{"cpu-other-build", cpu(), func(m *machine) { m.bundle["LICENSES/answer--version"] = "version: 1 (0123456)\n" }, 1},
		{"cpu-server-gone", cpu(), func(m *machine) {
			delete(m.bundle, "llama-server")
			m.info.Sums["z"], m.bundle["z"] = "x", ""
		}, 2},
		{"ik", ik("flags\t\t: fpu avx avx2 fma f16c\nflags\t\t: fpu\n"), nil, 0},
		{"ik-old-processor", ik("flags\t\t: fpu avx f16c_not avx2x\n"), nil, 1},
		{"ik-no-cpuinfo", ik(""), nil, 0},
		{"drop-in", dropIn(), nil, 0},
		{"drop-in-at-its-place", dropIn(), func(m *machine) {
			m.bundle["LICENSES/answer--version"], m.bundle["LICENSES/answer--list-devices"] = "version: 8833 (0123456)\n",
				lists("8.6")
			spoilt(func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "llama-server"), []byte(serverTool), 0o755)
			})(m)
		}, 0},
	}
	if os.Getuid() == 0 {
		all = append(all, outcome{"cpu-barred", cpu(), func(m *machine) {
			m.nobody = true
			spoilt(func(dir string) error { return os.Chmod(filepath.Join(dir, "llama-server"), 0o744) })(m)
		}, 1})
	} else {
		t.Log("what another user may not run did not run here: that takes root")
	}
	kept(t, all)
}

// cards86 is what [verify.cuda] of linux-cuda comes to, in short.
func cards86() *binary.Verdict {
	return &binary.Verdict{
		Newer: true, Driver: &binary.Driver{Version: "525.60.13", CUDA: "12.0"},
		JIT: &binary.Driver{Version: "550.54.14", CUDA: "12.4"},
		Cards: []binary.Card{
			{Capability: "7.5", By: []string{"sm_75"}},
			{Capability: "8.6", By: []string{"sm_80", "sm_86"}},
			{Capability: "8.7", By: []string{"sm_80"}, Missing: 1},
			{Capability: "9.0", By: []string{"compute_86"}, JIT: true},
		},
	}
}

// smi is nvidia-smi with a driver and cards: name, capability, free and whole memory.
func smi(driver string, cards ...[4]string) string {
	rows, kinds := "", ""
	for i, c := range cards {
		rows += fmt.Sprintf("%d, GPU-0000000%d, %s, %s, %s, %s\n", i, i, driver, c[2], c[3], c[0])
		kinds += fmt.Sprintf("%d, %s\n", i, c[1])
	}
	return "#!/bin/sh\ncase $* in\n*index,uuid,driver_version*) cat <<'E'\n" + rows + "E\n;;\n*index,compute_cap*) " +
		"cat <<'E'\n" + kinds + "E\n;;\n'') echo '| NVIDIA-SMI " + driver + "   Driver Version: " + driver +
		"   CUDA Version: 12.4     |' ;;\nesac\n"
}

// lists is what llama-server --list-devices of b8833 prints of cards of these capabilities.
func lists(kinds ...string) string {
	seen, devices := "", "Available devices:\n"
	for i, kind := range kinds {
		seen += fmt.Sprintf("  Device %d: NVIDIA GeForce, compute capability %s, VMM: yes, VRAM: 24109 MiB\n", i, kind)
		devices += fmt.Sprintf("  CUDA%d: NVIDIA GeForce (24109 MiB, 20000 MiB free)\n", i)
	}
	return "ggml_cuda_init: found CUDA devices:\n" + seen +
		"load_backend: loaded CUDA backend from /x/libggml-cuda.so\n" + devices
}

var (
	rtx3090 = [4]string{"NVIDIA GeForce RTX 3090", "8.6", "20000", "24576"}
	gtx1080 = [4]string{"NVIDIA GeForce GTX 1080", "6.1", "8000", "8192"}
	h100    = [4]string{"NVIDIA H100 80GB HBM3", "9.0", "80000", "81559"}
)

// nvidia gives a machine a card and its driver.
func nvidia(m *machine) {
	maps.Copy(m.files, map[string]string{
		libsAt + "libcuda.so.1": "", "dev/nvidiactl": "",
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.28.03  Release Build  " +
			"(dvs-builder@U22-I3-AE18-23-3)  Sat May 24 07:03:13 UTC 2025\nGCC version:  gcc version 12.3.0\n",
	})
	m.tools["nvidia-smi"] = smi("560.28.03", rtx3090)
}

// dropIn is a library for NVIDIA's cards that is not beside its programs yet.
func dropIn() machine {
	i := linuxCPU()
	f := fileOf("libggml-cuda.so", "libggml-base.so.0", "libcudart.so.12", "libc.so.6")
	i.Target, i.DropIn, i.Files, i.Sums = "linux-cuda", f.Name, []*binary.File{f}, map[string]string{f.Name: "x"}
	i.Needs, i.CUDA = binary.Outside(i.Files), cards86()
	m := plain(i)
	nvidia(&m)
	m.files[libsAt+"libcudart.so.12"] = ""
	delete(m.bundle, "llama-server")
	delete(m.bundle, "libllama.so.0")
	return m
}

// drives gives a machine cards with a driver, and lets the server see such ones.
func drives(driver string, seen []string, cards ...[4]string) func(m *machine) {
	return func(m *machine) {
		m.tools["nvidia-smi"], m.bundle["LICENSES/answer--list-devices"] = smi(driver, cards...), lists(seen...)
	}
}

// cuda is a machine on which everything is right for a bundle for NVIDIA's cards.
func cuda() machine {
	i := linuxCPU().with("linux-cuda", fileOf("libggml-cuda.so", "libcudart.so.12", "libcublas.so.12", "libcuda.so.1",
		"libc.so.6"))
	i.Runtime, i.CUDA = "thin", cards86()
	i.Symbols = maps.Clone(i.Symbols)
	i.Symbols["libcublas.so.12"] = []string{"libcublas.so.12"}
	m := plain(i)
	nvidia(&m)
	m.files[libsAt+"libcudart.so.12"], m.files[libsAt+"libcublas.so.12"] = "", ""
	m.bundle["LICENSES/answer--list-devices"] = lists("8.6")
	return m
}

func TestCheckCUDA(t *testing.T) {
	byCUDA := func(version string) func(m *machine) {
		return func(m *machine) { m.info.CUDA.Driver = &binary.Driver{CUDA: version} }
	}
	const noBLAS = libsAt + "libcublas.so.12"
	kept(t, []outcome{
		{"cuda", cuda(), nil, 0},
		{"cuda-by-ptx", cuda(), drives("560.28.03", []string{"9.0"}, h100), 0},
		{"cuda-old-driver-for-ptx", cuda(), drives("535.154.05", []string{"9.0"}, h100), 1},
		{"cuda-newer-card", cuda(), drives("560.28.03", []string{"13.2"},
			[4]string{"NVIDIA Next", "13.2", "[N/A]", "[N/A]"}), 0},
		{"cuda-in-part", cuda(), drives("560.28.03", []string{"8.7"}, [4]string{"Orin", "8.7", "1", "2"}), 1},
		{"cuda-no-driver", cuda(), without(libsAt+"libcuda.so.1", "nvidia-smi", "proc/driver/nvidia/version",
			"dev/nvidiactl"), 1},
		{"cuda-old-driver", cuda(), drives("470.256.02", []string{"8.6"}, rtx3090), 1},
		{"cuda-driver-by-cuda", cuda(), byCUDA("12.4"), 0},
		{"cuda-old-driver-by-cuda", cuda(), byCUDA("13.9"), 1},
		{"cuda-driver-not-compared", cuda(), func(m *machine) { byCUDA("13.9")(m); m.tools["nvidia-smi"] = "" }, 0},
		{"cuda-any-driver", cuda(), func(m *machine) { m.info.CUDA.Driver = nil }, 0},
		{"cuda-any-driver-none", cuda(), func(m *machine) {
			m.info.CUDA.Driver = nil
			without(libsAt+"libcuda.so.1", "nvidia-smi", "proc/driver/nvidia/version")(m)
		}, 1},
		{"cuda-driver-renewed", cuda(), func(m *machine) {
			m.tools["nvidia-smi"] = "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"
		}, 1},
		{"cuda-no-libcuda", cuda(), without(libsAt + "libcuda.so.1"), 1},
		{"cuda-no-smi", cuda(), without("nvidia-smi"), 0},
		{"cuda-driver-unknown", cuda(), without("nvidia-smi", "proc/driver/nvidia/version", "dev/nvidiactl"), 0},
		{"cuda-smi-hangs", cuda(), func(m *machine) {
			m.tools["nvidia-smi"], m.env = hanging, []string{"CHECK_SECONDS=1"}
		}, 0},
		{"cuda-other-card", cuda(), drives("560.28.03", []string{"6.1"}, gtx1080), 1},
		{"cuda-other-card-no-smi", cuda(), func(m *machine) {
			m.tools["nvidia-smi"], m.bundle["LICENSES/answer--list-devices"] = "", lists("6.1")
		}, 1},
		{"cuda-two-cards", cuda(), drives("560.28.03", []string{"8.6", "6.1"}, rtx3090, gtx1080), 0},
		{"cuda-two-cards-one-hidden", cuda(), func(m *machine) {
			drives("560.28.03", []string{"8.6"}, gtx1080, rtx3090)(m)
			m.env = []string{"CUDA_VISIBLE_DEVICES=1"}
		}, 0},
		{"cuda-hidden", cuda(), func(m *machine) {
			drives("560.28.03", nil, rtx3090)(m)
			m.env = []string{"CUDA_VISIBLE_DEVICES="}
		}, 0},
		{"cuda-sees-none", cuda(), drives("560.28.03", nil, rtx3090), 1},
		{"cuda-capability-unknown", cuda(), func(m *machine) {
			m.tools["nvidia-smi"] = strings.Replace(smi("560.28.03", rtx3090), "*index,compute_cap*)",
				"*index,compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2 ;;\nnever)", 1)
			m.bundle["LICENSES/answer--list-devices"] = "Available devices:\n  CUDA0: NVIDIA GeForce (24109 MiB, 20000 " +
				"MiB free)\n"
		}, 2},
		{"cuda-full-card", cuda(), drives("560.28.03", []string{"8.6"},
			[4]string{"NVIDIA GeForce RTX 3090", "8.6", "300", "24576"}), 0},
		{"cuda-not-yours", cuda(), func(m *machine) { m.nobody, m.shut = true, "dev/nvidiactl" }, 1},
		{"cuda-no-libraries", cuda(), func(m *machine) {
			without(libsAt+"libcudart.so.12", noBLAS)(m)
			m.tools["apt-get"] = "#!/bin/sh\n"
		}, 1},
		{"cuda-libraries-in-the-toolkit", cuda(), func(m *machine) {
			delete(m.files, noBLAS)
			m.files["usr/local/cuda-12.4/lib64/libcublas.so.12"] = ""
			m.env = []string{"LD_LIBRARY_PATH=ROOT/other"}
		}, 1},
		{"rocm", able(), nil, 0},
		{"rocm-no-library", able(), func(m *machine) {
			without("opt/known/lib/libhipblas.so.2", "opt/known/lib/librocblas.so.4")(m)
			m.tools["apt-get"] = "#!/bin/sh\n"
		}, 1},
		{"rocm-library-in-the-toolkit", able(), func(m *machine) {
			without("opt/known/lib/librocblas.so.4")(m)
			m.files["opt/rocm-6.4.1/lib/librocblas.so.4"] = ""
		}, 1},
		{"rocm-in-core", able(), func(m *machine) {
			const at = "opt/rocm/core-7.14/lib/"
			for _, lib := range []string{"libamdhip64.so.6", "libhipblas.so.2", "librocblas.so.4"} {
				delete(m.files, "opt/known/lib/"+lib)
				m.files[at+lib] = ""
			}
			m.also, m.files[at+"libhipblaslt.so.1"] = "libhipblaslt.so.1", ""
		}, 1},
		{"cuda-libraries-in-two-toolkits", cuda(), func(m *machine) {
			without(libsAt+"libcudart.so.12", noBLAS)(m)
			m.files["usr/local/cuda-12.2/lib64/libcudart.so.12"] = ""
			m.files["usr/local/cuda-12.4/lib64/libcublas.so.12"] = ""
		}, 1},
		{"rocm-no-driver", able(), without("dev/kfd"), 1},
	})
}
