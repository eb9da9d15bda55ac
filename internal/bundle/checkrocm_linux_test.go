package bundle

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

const (
	// As rocminfo of ROCm 6.4 prints agents: the processor, a card, and what is in the processor.
	rocminfo = "#!/bin/sh\ncat <<E\n*******\nAgent 1\n  Name:                    AMD Ryzen 9 9950X\n  Marketing Name:  " +
		"        AMD Ryzen 9 9950X\nAgent 2\n  Name:                    gfx1201\n  Marketing Name:          AMD Radeon RX " +
		"9070 XT\n    Name:                    amdgcn-amd-amdhsa--gfx1201\nIGPU\nE\n"
	amdSMI = "#!/bin/sh\ntest \"$1 $2\" = 'metric --mem-usage' || exit 1\ncat <<E\nGPU: 0\n    MEM_USAGE:\n        " +
		"TOTAL_VRAM: 16304 MB\n        USED_VRAM: USED MB\n        FREE_VRAM: 1 MB\nE\n"
	// A program that does not come to an end.
	hanging = "#!/bin/sh\ntrap '' TERM\nexec sleep 60\n"
)

// nodes gives the machine cards as the driver alone knows them, such as 120001, each with its
// memory and what is used of it in MiB; the processor is node 0, and node N's device renderD127+N.
func (m *machine) nodes(cards ...[3]int) {
	delete(m.tools, "rocminfo")
	m.files["sys/class/kfd/kfd/topology/nodes/0/properties"] = "cpu_cores_count 16\ngfx_target_version 0\n"
	for i, c := range cards {
		m.files[fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", i+
			1)] = fmt.Sprintf("gfx_target_version %d\ndrm_render_minor %d\n", c[0], 128+i)
		device := fmt.Sprintf("sys/class/drm/renderD%d/device/", 128+i)
		m.files[device+"mem_info_vram_total"], m.files[device+"mem_info_vram_used"] = fmt.Sprintf("%d\n", c[1]<<20),
			fmt.Sprintf("%d\n", c[2]<<20)
	}
}

// rocm is a bundle for AMD's cards.
func rocm() Info {
	return linuxCPU().with("rocm-gfx1201", fileOf("libggml-hip.so", "libamdhip64.so.6", "libhipblas.so.2",
		"librocblas.so.4", "libc.so.6"))
}

// able is a machine on which everything is right for the bundle for AMD's cards.
func able() machine {
	m := plain(rocm())
	maps.Copy(m.files, map[string]string{
		"dev/kfd": "", "dev/dri/renderD128": "", "dev/dri/renderD129": "", "dev/dri/renderD130": "",
		"sys/module/amdgpu/version":      "6.12.12\n",
		"opt/known/lib/libamdhip64.so.6": "", "opt/known/lib/libhipblas.so.2": "", "opt/known/lib/librocblas.so.4": "",
		"opt/known/lib/rocblas/library/TensileLibrary_gfx1201.dat": "",
	})
	m.tools["rocminfo"], m.tools["amd-smi"] = strings.Replace(rocminfo, "IGPU\n", "", 1),
		strings.Replace(amdSMI, "USED MB", "300 MB", 1)
	m.bundle["LICENSES/answer--list-devices"] = "load_backend: loaded ROCm backend\nAvailable devices:\n  ROCm0: AMD " +
		"Radeon RX 9070 XT (16304 MiB, 16004 MiB free)\n"
	return m
}

// The advice is one sentence, the last line; exit code 0 means that it can run.
func TestCheckROCm(t *testing.T) {
	l := newLab(t)
	const one = "gfx1201"
	const igpu = "Agent 3\n  Name:                    gfx1036\n"
	old, new, inside := [3]int{110000, 24560, 60}, [3]int{120001, 16304, 300}, [3]int{100306, 512, 20}
	cards := func(env string, cards ...[3]int) func(m *machine) {
		return func(m *machine) {
			m.nodes(cards...)
			if env != "" {
				m.env = strings.Split(env, " ")
			}
		}
	}
	smi := func(total, used string) func(m *machine) {
		return func(m *machine) {
			m.tools["amd-smi"] = strings.NewReplacer("16304 MB", total, "USED MB", used).Replace(amdSMI)
		}
	}
	lt := func(kernels string) func(m *machine) { // a rocBLAS that needs hipBLASLt, which has these
		return func(m *machine) {
			m.also, m.files["own/lib/libhipblaslt.so.1"], m.files[kernels] = "libhipblaslt.so.1", "", ""
			m.env = []string{"LD_LIBRARY_PATH=ROOT/own/lib"}
		}
	}
	for name, c := range map[string]struct {
		change func(m *machine)
		gfx    string
		code   int
		facts  []string
		advice string
	}{
		"all is right": {
			func(m *machine) {
				m.from = "."
			}, one, 0,
			[]string{
				"cards:         gfx1201", "iGPU visible:  none", "free VRAM:     16004 of 16304 MiB",
				"driver:        amdgpu 6.12.12", "rocBLAS has:   kernels for gfx1201",
			},
			"It can run here: ./llama-server -m MODEL.gguf -ngl 99",
		},
		"an iGPU": {func(m *machine) {
			m.tools["rocminfo"] = strings.Replace(rocminfo, "IGPU\n", igpu, 1)
		}, one, 0, []string{"cards:         gfx1201 gfx1036", "iGPU visible:  gfx1036"}, "export HIP_VISIBLE_DEVICES=0"},
		"an iGPU first": {func(m *machine) {
			m.tools["rocminfo"] = strings.Replace(strings.Replace(rocminfo, "Agent 2\n", igpu+"Agent 2\n", 1), "IGPU\n", "", 1)
		}, one, 0, nil, "export HIP_VISIBLE_DEVICES=1"},
		"an iGPU that is hidden": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(rocminfo, "IGPU\n", igpu, 1), []string{"HIP_VISIBLE_DEVICES=0"}
		}, one, 0, nil, "It can run here"},
		"no driver": {func(m *machine) {
			delete(m.files, "dev/kfd")
		}, one, 1, []string{"driver:        none"}, "There is no /dev/kfd"},
		"another card": {func(m *machine) {
			m.tools["rocminfo"] = strings.ReplaceAll(able().tools["rocminfo"], "gfx1201", "gfx1100")
		}, one, 1, nil, "hold nothing for your gfx1100"},
		"a generic target": {func(m *machine) {
			m.tools["rocminfo"] = strings.ReplaceAll(able().tools["rocminfo"], "gfx1201", "gfx1200")
		}, "gfx1100 gfx12-generic", 0, nil, "no kernels for gfx1200"},
		"only an iGPU": {func(m *machine) {
			m.tools["rocminfo"] = strings.ReplaceAll(able().tools["rocminfo"], "gfx1201", "gfx1151")
		}, "gfx1151", 0, nil, "no kernels for gfx1151"},
		"no rocminfo": {func(m *machine) {
			delete(m.tools, "rocminfo")
			m.files["sys/class/kfd/kfd/topology/nodes/0/properties"] = "cpu_cores_count 16\ngfx_target_version 0\n"
			m.files["sys/class/kfd/kfd/topology/nodes/1/properties"] = "gfx_target_version 120001\n"
			m.files["sys/class/kfd/kfd/topology/nodes/2/properties"] = "gfx_target_version 90012\n"
		}, one, 0, []string{"cards:         gfx1201 gfx90c"}, "export HIP_VISIBLE_DEVICES=0"},
		"no amd-smi": {func(m *machine) {
			delete(m.tools, "amd-smi")
			m.files["sys/class/drm/card1/device/mem_info_vram_total"],
				m.files["sys/class/drm/card1/device/mem_info_vram_used"] = "17095983104\n", "15000000000\n"
		}, one, 0, []string{"free VRAM:     1998 of 16304 MiB"}, "other programs hold most of the card's memory"},
		"a full card": {func(m *machine) {
			m.tools["amd-smi"] = strings.Replace(amdSMI, "USED MB", "16000 MB", 1)
		}, one, 0, []string{"free VRAM:     304 of 16304 MiB"}, "other programs hold most of the card's memory"},
		"no card": {func(m *machine) {
			m.tools["rocminfo"] = "#!/bin/sh\nexit 1\n"
		}, one, 1, nil, "shows no card"},
		"no library": {func(m *machine) {
			delete(m.files, "opt/known/lib/librocblas.so.4")
		}, one, 1, nil, "Libraries are missing (librocblas.so.4): install the packages that have librocblas.so.4, or take " +
			"AMD's ROCm with libraries of these names"},
		"Debian's rocBLAS": {func(m *machine) {
			delete(m.files, "opt/known/lib/rocblas/library/TensileLibrary_gfx1201.dat")
		}, one, 0, nil, "rocBLAS here has no kernels for gfx1201"},
		"a card without code": {cards("", old, new), one, 0, []string{
			"cards:         gfx1100 gfx1201",
			"iGPU visible:  none",
		}, "no code for, gfx1100: export HIP_VISIBLE_DEVICES=1"},
		"the same, hidden":   {cards("HIP_VISIBLE_DEVICES=1", old, new), one, 0, nil, "It can run here"},
		"the same, seen too": {cards("HIP_VISIBLE_DEVICES=1,0", old, new), one, 0, nil, "export HIP_VISIBLE_DEVICES=1"},
		"the wrong one hidden": {
			cards("HIP_VISIBLE_DEVICES=0", old, new), one, 0, nil,
			"hides every card that it has code for: export HIP_VISIBLE_DEVICES=1",
		},
		"all are hidden": {
			cards("HIP_VISIBLE_DEVICES=-1", new), one, 0, nil,
			"hides every card that it has code for: export HIP_VISIBLE_DEVICES=0",
		},
		"behind one that is not": {
			cards("HIP_VISIBLE_DEVICES=7,0", new), one, 0, nil,
			"hides every card that it has code for: export HIP_VISIBLE_DEVICES=0",
		},
		"a number that no shell knows": {
			cards("HIP_VISIBLE_DEVICES=99999999999999999999", old, new), one, 0, nil,
			"hides every card that it has code for: export HIP_VISIBLE_DEVICES=1",
		},
		"a number with a zero":   {cards("HIP_VISIBLE_DEVICES=01", old, new), one, 0, nil, "It can run here"},
		"an empty list is none":  {cards("HIP_VISIBLE_DEVICES=", new), one, 0, nil, "It can run here"},
		"ROCr hides the old one": {cards("ROCR_VISIBLE_DEVICES=1", old, new), one, 0, nil, "It can run here"},
		"ROCr hides, HIP counts": {
			cards("ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0", old, new), one, 0, nil,
			"It can run here",
		},
		"ROCr hides the right one": {
			cards("ROCR_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=0", old, new), one, 0, nil,
			"unset ROCR_VISIBLE_DEVICES; export HIP_VISIBLE_DEVICES=1",
		},
		"a card by its name": {cards("HIP_VISIBLE_DEVICES=GPU-1f0e", old, new), one, 0, nil, "export HIP_VISIBLE_DEVICES=1"},
		"the right one by its name": {func(m *machine) {
			cards("HIP_VISIBLE_DEVICES=GPU-00000000000000ff", old, new)(m)
			m.files["sys/class/kfd/kfd/topology/nodes/1/properties"] += "unique_id 254\n"
			m.files["sys/class/kfd/kfd/topology/nodes/2/properties"] += "unique_id 255\n"
		}, one, 0, nil, "It can run here"},
		"the wrong one by its name": {func(m *machine) {
			cards("ROCR_VISIBLE_DEVICES=GPU-f2a1b2c3d4e5f607", old, new)(m)
			m.files["sys/class/kfd/kfd/topology/nodes/1/properties"] += "unique_id 17483451782589183495\n" // more than 63 bits
			m.files["sys/class/kfd/kfd/topology/nodes/2/properties"] += "unique_id 255\n"
		}, one, 0, nil, "hides every card that it has code for: unset ROCR_VISIBLE_DEVICES; export HIP_VISIBLE_DEVICES=1"},
		"a name that no card has": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(able().tools["rocminfo"], "Marketing Name:          AMD Radeon",
				"Uuid:                    GPU-1f0e5a5a00112233\n  Marketing Name:          AMD Radeon", 1),
				[]string{"HIP_VISIBLE_DEVICES=GPU-1f0e"}
		}, one, 0, nil, "hides every card that it has code for: export HIP_VISIBLE_DEVICES=0"},
		"rocminfo's name": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(able().tools["rocminfo"], "Marketing Name:          AMD Radeon",
				"Uuid:                    GPU-1f0e5a5a00112233\n  Marketing Name:          AMD Radeon", 1),
				[]string{"HIP_VISIBLE_DEVICES=GPU-1f0e5a5a00112233"}
		}, one, 0, nil, "It can run here"},
		"a name and three cards": {func(m *machine) {
			m.tools["rocminfo"], m.env = "#!/bin/sh\nprintf '  %s\\n' 'Uuid:   GPU-1f0e5a5a00112233' 'Name:   gfx1201' "+
				"'Name:   gfx1100' 'Name:   gfx1100'\n", []string{"HIP_VISIBLE_DEVICES=GPU-1f0e5a5a00112233"}
		}, one, 0, []string{"cards:         gfx1201 gfx1100 gfx1100"}, "It can run here"},
		"cards without names": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(able().tools["rocminfo"], "Marketing Name:          AMD Radeon",
				"Uuid:                    GPU-XX\n  Marketing Name:          AMD Radeon", 1),
				[]string{"HIP_VISIBLE_DEVICES=GPU-1f0e"}
		}, one, 0, nil, "It can run here"},
		"rocminfo sees them all": {func(m *machine) {
			m.tools["rocminfo"], m.env = "#!/bin/sh\ntest -z \"$ROCR_VISIBLE_DEVICES\" && echo '  Name:   gfx1100'\necho '  "+
				"Name:   gfx1201'\n", []string{"ROCR_VISIBLE_DEVICES=1"}
		}, one, 0, []string{"cards:         gfx1100 gfx1201"}, "It can run here"},
		"an iGPU and two cards": {
			cards("", inside, new, new), one, 0,
			[]string{"iGPU visible:  gfx1036"},
			"export HIP_VISIBLE_DEVICES=1,2",
		},
		"one of two cards": {
			cards("HIP_VISIBLE_DEVICES=2", inside, new, new), one, 0,
			[]string{"iGPU visible:  none"},
			"It can run here",
		},
		"a larger card": {
			cards("HIP_VISIBLE_DEVICES=1", old, [3]int{120001, 16304, 15000}), one, 0,
			[]string{"free VRAM:     1304 of 16304 MiB"},
			"other programs hold most of the card's memory",
		},
		"a larger card, amd-smi": {func(m *machine) {
			m.tools["rocminfo"], m.env = "#!/bin/sh\nprintf '  Name:   gfx1%s\\n' 100 201\n", []string{"HIP_VISIBLE_DEVICES=1"}
			m.tools["amd-smi"] = "#!/bin/sh\nfor i in '0 24560' '1 16304'; do set -- $i; printf 'GPU: %s\\nTOTAL_VRAM: %s " +
				"MB\\nUSED_VRAM: 304 MB\\n' $1 $2; done\n"
		}, one, 0, []string{"free VRAM:     16000 of 16304 MiB"}, "It can run here"},
		"amd-smi without numbers": {smi("N/A", "N/A"), one, 0, []string{"free VRAM:     not known"}, "It can run here"},
		"amd-smi without a use": {
			smi("16304 MB", "N/A"), one, 0,
			[]string{"free VRAM:     not known"},
			"It can run here",
		},
		"amd-smi in GB": {
			smi("16 GB", "0.5 GB"), one, 0,
			[]string{"free VRAM:     15872 of 16384 MiB"},
			"It can run here",
		},
		"amd-smi in something else": {smi("16 XB", "1 XB"), one, 0, []string{"free VRAM:     not known"}, "It can run here"},
		"ROCm's tools hang": {func(m *machine) {
			m.nodes(new)
			delete(m.files, "sys/class/drm/renderD128/device/mem_info_vram_total")
			m.tools["rocminfo"], m.tools["amd-smi"], m.env = hanging, hanging, []string{"CHECK_SECONDS=1"}
		}, one, 0, []string{"cards:         gfx1201", "free VRAM:     not known"}, "It can run here"},
		"no timeout": {func(m *machine) {
			m.nodes(new)
			m.tools["rocminfo"], m.tools["amd-smi"], m.tools["timeout"], m.env = hanging, hanging, "",
				[]string{"CHECK_SECONDS=1"}
		}, one, 0, []string{"cards:         gfx1201", "free VRAM:     16004 of 16304 MiB"}, "It can run here"},
		"kernels of another rocBLAS": {func(m *machine) {
			delete(m.files, "opt/known/lib/rocblas/library/TensileLibrary_gfx1201.dat")
			m.files["opt/rocm-5.0/lib/rocblas/library/TensileLibrary_gfx1201.dat"] = ""
		}, one, 0, []string{"rocBLAS has:   no kernels for gfx1201"}, "rocBLAS here has no kernels for gfx1201"},
		"kernels beside one's own": {func(m *machine) {
			delete(m.files, "opt/known/lib/rocblas/library/TensileLibrary_gfx1201.dat")
			m.files["own/lib/librocblas.so.4"], m.files["own/lib/rocblas/library/TensileLibrary_gfx1201.dat"] = "", ""
			m.env = []string{"LD_LIBRARY_PATH=ROOT/own/lib"}
		}, one, 0, []string{"rocBLAS has:   kernels for gfx1201"}, "It can run here"},
		"hipBLASLt's kernels": {
			lt("own/lib/hipblaslt/library/TensileLibrary_lazy_gfx1201.dat"), one, 0,
			[]string{"rocBLAS has:   kernels for gfx1201", "hipBLASLt has: kernels for gfx1201"},
			"It can run here",
		},
		"hipBLASLt's kernels in a folder": {
			lt("own/lib/hipblaslt/library/gfx1201/Kernels.so-000-gfx1201.hsaco"), one, 0,
			[]string{"hipBLASLt has: kernels for gfx1201"},
			"It can run here",
		},
		"hipBLASLt has none": {
			lt("own/lib/hipblaslt/library/TensileLibrary_lazy_gfx1100.dat"), one, 0,
			[]string{"hipBLASLt has: no kernels for gfx1201: lines with 'rocblaslt error' are harmless, and rocBLAS uses its own"},
			"It can run here",
		},
		"no device": {
			func(m *machine) {
				m.nodes(new)
				delete(m.files, "dev/dri/renderD128")
			}, one, 1,
			[]string{"device:        no /dev/dri/renderD128"},
			"There is no /dev/dri/renderD128, which the card is used by",
		},
		"no device at all": {
			func(m *machine) {
				maps.DeleteFunc(m.files, func(name, _ string) bool { return strings.HasPrefix(name, "dev/dri/") })
			}, one, 1,
			[]string{"device:        no /dev/dri/renderD*"},
			"There is no /dev/dri/renderD*, which the card is used by",
		},
		"the server sees none": {func(m *machine) {
			m.bundle["LICENSES/answer--list-devices"] = "Available devices:\n"
		}, one, 1, []string{"llama-server:  sees 0 cards"}, "they see no card: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := able()
			if c.change != nil {
				c.change(&m)
			}
			out, code := m.judged(t, l, checkSh(t, m.info, func(r *spec.Recipe) {
				if err := r.SetGFX(strings.ReplaceAll(c.gfx, " ", ",")); err != nil {
					t.Fatal(err)
				}
			}))
			lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
			if code != c.code || !strings.Contains(lines[len(lines)-1], c.advice) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.advice, out)
			}
			for _, fact := range c.facts {
				if !strings.Contains(out, fact+"\n") {
					t.Errorf("no %q:\n%s", fact, out)
				}
			}
		})
	}
}

// A device that is there and another's is said to be so.
func TestCheckROCmRights(t *testing.T) {
	m, l := able(), newLab(t)
	m.nobody = true
	for file, want := range map[string]string{
		"dev/kfd":            "You may not use /dev/kfd: sudo usermod -aG render,video ",
		"dev/dri/renderD128": "You may not use /dev/dri/renderD128: sudo usermod -aG render,video ",
	} {
		m.shut = file
		if out, code := m.judged(t, l, checkSh(t, m.info, nil)); code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want 1 with %q:\n%s", code, want, out)
		}
	}
}
