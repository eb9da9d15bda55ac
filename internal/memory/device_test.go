//go:build linux

package memory

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tool puts a program of that name, a shell script, alone on a PATH.
func tool(t *testing.T, name, script string) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + dir}
}

// nvidia200 answers --query-gpu every 20 ms with so many MiB before the program has
// begun, and after, and --query-compute-apps with the lines given.
func nvidia200(before, after int, apps string) string {
	return fmt.Sprintf(`case $1 in
*query-gpu*) while :; do m=%d; [ -e "$0.begun" ] && m=%d; echo "0, GPU-1, $m, 12288"; sleep 0.02; done ;;
*) %s ; exec sleep 60 ;;
esac
`, before, after, apps)
}

// untilBegun makes a script of nvidia-smi wait for begin.
const untilBegun = `until [ -e "$0.begun" ]; do sleep 0.02; done; `

// begin tells the nvidia-smi of that environment that the program has begun.
func begin(t *testing.T, env []string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(strings.TrimPrefix(env[0], "PATH="), "nvidia-smi.begun"), nil,
		0o644); err != nil {
		t.Fatal(err)
	}
}

// hold watches a program that holds 8 MiB for a while.
func hold(t *testing.T, p Probe, begun ...func()) Series {
	t.Helper()
	s, err := Start(t.Context(), Options{Every: MinEvery, Probe: p, Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := start(t, "hold 8")
	s.Attach(pid)
	for _, f := range begun {
		f()
	}
	time.Sleep(1500 * time.Millisecond)
	return s.Stop()
}

func noted(s Series, what string) bool {
	return slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, what) })
}

func TestNvidiaCardLessIdle(t *testing.T) {
	env := tool(t, "nvidia-smi", nvidia200(300, 1300, "true"))
	s := hold(t, NvidiaSMI(env), func() { begin(t, env) })
	peak, ok := s.Peak(VRAM)
	if !ok || peak != 1000<<20 || s.Device.Baseline != 300<<20 || s.Device.Total != 12288<<20 {
		t.Errorf("peak %d MiB (%v), device %+v, notes %v", peak>>20, ok, s.Device, s.Notes)
	}
	if !strings.Contains(s.Device.Source, "less its idle figure") {
		t.Errorf("source %q", s.Device.Source)
	}
}

// What was on the card before is no longer there: the peak is over what is left.
func TestBelowIdle(t *testing.T) {
	for _, c := range []struct {
		used           []int64 // MiB, of the looks after an idle figure of 900
		peak, baseline int64
		noted          bool
	}{
		{[]int64{900, 200, 1000}, 800, 200, true},
		{[]int64{900, 1400, 898}, 500, 900, false}, // rounding
	} {
		s := Series{Points: make([]Point, len(c.used))}
		var looks []reading
		for i, u := range c.used {
			looks = append(looks, reading{point: i, Reading: Reading{Used: u << 20, Total: 2 << 30, Cards: 1}})
		}
		s.Device, s.Notes = place(s.Points, []Reading{{Used: 900 << 20}}, looks, "test", nil)
		peak, ok := s.Peak(VRAM)
		if !ok || peak != c.peak<<20 || s.Device.Baseline != c.baseline<<20 ||
			noted(s, "fell below its idle figure of 900 MiB") != c.noted {
			t.Errorf("%v: peak %d MiB (%v), device %+v, notes %v", c.used, peak>>20, ok, s.Device, s.Notes)
		}
	}
}

// Two cards: rows come in turn, a reading is both.
func TestNvidiaTwoCards(t *testing.T) {
	script := `case $1 in
*query-gpu*) i=0; while [ $i -lt 400 ]; do echo "0, GPU-1, 100, 1000"; echo "1, GPU-2, $((200+i)), 1000"; i=$((i+1)); sleep 0.02; done ;;
*) exec sleep 60 ;;
esac
`
	s := hold(t, NvidiaSMI(tool(t, "nvidia-smi", script)))
	if s.Device.Cards != 2 || s.Device.Total != 2000<<20 {
		t.Errorf("device %+v, notes %v", s.Device, s.Notes)
	}
	if peak, ok := s.Peak(VRAM); !ok || peak <= 0 || peak > 300<<20 {
		t.Errorf("peak %d (%v)", peak, ok)
	}
}

func TestNvidiaTrouble(t *testing.T) {
	cases := map[string]struct {
		script string
		limit  time.Duration
		note   string
	}{
		"missing": {"", 0, "nvidia-smi is not installed"},
		"garbage": {"while :; do echo '@@@@ segfault ,,,'; sleep 0.05; done", 300 * time.Millisecond, "@@@@ segfault"},
		"no lines": {
			"while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxx; sleep 0.001; done", 300 * time.Millisecond,
			"printed no figures for 300ms",
		},
		"hangs": {"trap '' TERM; exec sleep 60", 300 * time.Millisecond, "printed no figures for 300ms"},
		"driver": {
			"echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\"; exit 9", 0,
			"exit code 9",
		},
		"MIG":  {"while :; do echo '0, GPU-1, [N/A], [N/A]'; sleep 0.05; done", 300 * time.Millisecond, "[N/A]"},
		"dies": {"echo '0, GPU-1, 5, 100'; echo '0, GPU-1, 5, 100'; sleep 0.4; exit 15", 0, "not known from here on"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := tool(t, "other", "")
			if c.script != "" {
				env = tool(t, "nvidia-smi", c.script)
			}
			s := hold(t, nvidiaSMI(env, c.limit))
			if !noted(s, c.note) {
				t.Errorf("no note has %q: %q", c.note, s.Notes)
			}
			if s.Device.Unknown == "" {
				t.Error("nothing says that VRAM is not known")
			}
			if name != "dies" && s.Has(VRAM) {
				t.Error("there are VRAM figures where the tool gave none")
			}
			if !s.Has(RSS) {
				t.Error("no RSS: the probe's trouble stopped the sampler")
			}
			for _, v := range Judge(s, JudgeOptions{}) {
				if v.Kind == VRAM && name != "dies" {
					t.Errorf("judged: %v", v)
				}
			}
		})
	}
}

// Another program that takes memory on the card meanwhile.
func TestNvidiaOtherProgram(t *testing.T) {
	other, stop := start(t, "hold 1")
	defer stop()
	apps := fmt.Sprintf(`while :; do echo "GPU-1, %d, 900"; sleep 0.05; done`, other)

	t.Run("no figures of our own", func(t *testing.T) {
		env := tool(t, "nvidia-smi", nvidia200(300, 2300, untilBegun+apps))
		s := hold(t, NvidiaSMI(env), func() { begin(t, env) })
		if !s.Device.Shared || !noted(s, fmt.Sprint(other)) {
			t.Errorf("device %+v, notes %q", s.Device, s.Notes)
		}
		if v := JudgeKind(s, VRAM, JudgeOptions{Unit: Second}); v.State != Unclear ||
			!strings.Contains(v.Reason, "another program") {
			t.Errorf("judged: %v", v)
		}
	})
	t.Run("figures per process", func(t *testing.T) {
		s, err := Start(t.Context(), Options{Every: MinEvery, Source: "test", Probe: nil})
		if err != nil {
			t.Fatal(err)
		}
		s.Attach(os.Getpid())
		_ = s.Stop()
		// The program's pid must be in what nvidia-smi prints, so it is started first.
		pid, _ := start(t, "hold 8")
		env := tool(t, "nvidia-smi", nvidia200(300, 2300, untilBegun+
			fmt.Sprintf(`while :; do echo "GPU-1, %d, 900"; echo "GPU-1, %d, 150"; sleep 0.05; done`, other, pid)))
		s, err = Start(t.Context(), Options{Every: MinEvery, Source: "test", Probe: NvidiaSMI(env)})
		if err != nil {
			t.Fatal(err)
		}
		s.Attach(pid)
		begin(t, env)
		time.Sleep(2 * time.Second)
		series := s.Stop()
		if peak, ok := series.Peak(VRAM); !ok || peak != 150<<20 || series.Device.Shared {
			t.Errorf("peak %d MiB (%v), device %+v, notes %q", peak>>20, ok, series.Device, series.Notes)
		}
	})
	t.Run("there before, and still", func(t *testing.T) {
		env := tool(t, "nvidia-smi", nvidia200(1200, 1300, apps))
		s := hold(t, NvidiaSMI(env), func() { begin(t, env) })
		if peak, _ := s.Peak(VRAM); peak != 100<<20 || s.Device.Shared {
			t.Errorf("peak %d MiB, device %+v, notes %q", peak>>20, s.Device, s.Notes)
		}
	})
}

// A sampler that cannot keep up says so.
func TestSlowSampler(t *testing.T) {
	slow := func() Progress { time.Sleep(70 * time.Millisecond); return Progress{} }
	s, err := Start(t.Context(), Options{Every: MinEvery, Progress: slow})
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := start(t, "hold 8")
	s.Attach(pid)
	time.Sleep(time.Second)
	series := s.Stop()
	if series.Missed < series.Ticks/2 || !noted(series, "could not keep up") {
		t.Errorf("%d of %d missed, notes %q", series.Missed, series.Ticks, series.Notes)
	}
	for _, v := range Judge(series, JudgeOptions{}) {
		if !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, "could not keep up") }) {
			t.Errorf("the verdict does not say so: %+v", v)
		}
	}
}

func TestEvery(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 2 * time.Second, -1} {
		if _, err := Start(t.Context(), Options{Every: d}); err == nil {
			t.Errorf("%v is taken", d)
		}
	}
}

func TestAMD(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		parse              func([]byte) (Reading, error)
		in                 string
		used, total, cards int64
	}{
		"rocm-smi": {parseROCmSMI, read("rocm-smi.json"), 27856896 + 17457152, 21458059264 + 17163091968, 2},
		"warning": {parseROCmSMI, "WARNING: low power\n" + read("rocm-smi.json"), 27856896 + 17457152, 21458059264 +
			17163091968, 2},
		"rocm old":  {parseROCmSMI, `{"card0": {"vram Total Memory (B)": "100", "vram Total Used Memory (B)": "7"}, "system": {"Driver version": "5.18"}}`, 7, 100, 1},
		"amd-smi 6": {parseAMDSMI, read("amd-smi-6.json"), 26 << 20, 20464 << 20, 1},
		"amd-smi 7": {parseAMDSMI, read("amd-smi-7.json"), 4096 << 20, 32704 << 20, 1},
		"amd strings": {
			parseAMDSMI, `[{"mem_usage":{"total_vram":{"value":"16384"},"used_vram":{"value":"8192"}}}]`,
			8192 << 20, 16384 << 20, 1,
		},
	} {
		r, err := c.parse([]byte(c.in))
		if err != nil || r.Used != c.used || r.Total != c.total || int64(r.Cards) != c.cards {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, bad := range []string{
		"", "{", "[]", "null", `{"card0":{}}`, `[{"mem_usage":"N/A"}]`,
		"Traceback (most recent call last):",
	} {
		if r, err := parseAMDSMI([]byte(bad)); err == nil {
			t.Errorf("amd-smi %q: %+v", bad, r)
		}
		if r, err := parseROCmSMI([]byte(bad)); err == nil {
			t.Errorf("rocm-smi %q: %+v", bad, r)
		}
	}
	s := hold(t, AMDSMI(tool(t, "amd-smi", "cat <<'E'\n"+read("amd-smi-6.json")+"E\n")))
	if !s.Has(VRAM) || s.Device.Baseline != 26<<20 {
		t.Errorf("device %+v, notes %q", s.Device, s.Notes)
	}
	s = hold(t, ROCmSMI(tool(t, "rocm-smi", "echo Segmentation fault; exit 139")))
	if s.Has(VRAM) || !noted(s, "rocm-smi") {
		t.Errorf("notes %q", s.Notes)
	}
}

func TestSysfs(t *testing.T) {
	root := t.TempDir()
	if _, err := readSysfs(root, nil); err == nil {
		t.Error("a machine without a card has figures")
	}
	for card, used := range map[string]string{"card0": "27856896\n", "card1": "100\n"} {
		dir := filepath.Join(root, "class/drm", card, "device")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{"mem_info_vram_used": used, "mem_info_vram_total": "21458059264\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(v), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "class/drm/card2/device"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := readSysfs(root, nil)
	if err != nil || r.Cards != 2 || r.Used != 27856996 || r.Total != 2*21458059264 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What nvidia-smi printed on an H100 (driver 580), and what it prints elsewhere.
func TestParseNvidia(t *testing.T) {
	b, err := os.ReadFile("testdata/nvidia-cards.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := []int64{0, 703, 715, 723, 735, 743}
	for i, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		c, err := parseNvidiaCard(l)
		if err != nil || c.used != want[i]<<20 || c.total != 81559<<20 {
			t.Errorf("%q: %+v, %v", l, c, err)
		}
	}
	for _, bad := range []string{
		"", "0", "0, GPU-1, [N/A], 100", "0, GPU-1, 5 MiB, 100 MiB", "0, , 1, 2",
		"-1, GPU, 1, 2", "No devices were found", "0, GPU-1, 1, 0", "0, GPU-1, 101, 100", "0,GPU,99999999999999999999,1",
	} {
		if c, err := parseNvidiaCard(bad); err == nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
	uuid, a, err := parseNvidiaApp("GPU-be90b5f6-8cf8-6afb-c59c-a3352ef355e2, 481, 686")
	if err != nil || uuid == "" || a.pid != 481 || a.bytes != 686<<20 {
		t.Errorf("%+v, %v", a, err)
	}
	for in, want := range map[string]int64{"GPU-1, 7, [N/A]": -1, "GPU-1, 7, [Insufficient Permissions]": -1} {
		if _, a, err := parseNvidiaApp(in); err != nil || a.bytes != want {
			t.Errorf("%q: %+v, %v", in, a, err)
		}
	}
}
