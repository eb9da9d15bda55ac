package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch/internal/spec"
)

// machine is an invented machine for a bundle's check script.
type machine struct {
	files map[string]string // below the root; "-" is a folder
	tools map[string]string // programs on the PATH
	env   []string          // ROOT in it is the root
	bare  bool              // nothing else is on the PATH but what the script needs: no timeout
}

const (
	// As rocminfo of ROCm 6.4 prints agents: the processor, a card, and what is in the processor.
	rocminfo = "#!/bin/sh\ncat <<E\n*******\nAgent 1\n  Name:                    AMD Ryzen 9 9950X\n  Marketing Name:          AMD Ryzen 9 9950X\nAgent 2\n  Name:                    gfx1201\n  Marketing Name:          AMD Radeon RX 9070 XT\n    Name:                    amdgcn-amd-amdhsa--gfx1201\nIGPU\nE\n"
	amdSMI   = "#!/bin/sh\ntest \"$1 $2\" = 'metric --mem-usage' || exit 1\ncat <<E\nGPU: 0\n    MEM_USAGE:\n        TOTAL_VRAM: 16304 MB\n        USED_VRAM: USED MB\n        FREE_VRAM: 1 MB\nE\n"
	// A program that does not come to an end, and a timeout that has no patience with it.
	hanging   = "#!/bin/sh\ntrap '' TERM\nsleep 60\n"
	impatient = "#!/bin/sh\nfor a; do shift; case $a in 10) break ;; esac; done\nexec /usr/bin/timeout -s KILL 0.2 \"$@\"\n"
)

// nodes gives the machine cards as the driver alone knows them, such as 120001, each with its
// memory and what is used of it in MiB; the processor is node 0, and node N's device renderD127+N.
func (m *machine) nodes(cards ...[3]int) {
	delete(m.tools, "rocminfo")
	m.files["sys/class/kfd/kfd/topology/nodes/0/properties"] = "cpu_cores_count 16\ngfx_target_version 0\n"
	for i, c := range cards {
		m.files[fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", i+1)] = fmt.Sprintf("gfx_target_version %d\ndrm_render_minor %d\n", c[0], 128+i)
		device := fmt.Sprintf("sys/class/drm/renderD%d/device/", 128+i)
		m.files[device+"mem_info_vram_total"], m.files[device+"mem_info_vram_used"] = fmt.Sprintf("%d\n", c[1]<<20), fmt.Sprintf("%d\n", c[2]<<20)
	}
}

// able is a machine on which everything is right.
func able() machine {
	return machine{
		files: map[string]string{
			"dev/kfd": "", "sys/module/amdgpu/version": "6.12.12\n",
			"opt/rocm/lib/libamdhip64.so.6": "", "opt/rocm/lib/libhipblas.so.2": "", "opt/rocm/lib/librocblas.so.4": "",
			"opt/rocm/lib/rocblas/library/TensileLibrary_gfx1201.dat": "",
		},
		tools: map[string]string{"rocminfo": strings.Replace(rocminfo, "IGPU\n", "", 1), "amd-smi": strings.Replace(amdSMI, "USED MB", "300 MB", 1)},
	}
}

func (m machine) check(t *testing.T, script string) (out string, code int) {
	t.Helper()
	root := t.TempDir()
	for name, text := range m.files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	for name, text := range m.tools {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	search := bin + ":/usr/bin:/bin"
	if m.bare {
		search = bin
		for _, name := range strings.Fields("sh awk cat getconf grep head id ls sed sleep sort tail tr uname") {
			at, err := exec.LookPath(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(at, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command("sh", script)
	cmd.Env = []string{"PATH=" + search, "CHECK_ROOT=" + root}
	for _, value := range m.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(value, "ROOT", root))
	}
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// The advice is one sentence, the last line; exit code 0 means that it can run.
func TestCheckScript(t *testing.T) {
	own, err := filepath.Abs("../../recipes/check-rocm.sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, repl string) string {
		name := filepath.Join(t.TempDir(), "check.sh")
		if !strings.Contains(string(text), old) {
			t.Fatalf("the script has no %q", old)
		}
		if err := os.WriteFile(name, []byte(strings.Replace(string(text), old, repl, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
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
	for name, c := range map[string]struct {
		change func(m *machine)
		script string
		code   int
		facts  []string
		advice string
	}{
		"all is right": {nil, own, 0, []string{"cards:         gfx1201", "iGPU visible:   none", "free VRAM:     16004 of 16304 MiB", "driver:        amdgpu 6.12.12", "rocBLAS has:   kernels for gfx1201"}, "It can run here: ./llama-server -m MODEL.gguf -ngl 99"},
		"an iGPU":      {func(m *machine) { m.tools["rocminfo"] = strings.Replace(rocminfo, "IGPU\n", igpu, 1) }, own, 0, []string{"cards:         gfx1201 gfx1036", "iGPU visible:   gfx1036"}, "export HIP_VISIBLE_DEVICES=0"},
		"an iGPU first": {func(m *machine) {
			m.tools["rocminfo"] = strings.Replace(strings.Replace(rocminfo, "Agent 2\n", igpu+"Agent 2\n", 1), "IGPU\n", "", 1)
		}, own, 0, nil, "export HIP_VISIBLE_DEVICES=1"},
		"an iGPU that is hidden": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(rocminfo, "IGPU\n", igpu, 1), []string{"HIP_VISIBLE_DEVICES=0"}
		}, own, 0, nil, "It can run here"},
		"no driver": {func(m *machine) { delete(m.files, "dev/kfd") }, own, 1, []string{"driver:        none"}, "There is no /dev/kfd"},
		"another card": {func(m *machine) {
			m.tools["rocminfo"] = strings.ReplaceAll(able().tools["rocminfo"], "gfx1201", "gfx1100")
		}, own, 1, nil, "hold nothing for your gfx1100"},
		"a generic target": {func(m *machine) {
			m.tools["rocminfo"] = strings.ReplaceAll(able().tools["rocminfo"], "gfx1201", "gfx1200")
		}, with(`gfx="gfx1201"`, `gfx="gfx1100 gfx12-generic"`), 0, nil, "no kernels for gfx1200"},
		"only an iGPU": {func(m *machine) {
			m.tools["rocminfo"] = strings.ReplaceAll(able().tools["rocminfo"], "gfx1201", "gfx1151")
		}, with(`gfx="gfx1201"`, `gfx="gfx1151"`), 0, nil, "no kernels for gfx1151"},
		"no rocminfo": {func(m *machine) {
			delete(m.tools, "rocminfo")
			m.files["sys/class/kfd/kfd/topology/nodes/0/properties"] = "cpu_cores_count 16\ngfx_target_version 0\n"
			m.files["sys/class/kfd/kfd/topology/nodes/1/properties"] = "gfx_target_version 120001\n"
			m.files["sys/class/kfd/kfd/topology/nodes/2/properties"] = "gfx_target_version 90012\n"
		}, own, 0, []string{"cards:         gfx1201 gfx90c"}, "export HIP_VISIBLE_DEVICES=0"},
		"no amd-smi": {func(m *machine) {
			delete(m.tools, "amd-smi")
			m.files["sys/class/drm/card1/device/mem_info_vram_total"], m.files["sys/class/drm/card1/device/mem_info_vram_used"] = "17095983104\n", "15000000000\n"
		}, own, 0, []string{"free VRAM:     1998 of 16304 MiB"}, "other programs hold most of the card's memory"},
		"a full card":         {func(m *machine) { m.tools["amd-smi"] = strings.Replace(amdSMI, "USED MB", "16000 MB", 1) }, own, 0, []string{"free VRAM:     304 of 16304 MiB"}, "other programs hold most of the card's memory"},
		"no card":             {func(m *machine) { m.tools["rocminfo"] = "#!/bin/sh\nexit 1\n" }, own, 1, nil, "shows no card"},
		"no library":          {func(m *machine) { delete(m.files, "opt/rocm/lib/librocblas.so.4") }, own, 1, nil, "librocblas.so.4 is not installed"},
		"Debian's rocBLAS":    {func(m *machine) { delete(m.files, "opt/rocm/lib/rocblas/library/TensileLibrary_gfx1201.dat") }, own, 0, nil, "rocBLAS here has no kernels for gfx1201"},
		"a card without code": {cards("", old, new), own, 0, []string{"cards:         gfx1100 gfx1201", "iGPU visible:   none"}, "no code for, gfx1100: export HIP_VISIBLE_DEVICES=1"},
		"the same, hidden":    {cards("HIP_VISIBLE_DEVICES=1", old, new), own, 0, nil, "It can run here"},
		"the same, seen too":  {cards("HIP_VISIBLE_DEVICES=1,0", old, new), own, 0, nil, "export HIP_VISIBLE_DEVICES=1"},
		"the wrong one hidden": {
			cards("HIP_VISIBLE_DEVICES=0", old, new), own, 0, nil,
			"hides every card that it has code for: export HIP_VISIBLE_DEVICES=1",
		},
		"all are hidden":           {cards("HIP_VISIBLE_DEVICES=-1", new), own, 0, nil, "hides every card that it has code for: export HIP_VISIBLE_DEVICES=0"},
		"behind one that is not":   {cards("HIP_VISIBLE_DEVICES=7,0", new), own, 0, nil, "hides every card that it has code for: export HIP_VISIBLE_DEVICES=0"},
		"an empty list is none":    {cards("HIP_VISIBLE_DEVICES=", new), own, 0, nil, "It can run here"},
		"ROCr hides the old one":   {cards("ROCR_VISIBLE_DEVICES=1", old, new), own, 0, nil, "It can run here"},
		"ROCr hides, HIP counts":   {cards("ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0", old, new), own, 0, nil, "It can run here"},
		"ROCr hides the right one": {cards("ROCR_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=0", old, new), own, 0, nil, "unset ROCR_VISIBLE_DEVICES; export HIP_VISIBLE_DEVICES=1"},
		"a card by its name":       {cards("HIP_VISIBLE_DEVICES=GPU-1f0e", old, new), own, 0, nil, "export HIP_VISIBLE_DEVICES=1"},
		"the right one by its name": {func(m *machine) {
			cards("HIP_VISIBLE_DEVICES=GPU-00000000000000ff", old, new)(m)
			m.files["sys/class/kfd/kfd/topology/nodes/1/properties"] += "unique_id 254\n"
			m.files["sys/class/kfd/kfd/topology/nodes/2/properties"] += "unique_id 255\n"
		}, own, 0, nil, "It can run here"},
		"the wrong one by its name": {func(m *machine) {
			cards("ROCR_VISIBLE_DEVICES=GPU-f2a1b2c3d4e5f607", old, new)(m)
			m.files["sys/class/kfd/kfd/topology/nodes/1/properties"] += "unique_id 17483451782589183495\n" // more than 63 bits
			m.files["sys/class/kfd/kfd/topology/nodes/2/properties"] += "unique_id 255\n"
		}, own, 0, nil, "hides every card that it has code for: unset ROCR_VISIBLE_DEVICES; export HIP_VISIBLE_DEVICES=1"},
		"a name that no card has": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(able().tools["rocminfo"], "Marketing Name:          AMD Radeon", "Uuid:                    GPU-1f0e5a5a00112233\n  Marketing Name:          AMD Radeon", 1), []string{"HIP_VISIBLE_DEVICES=GPU-1f0e"}
		}, own, 0, nil, "hides every card that it has code for: export HIP_VISIBLE_DEVICES=0"},
		"rocminfo's name": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(able().tools["rocminfo"], "Marketing Name:          AMD Radeon", "Uuid:                    GPU-1f0e5a5a00112233\n  Marketing Name:          AMD Radeon", 1), []string{"HIP_VISIBLE_DEVICES=GPU-1f0e5a5a00112233"}
		}, own, 0, nil, "It can run here"},
		"cards without names": {func(m *machine) {
			m.tools["rocminfo"], m.env = strings.Replace(able().tools["rocminfo"], "Marketing Name:          AMD Radeon", "Uuid:                    GPU-XX\n  Marketing Name:          AMD Radeon", 1), []string{"HIP_VISIBLE_DEVICES=GPU-1f0e"}
		}, own, 0, nil, "It can run here"},
		"rocminfo sees them all": {func(m *machine) {
			m.tools["rocminfo"], m.env = "#!/bin/sh\ntest -z \"$ROCR_VISIBLE_DEVICES\" && echo '  Name:   gfx1100'\necho '  Name:   gfx1201'\n", []string{"ROCR_VISIBLE_DEVICES=1"}
		}, own, 0, []string{"cards:         gfx1100 gfx1201"}, "It can run here"},
		"an iGPU and two cards": {cards("", inside, new, new), own, 0, []string{"iGPU visible:   gfx1036"}, "export HIP_VISIBLE_DEVICES=1,2"},
		"one of two cards":      {cards("HIP_VISIBLE_DEVICES=2", inside, new, new), own, 0, []string{"iGPU visible:   none"}, "It can run here"},
		"a larger card": {
			cards("HIP_VISIBLE_DEVICES=1", old, [3]int{120001, 16304, 15000}), own, 0,
			[]string{"free VRAM:     1304 of 16304 MiB"},
			"other programs hold most of the card's memory",
		},
		"a larger card, amd-smi": {func(m *machine) {
			m.tools["rocminfo"], m.env = "#!/bin/sh\nprintf '  Name:   gfx1%s\\n' 100 201\n", []string{"HIP_VISIBLE_DEVICES=1"}
			m.tools["amd-smi"] = "#!/bin/sh\nfor i in '0 24560' '1 16304'; do set -- $i; printf 'GPU: %s\\nTOTAL_VRAM: %s MB\\nUSED_VRAM: 304 MB\\n' $1 $2; done\n"
		}, own, 0, []string{"free VRAM:     16000 of 16304 MiB"}, "It can run here"},
		"amd-smi without numbers":   {smi("N/A", "N/A"), own, 0, []string{"free VRAM:     not known"}, "It can run here"},
		"amd-smi without a use":     {smi("16304 MB", "N/A"), own, 0, []string{"free VRAM:     not known"}, "It can run here"},
		"amd-smi in GB":             {smi("16 GB", "0.5 GB"), own, 0, []string{"free VRAM:     15872 of 16384 MiB"}, "It can run here"},
		"amd-smi in something else": {smi("16 XB", "1 XB"), own, 0, []string{"free VRAM:     not known"}, "It can run here"},
		"ROCm's tools hang": {func(m *machine) {
			m.nodes(new)
			delete(m.files, "sys/class/drm/renderD128/device/mem_info_vram_total")
			m.tools["rocminfo"], m.tools["amd-smi"], m.tools["timeout"] = hanging, hanging, impatient
		}, own, 0, []string{"cards:         gfx1201", "free VRAM:     not known"}, "It can run here"},
		"no timeout": {func(m *machine) {
			m.nodes(new)
			m.tools["rocminfo"], m.tools["amd-smi"], m.bare = hanging, hanging, true
		}, own, 0, []string{"cards:         gfx1201", "free VRAM:     16004 of 16304 MiB"}, "It can run here"},
		"kernels of another rocBLAS": {func(m *machine) {
			delete(m.files, "opt/rocm/lib/rocblas/library/TensileLibrary_gfx1201.dat")
			m.files["opt/rocm-5.0/lib/rocblas/library/TensileLibrary_gfx1201.dat"] = ""
		}, own, 0, []string{"rocBLAS has:   no kernels for gfx1201"}, "rocBLAS here has no kernels for gfx1201"},
		"kernels beside one's own": {func(m *machine) {
			delete(m.files, "opt/rocm/lib/rocblas/library/TensileLibrary_gfx1201.dat")
			m.files["own/lib/librocblas.so.4"], m.files["own/lib/rocblas/library/TensileLibrary_gfx1201.dat"] = "", ""
			m.env = []string{"LD_LIBRARY_PATH=ROOT/own/lib"}
		}, own, 0, []string{"rocBLAS has:   kernels for gfx1201"}, "It can run here"},
		"an old glibc":           {nil, with(`glibc=""`, `glibc="99.1"`), 1, nil, "and the programs need 99.1 or newer"},
		"a glibc that is enough": {nil, with(`glibc=""`, `glibc="2.4"`), 0, nil, "It can run here"},
	} {
		m := able()
		if c.change != nil {
			c.change(&m)
		}
		out, code := m.check(t, c.script)
		lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
		if code != c.code || !strings.Contains(lines[len(lines)-1], c.advice) || lines[max(len(lines)-2, 0)] != "" {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", name, code, c.code, c.advice, out)
		}
		for _, fact := range c.facts {
			if !strings.Contains(out, fact+"\n") {
				t.Errorf("%s: no %q:\n%s", name, fact, out)
			}
		}
	}
}

// What a bundle's script says of the bundle is what is in it.
func TestCheckScriptOfBundle(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := repo.Recipe("rocm-gfx1201")
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.SetGFX("gfx1201,gfx12-generic"); err != nil {
		t.Fatal(err)
	}
	// As a checkout on Windows may have it.
	file := path.Join("recipes", rec.Bundle.Check)
	text, err := fs.ReadFile(repo.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	repo.FS = fstest.MapFS{file: {Data: crlf(text)}}
	c := &Chain{Options: Options{Repo: repo}, Recipe: rec}
	got, err := c.scripts(BuildInfo{Glibc: "2.38", Needs: []string{"libamdhip64.so.7", "libc.so.6", "libhipblas.so.3", "librocblas.so.5"}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got[checkScript]), "\r") {
		t.Error("the script has line ends of Windows")
	}
	for _, want := range []string{"\ngfx=\"gfx1201 gfx12-generic\"\n", "\nlibs=\"libamdhip64.so.7 libhipblas.so.3 librocblas.so.5\"\n", "\nglibc=\"2.38\"\n"} {
		if strings.Count(string(got[checkScript]), want) != 1 {
			t.Errorf("no %q", want)
		}
	}
}
